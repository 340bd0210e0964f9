// all_reduce.h draws the two ways, and `is_direct` chooses between them for n ranks: direct moves
// and adds 2 (n - 1) bytes for each byte, by parts 3 (n - 1) / n. The latter takes one message
// more, which costs as much as 256 KiB. Both go through the values piece by piece, so that the
// scratch holds at most about 4 MiB of others' elements. The sums of a piece travel together with
// the next piece:
//
//   message   0         1                   2
//   sent      piece 0   piece 1, sums 0     sums 1
//
// Rows are joined in the order of the ranks, 1,024 elements at a time.
#include "distributed/collectives/all_reduce.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <type_traits>
#include <vector>

#include "graph/ir/error.h"

namespace metronome::distributed {
namespace {

constexpr std::size_t kAlignment = 64;
/// One more message takes as long as so many bytes more in one.
constexpr std::size_t kMessage = 256 << 10;
/// So much of what others sent is in scratch at once.
constexpr std::size_t kInScratch = 4 << 20;

std::size_t align_up(std::size_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

/// Bytes of one row of the scratch, which holds a row of each other rank, one after the other.
std::size_t row_bytes(std::size_t bytes, int ranks) {
  return std::min(align_up(bytes), align_up(kInScratch / static_cast<std::size_t>(ranks - 1)));
}

/// Whole elements, so that `ranks` parts hold them all; the last ones may be shorter, or empty.
std::size_t part_bytes(Element element, std::size_t bytes, int ranks) {
  const std::size_t size = size_of(element), elements = bytes / size;
  const auto parts = static_cast<std::size_t>(ranks);
  return (elements + parts - 1) / parts * size;
}

/// Whether each rank sends all it has to each other one, which adds it itself, in place of a part
/// of it, and its sums of another: more bytes to send and to add, but one message less.
bool is_direct(std::size_t bytes, int ranks) {
  const auto n = static_cast<std::size_t>(ranks);
  const std::size_t directly = 2 * (n - 1) * bytes, by_parts = 3 * (n - 1) * bytes / n;
  return directly <= by_parts + kMessage;
}

template <class T>
bool is_nan(T x) {
  if constexpr (std::is_floating_point_v<T>) return std::isnan(x);
  return false;
}

/// A NaN, if one of them is.
constexpr auto larger = []<class T>(T a, T b) { return a < b || is_nan(b) ? b : a; };
constexpr auto smaller = []<class T>(T a, T b) { return b < a || is_nan(b) ? b : a; };

/// Integers wrap around, which signed ones may not.
constexpr auto sum = []<class T>(T a, T b) -> T {
  if constexpr (std::is_integral_v<T>) {
    using Unsigned = std::make_unsigned_t<T>;
    return static_cast<T>(static_cast<Unsigned>(a) + static_cast<Unsigned>(b));
  } else {
    return a + b;
  }
};

/// Rows of so many bytes, one of each rank.
using Rows = std::vector<const std::byte*>;

/// Elements that are joined at once: a number that is known lets compilers use vectors.
constexpr std::size_t kBlock = 1024;

/// Joins rows in their order, element by element, into `result`, which may be one of them.
template <std::size_t count, class T, class Join>
void join_block(const Rows& rows, std::size_t begin, T* result, T divisor, Join join) {
  T block[count];
  std::memcpy(block, rows[0] + begin * sizeof(T), sizeof block);
  for (std::size_t r = 1; r < rows.size(); ++r) {
    const T* const row = reinterpret_cast<const T*>(rows[r]) + begin;
    for (std::size_t i = 0; i < count; ++i) block[i] = join(block[i], row[i]);
  }
  if (divisor != 1) {
    for (std::size_t i = 0; i < count; ++i) block[i] /= divisor;
  }
  std::memcpy(result + begin, block, sizeof block);
}

template <class T, class Join>
void join_rows(const Rows& rows, T* result, std::size_t count, T divisor, Join join) {
  std::size_t i = 0;
  for (; i + kBlock <= count; i += kBlock) join_block<kBlock>(rows, i, result, divisor, join);
  for (; i < count; ++i) join_block<1>(rows, i, result, divisor, join);
}

template <class T>
void join(ReduceOp op, const Rows& rows, std::span<std::byte> result) {
  T* const to = reinterpret_cast<T*>(result.data());
  const std::size_t count = result.size() / sizeof(T);
  switch (op) {
    case ReduceOp::max:
      return join_rows(rows, to, count, T{1}, larger);
    case ReduceOp::min:
      return join_rows(rows, to, count, T{1}, smaller);
    case ReduceOp::sum:
      return join_rows(rows, to, count, T{1}, sum);
    case ReduceOp::mean:
      return join_rows(rows, to, count, static_cast<T>(rows.size()), sum);
  }
}

void join(ReduceOp op, Element element, const Rows& rows, std::span<std::byte> result) {
  if (element == f32) return join<float>(op, rows, result);
  if (element == f64) return join<double>(op, rows, result);
  join<std::int64_t>(op, rows, result);
}

/// One all-reduce: what it exchanges, a piece at a time, and where others' rows come to.
class AllReduceRun {
 public:
  AllReduceRun(Communicator& ranks, ReduceOp op, Element element, std::span<std::byte> values,
               std::span<std::byte> scratch)
      : ranks_(ranks), op_(op), element_(element), values_(values), scratch_(scratch) {}

  void directly() {
    const std::size_t most = row_bytes(values_.size(), ranks_.size());
    for (std::size_t begin = 0; begin < values_.size(); begin += most) {
      const auto piece = values_.subspan(begin, std::min(most, values_.size() - begin));
      clear();
      for_others([&](int r) { sent_.push_back({r, piece}); });
      receive_rows(piece);
      ranks_.transfer(sent_, received_);
      join(op_, element_, rows_, piece);
    }
  }

  /// Sums of a piece go out together with the next piece.
  void by_parts() {
    part_ = part_bytes(element_, values_.size(), ranks_.size());
    most_ = row_bytes(part_, ranks_.size());
    const std::size_t pieces = (part_ + most_ - 1) / most_;
    for (std::size_t i = 0; i <= pieces; ++i) {
      clear();
      if (i < pieces) {
        for_others([&](int r) { sent_.push_back({r, piece(r, i)}); });
        receive_rows(piece(ranks_.rank(), i));
      }
      if (i > 0) {
        for_others([&](int r) {
          sent_.push_back({r, piece(ranks_.rank(), i - 1)});
          received_.push_back({r, piece(r, i - 1)});
        });
      }
      ranks_.transfer(sent_, received_);
      if (i < pieces) join(op_, element_, rows_, piece(ranks_.rank(), i));
    }
  }

 private:
  template <class Call>
  void for_others(Call call) const {
    for (int r = 0; r < ranks_.size(); ++r) {
      if (r != ranks_.rank()) call(r);
    }
  }

  void clear() {
    sent_.clear();
    received_.clear();
  }

  /// Others' rows beside this rank's own.
  void receive_rows(std::span<std::byte> own) {
    rows_.clear();
    std::size_t begin = 0;
    for (int r = 0; r < ranks_.size(); ++r) {
      if (r == ranks_.rank()) {
        rows_.push_back(own.data());
        continue;
      }
      const auto row = scratch_.subspan(begin, own.size());
      received_.push_back({r, row});
      rows_.push_back(row.data());
      begin += align_up(own.size());
    }
  }

  /// Piece i of the part that rank r joins: empty where it ends before.
  std::span<std::byte> piece(int r, std::size_t i) const {
    const std::size_t last = std::min(values_.size(), part_ * static_cast<std::size_t>(r + 1));
    const std::size_t begin = std::min(last, part_ * static_cast<std::size_t>(r) + i * most_);
    return values_.subspan(begin, std::min(most_, last - begin));
  }

  Communicator& ranks_;
  ReduceOp op_;
  Element element_;
  std::span<std::byte> values_, scratch_;
  std::size_t part_ = 0, most_ = 0;
  Rows rows_;
  std::vector<Communicator::OutgoingMessage> sent_;
  std::vector<Communicator::IncomingMessage> received_;
};

}  // namespace

bool reduces(ReduceOp op, Element element) {
  return element == f32 || element == f64 || (element == i64 && op != ReduceOp::mean);
}

static void require_reducible(ReduceOp op, Element element) {
  if (reduces(op, element)) return;
  throw InternalError(fmt::format("the {} of {} over ranks", name_of(op), name_of(element)));
}

static void require_scratch(const char* collective, std::span<std::byte> scratch,
                            std::size_t needed, std::size_t bytes, int ranks) {
  if (scratch.size() >= needed) return;
  throw InternalError(fmt::format("{} bytes of scratch for {} of {} over {} ranks", scratch.size(),
                                  collective, bytes, ranks));
}

std::size_t reduce_scatter_scratch(std::size_t bytes) { return align_up(bytes); }

void reduce_scatter(Communicator& ranks, ReduceOp op, Element element,
                    std::span<const std::byte> from, std::span<std::byte> to,
                    std::span<std::byte> scratch) {
  require_reducible(op, element);
  if (to.empty()) return;
  require_scratch("reduce_scatter", scratch, from.size(), from.size(), ranks.size());
  Rows rows;
  for (int r = 0; r < ranks.size(); ++r) {
    rows.push_back(scratch.data() + static_cast<std::size_t>(r) * to.size());
  }
  ranks.all_to_all(from, scratch.first(from.size()));
  join(op, element, rows, to);
}

std::size_t all_reduce_scratch(Element element, std::int64_t count, int ranks) {
  if (ranks == 1) return 0;
  const std::size_t bytes = static_cast<std::size_t>(count) * size_of(element);
  const std::size_t at_once = is_direct(bytes, ranks) ? bytes : part_bytes(element, bytes, ranks);
  return static_cast<std::size_t>(ranks - 1) * row_bytes(at_once, ranks);
}

void all_reduce(Communicator& ranks, ReduceOp op, Element element, std::span<std::byte> values,
                std::span<std::byte> scratch) {
  const int size = ranks.size();
  require_reducible(op, element);
  if (size == 1 || values.empty()) return;
  const auto count = static_cast<std::int64_t>(values.size() / size_of(element));
  require_scratch("all_reduce", scratch, all_reduce_scratch(element, count, size), values.size(),
                  size);
  AllReduceRun reducing(ranks, op, element, values, scratch);
  ranks.begin("all_reduce", values.size());
  if (is_direct(values.size(), size)) {
    reducing.directly();
  } else {
    reducing.by_parts();
  }
  ranks.end();
}

}  // namespace metronome::distributed
