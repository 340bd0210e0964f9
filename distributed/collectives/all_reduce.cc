#include "distributed/collectives/all_reduce.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <type_traits>

#include "graph/ir/error.h"

namespace metronome {

std::string_view name_of(ReduceOp op) {
  switch (op) {
    case ReduceOp::sum:
      return "sum";
    case ReduceOp::mean:
      return "mean";
    case ReduceOp::max:
      return "max";
    case ReduceOp::min:
      return "min";
  }
  throw InternalError("a reduction without a name");
}

namespace distributed {
namespace {

constexpr std::size_t kAlignment = 64;

/// Bytes of one rank's part: whole elements, so that `ranks` parts hold them all.
std::size_t part_bytes(Element element, std::size_t bytes, int ranks) {
  const std::size_t size = size_of(element), elements = bytes / size;
  const auto parts = static_cast<std::size_t>(ranks);
  return (elements + parts - 1) / parts * size;
}

std::size_t aligned(std::size_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

template <class T>
bool is_nan(T x) {
  if constexpr (std::is_floating_point_v<T>) return std::isnan(x);
  return false;
}

/// A NaN, if one of them is.
template <class T>
T larger(T a, T b) {
  return a < b || is_nan(b) ? b : a;
}

template <class T>
T smaller(T a, T b) {
  return b < a || is_nan(b) ? b : a;
}

/// Integers wrap around, which signed ones may not.
template <class T>
T sum(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    using Unsigned = std::make_unsigned_t<T>;
    return static_cast<T>(static_cast<Unsigned>(a) + static_cast<Unsigned>(b));
  } else {
    return a + b;
  }
}

/// Joins `ranks` rows of `count` elements into the first, in their order.
template <class T, class Join>
void join_rows(T* rows, std::size_t count, int ranks, Join join) {
  for (int rank = 1; rank < ranks; ++rank) {
    const T* const row = rows + static_cast<std::size_t>(rank) * count;
    for (std::size_t i = 0; i < count; ++i) rows[i] = join(rows[i], row[i]);
  }
}

template <class T>
void join(ReduceOp op, std::byte* parts, std::size_t bytes, int ranks) {
  T* const rows = reinterpret_cast<T*>(parts);
  const std::size_t count = bytes / sizeof(T);
  switch (op) {
    case ReduceOp::max:
      return join_rows(rows, count, ranks, larger<T>);
    case ReduceOp::min:
      return join_rows(rows, count, ranks, smaller<T>);
    case ReduceOp::sum:
    case ReduceOp::mean:
      join_rows(rows, count, ranks, sum<T>);
  }
  if (op == ReduceOp::sum) return;
  for (std::size_t i = 0; i < count; ++i) rows[i] /= static_cast<T>(ranks);
}

void join(ReduceOp op, Element element, std::byte* parts, std::size_t bytes, int ranks) {
  if (element == f32) return join<float>(op, parts, bytes, ranks);
  if (element == f64) return join<double>(op, parts, bytes, ranks);
  join<std::int64_t>(op, parts, bytes, ranks);
}

}  // namespace

bool reduces(ReduceOp op, Element element) {
  return element == f32 || element == f64 || (element == i64 && op != ReduceOp::mean);
}

static void require_reducible(ReduceOp op, Element element) {
  if (reduces(op, element)) return;
  throw InternalError(fmt::format("the {} of {} over ranks", name_of(op), name_of(element)));
}

std::size_t reduce_scatter_scratch(std::size_t bytes) { return aligned(bytes); }

void reduce_scatter(Communicator& ranks, ReduceOp op, Element element,
                    std::span<const std::byte> from, std::span<std::byte> to,
                    std::span<std::byte> scratch) {
  require_reducible(op, element);
  if (to.empty()) return;
  if (scratch.size() < from.size()) {
    throw InternalError(fmt::format("{} bytes of scratch for reduce_scatter of {} over {} ranks",
                                    scratch.size(), from.size(), ranks.size()));
  }
  const std::span<std::byte> got = scratch.first(from.size());
  ranks.all_to_all(from, got);
  join(op, element, got.data(), to.size(), ranks.size());
  std::memcpy(to.data(), got.data(), to.size());
}

std::size_t all_reduce_scratch(Element element, std::int64_t count, int ranks) {
  const std::size_t bytes = static_cast<std::size_t>(count) * size_of(element);
  return 2 * aligned(part_bytes(element, bytes, ranks) * static_cast<std::size_t>(ranks));
}

void all_reduce(Communicator& ranks, ReduceOp op, Element element, std::span<std::byte> values,
                std::span<std::byte> scratch) {
  const int size = ranks.size();
  require_reducible(op, element);
  if (size == 1 || values.empty()) return;
  const std::size_t part = part_bytes(element, values.size(), size);
  const std::size_t whole = part * static_cast<std::size_t>(size);
  if (scratch.size() < 2 * aligned(whole)) {
    throw InternalError(fmt::format("{} bytes of scratch for all_reduce of {} over {} ranks",
                                    scratch.size(), values.size(), size));
  }
  const std::span<std::byte> sent = scratch.first(whole);
  const std::span<std::byte> got = scratch.subspan(aligned(whole), whole);
  // What fills up the last part is joined like numbers, and dropped.
  std::memcpy(sent.data(), values.data(), values.size());
  std::memset(sent.data() + values.size(), 0, whole - values.size());
  ranks.all_to_all(sent, got);
  join(op, element, got.data(), part, size);
  ranks.all_gather(got.first(part), sent);
  std::memcpy(values.data(), sent.data(), values.size());
}

}  // namespace distributed
}  // namespace metronome
