// Attention in blocks of kQueries x kKeys scores, which stay in the core's caches:
//
//                keys 0    64   128
//   queries  0   [ S ] [ S ] [ S ]      S = scale Q K^T of a block; what a query does not see is
//           96   [ S ] [ S ] [ S ]      -inf, and blocks of which no query sees any are left out
//
//   forward    one item a head and block of queries, along the keys. Each row keeps its largest
//              score and the sum of its exponentials; when a block brings a larger one, both the
//              sum and the row of the result are multiplied by exp(before - now) first:
//                  P = exp(S - largest),   sum += rows of P,   result += P V
//              At the end result / sum, and largest + log(sum) is saved.
//   backward   one item a head of keys and part of its blocks of keys, along the queries:
//                  P = exp(S - saved),   dS = P (G V^T - D),   D = rows of G result
//                  dV += P^T G,   dK += dS^T Q,   dQ += dS K
//              Items of one head write their dQ apart, and these are added in their order. How many
//              there are follows from the sizes, so bits do not depend on the number of threads.
//
// What a query does not see has a weight of 0, which times an infinity or a NaN is a NaN. So rows
// are scanned before they are multiplied by weights, keys and values as well as queries and their
// gradients; a block that is not finite is multiplied row by row, without the pairs not seen.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "ops/attention/flash_attention.h"
#include "ops/cpu/gemm.h"
#include "ops/cpu/isa/gemm_tile.h"
#include "ops/cpu/launch.h"
#include "ops/cpu/math.h"
#include "ops/cpu/norms.h"
#include "ops/cpu/parallel.h"
#include "ops/rules/by_element.h"

namespace metronome::METRONOME_ISA {
namespace {

/// Rows and columns of a block: 96 is a multiple of the rows of a tile, 64 of its columns.
constexpr std::int64_t kQueries = 96, kKeys = 64;
/// Items that the gradient has at least, where there are as many blocks of keys.
constexpr std::int64_t kLeastItems = 16;

constexpr std::int64_t blocks_in(std::int64_t n, std::int64_t size) {
  return (n + size - 1) / size;
}
/// The size of the last block, or of any block where there is none.
constexpr std::int64_t last_of(std::int64_t n, std::int64_t size) {
  return n == 0 ? size : (n - 1) % size + 1;
}
/// A multiple of a cache line.
constexpr std::int64_t round_to_line(std::int64_t elements) { return (elements + 15) / 16 * 16; }

/// A mask of bool, broadcast to [heads, L, S].
struct SeenMask {
  const bool* data = nullptr;       ///< null: all is seen
  std::vector<std::int64_t> heads;  ///< [head] where its rows begin
  std::int64_t row = 0, column = 0;
};

SeenMask mask_of(const Type& type, const void* data, const Type& query) {
  SeenMask mask{static_cast<const bool*>(data), {0}};
  Shape shape(static_cast<std::size_t>(query.rank()) - type.shape.size(), 1);
  shape.insert(shape.end(), type.shape.begin(), type.shape.end());
  std::int64_t stride = 1;
  for (std::size_t d = shape.size(); d-- > 0;) {
    const std::int64_t step = shape[d] == 1 ? 0 : stride;
    stride *= shape[d];
    if (d + 1 == shape.size()) {
      mask.column = step;
    } else if (d + 2 == shape.size()) {
      mask.row = step;
    } else {  // what was counted so far is of the inner dimensions
      std::vector<std::int64_t> all;
      for (std::int64_t i = 0; i < query.shape[d]; ++i) {
        for (const std::int64_t inner : mask.heads) all.push_back(i * step + inner);
      }
      mask.heads = std::move(all);
    }
  }
  return mask;
}

/// One block: which queries of which head, and which keys.
struct FlashBlock {
  std::int64_t head, query, queries, key, keys;
};

/// The scores of blocks, and products by the sizes of a block.
template <class T>
struct FlashScores {
  using S = Simd<T>;
  using Reg = typename S::Reg;
  /// By whether the queries are the last ones, and whether the keys are.
  using Products = std::array<std::array<OwnProduct, 2>, 2>;

  FlashSizes sizes;
  T scale;
  SeenMask mask;
  const T* query;
  const T* key;
  const T* value;
  Products scores;  ///< of queries and packed keys

  FlashScores(const FlashSizes& sizes, double scale)
      : sizes(sizes),
        scale(static_cast<T>(scale)),
        scores(products(
            {.k = sizes.width, .lda = sizes.width, .ldb = kKeys, .ldc = kKeys, .batch = {}},
            &Gemm::m, &Gemm::n)) {}

  /// `gemm`, of whose sizes m, n and k two are a block's queries and keys.
  Products products(Gemm gemm, std::int64_t Gemm::* queries, std::int64_t Gemm::* keys) const {
    Products all;
    gemm.element = element_of();
    gemm.addend = true;
    for (const int last_query : {0, 1}) {
      for (const int last_key : {0, 1}) {
        gemm.*queries = last_query ? last_of(sizes.queries, kQueries) : kQueries;
        gemm.*keys = last_key ? last_of(sizes.keys, kKeys) : kKeys;
        all[last_query][last_key] = OwnProduct(gemm);
      }
    }
    return all;
  }
  static constexpr Element element_of() { return sizeof(T) == 4 ? f32 : f64; }

  std::int64_t query_blocks() const { return blocks_in(sizes.queries, kQueries); }
  std::int64_t key_blocks() const { return blocks_in(sizes.keys, kKeys); }
  FlashBlock block(std::int64_t head, std::int64_t queries, std::int64_t keys) const {
    FlashBlock b{head, queries * kQueries, kQueries, keys * kKeys, kKeys};
    b.queries = std::min(b.queries, sizes.queries - b.query);
    b.keys = std::min(b.keys, sizes.keys - b.key);
    return b;
  }
  const OwnProduct& of(const Products& all, const FlashBlock& b) const {
    return all[b.query + b.queries == sizes.queries][b.key + b.keys == sizes.keys];
  }

  const T* queries_of(const FlashBlock& b) const { return row(query, b, sizes.width); }
  const T* keys_of(const FlashBlock& b) const { return key + key_row(b) * sizes.width; }
  const T* values_of(const FlashBlock& b) const { return value + key_row(b) * sizes.value_width; }
  /// The block's queries in a tensor [heads, L, width].
  template <class Any>
  Any* row(Any* of, const FlashBlock& b, std::int64_t width) const {
    return of + (b.head * sizes.queries + b.query) * width;
  }
  std::int64_t key_row(const FlashBlock& b) const {
    return b.head / sizes.group() * sizes.keys + b.key;
  }

  /// to[width, keys] = rows[keys, width]
  static void transpose(const T* rows, std::int64_t width, std::int64_t keys, T* to) {
    pack_transposed(rows, width, width, keys, to, kKeys);
  }

  /// The products of a row as scores: scaled, and -inf where the query does not see the key, also
  /// to the end of the last register. True if it sees any.
  bool finish_row(const FlashBlock& b, std::int64_t i, T* row) const {
    const Reg unseen = S::set(-std::numeric_limits<T>::infinity()), by = S::set(scale);
    const std::int64_t seen =
        std::clamp<std::int64_t>(sizes.count_seen_keys(b.query + i) - b.key, 0, b.keys);
    for (std::int64_t j = 0; j < b.keys; j += S::kWidth) {
      const auto lanes = S::mask(std::clamp<std::int64_t>(seen - j, 0, S::kWidth));
      S::store(row + j, S::select(lanes, S::load(row + j) * by, unseen));
    }
    if (mask.data == nullptr) return seen > 0;
    const bool* const sees = mask.data + mask.heads[static_cast<std::size_t>(b.head)] +
                             (b.query + i) * mask.row + b.key * mask.column;
    bool any = false;
    for (std::int64_t j = 0; j < seen; ++j) {
      const bool see = sees[j * mask.column];
      any |= see;
      if (!see) row[j] = -std::numeric_limits<T>::infinity();
    }
    return any;
  }

  static Reg exponential(Reg x) { return exp(Vector<T>(x)); }

  bool sees(const FlashBlock& b, std::int64_t i, std::int64_t j) const {
    if (b.key + j >= sizes.count_seen_keys(b.query + i)) return false;
    return mask.data == nullptr || mask.data[mask.heads[static_cast<std::size_t>(b.head)] +
                                             (b.query + i) * mask.row + (b.key + j) * mask.column];
  }
  bool hides() const { return sizes.is_causal || mask.data != nullptr; }

  /// to[queries, width] += weights[queries, kKeys] rows[keys, width], by `product` if the rows are
  /// finite or all is seen.
  void add_weighted(const FlashBlock& b, const OwnProduct& product, const T* weights, const T* rows,
                    std::int64_t width, T* to) const {
    if (!hides() || all_finite(rows, b.keys * width)) return product(weights, rows, to, to);
    for (std::int64_t i = 0; i < b.queries; ++i) {
      for (std::int64_t j = 0; j < b.keys; ++j) {
        if (!sees(b, i, j)) continue;
        for (std::int64_t k = 0; k < width; ++k) {
          to[i * width + k] += weights[i * kKeys + j] * rows[j * width + k];
        }
      }
    }
  }
  /// to[keys, width] += weights[queries, kKeys]^T rows[queries, width], likewise.
  void add_weighted_by_key(const FlashBlock& b, const OwnProduct& product, const T* weights,
                           const T* rows, std::int64_t width, T* to) const {
    if (!hides() || all_finite(rows, b.queries * width)) return product(weights, rows, to, to);
    for (std::int64_t i = 0; i < b.queries; ++i) {
      for (std::int64_t j = 0; j < b.keys; ++j) {
        if (!sees(b, i, j)) continue;
        for (std::int64_t k = 0; k < width; ++k) {
          to[j * width + k] += weights[i * kKeys + j] * rows[i * width + k];
        }
      }
    }
  }
  /// x - x is 0 for what is finite, and else NaN.
  static bool all_finite(const T* x, std::int64_t n) {
    Reg found = S::zero();
    for_registers<T>(n, [&](const auto& load, const auto&, const auto&) {
      const Reg v = load(x);
      found = found + (v - v);
    });
    return S::sum(found) == T(0);
  }
};

/// f(i) for each register that holds some of n elements, of which i is its first.
template <class T, class F>
inline void for_whole_registers(std::int64_t n, const F& f) {
  for (std::int64_t j = 0; j < n; j += Simd<T>::kWidth) f(j);
}

/// Multiplies n elements.
template <class T>
void multiply(T* x, std::int64_t n, T by) {
  using S = Simd<T>;
  for_registers<T>(
      n, [&](const auto& load, const auto& store, const auto&) { store(x, load(x) * S::set(by)); });
}

template <class T>
struct FlashForward : FlashScores<T> {
  using Base = FlashScores<T>;
  using Base::sizes;
  using typename Base::Reg;
  using typename Base::S;

  typename Base::Products results;  ///< P V, added to what is there
  T* result;
  T* saved;  ///< or null

  FlashForward(const FlashSizes& sizes, double scale)
      : Base(sizes, scale),
        results(this->products({.n = sizes.value_width,
                                .lda = kKeys,
                                .ldb = sizes.value_width,
                                .ldc = sizes.value_width,
                                .batch = {}},
                               &Gemm::m, &Gemm::k)) {}

  /// A thread's own: packed keys, scores, and three numbers of each query.
  std::int64_t thread_elements() const {
    return round_to_line(sizes.width * kKeys) + kQueries * kKeys + 3 * kQueries;
  }
  std::int64_t items() const { return sizes.heads * this->query_blocks(); }

  /// Blocks of queries from both ends in turn, as late ones see more keys than early ones.
  void run(std::int64_t item, T* own) const {
    const std::int64_t blocks = this->query_blocks(), place = item % blocks;
    const std::int64_t queries = place % 2 == 0 ? place / 2 : blocks - 1 - place / 2;
    T* const packed = own;
    T* const scores = packed + round_to_line(sizes.width * kKeys);
    T* const largest = scores + kQueries * kKeys;
    T* const total = largest + kQueries;
    T* const factor = total + kQueries;
    std::fill(largest, total, -std::numeric_limits<T>::infinity());
    std::fill(total, factor, T(0));
    std::array<bool, kQueries> any = {};

    FlashBlock b = this->block(item / blocks, queries, 0);
    T* const to = this->row(result, b, sizes.value_width);
    std::fill(to, to + b.queries * sizes.value_width, T(0));
    const std::int64_t seen = sizes.count_seen_keys(b.query + b.queries - 1);
    for (std::int64_t keys = 0; keys < blocks_in(seen, kKeys); ++keys) {
      b = this->block(b.head, queries, keys);
      this->transpose(this->keys_of(b), sizes.width, b.keys, packed);
      this->of(this->scores, b)(this->queries_of(b), packed, nullptr, scores);
      find_largest(b, scores, largest, factor, any);
      for (std::int64_t i = 0; i < b.queries; ++i) {
        add_row(b, scores + i * kKeys, largest[i], factor[i], total[i], to + i * sizes.value_width);
      }
      this->add_weighted(b, this->of(results, b), scores, this->values_of(b), sizes.value_width,
                         to);
    }
    finish(b, largest, total, any, to);
  }

 private:
  /// Finishes the scores, and finds the largest of each row until now, and the factor by which its
  /// sums until now are multiplied.
  void find_largest(const FlashBlock& b, T* scores, T* largest, T* factor,
                    std::array<bool, kQueries>& any) const {
    std::copy(largest, largest + kQueries, factor);
    for (std::int64_t i = 0; i < b.queries; ++i) {
      T* const row = scores + i * kKeys;
      any[static_cast<std::size_t>(i)] |= this->finish_row(b, i, row);
      Reg most = S::set(largest[i]);
      for_whole_registers<T>(b.keys,
                             [&](std::int64_t j) { most = S::max(S::load(row + j), most); });
      largest[i] = S::maximum(most);
    }
    for_whole_registers<T>(kQueries, [&](std::int64_t i) {
      const Reg now = shift_of(S::load(largest + i));
      S::store(factor + i, this->exponential(S::load(factor + i) - now));
    });
  }

  /// The number that is taken off the scores: the largest, or 0 where there was none yet.
  static Reg shift_of(Reg largest) {
    const Reg lowest = S::set(-std::numeric_limits<T>::infinity());
    return S::if_less(lowest, largest, largest, S::zero());
  }
  static T shift_of(T largest) {
    return largest == -std::numeric_limits<T>::infinity() ? T(0) : largest;
  }

  /// Scores become exponentials.
  void add_row(const FlashBlock& b, T* row, T largest, T factor, T& total, T* to) const {
    const Reg shift = S::set(shift_of(largest));
    Reg sum = S::zero();
    for_whole_registers<T>(b.keys, [&](std::int64_t j) {
      const Reg p = this->exponential(S::load(row + j) - shift);
      S::store(row + j, p);
      sum = sum + p;
    });
    total = total * factor + S::sum(sum);
    if (factor != T(1)) multiply(to, sizes.value_width, factor);
  }

  /// A query that sees no key has a result of zeros.
  void finish(const FlashBlock& b, const T* largest, const T* total,
              const std::array<bool, kQueries>& any, T* to) const {
    for (std::int64_t i = 0; i < b.queries; ++i) {
      const bool sees = any[static_cast<std::size_t>(i)];
      T* const line = to + i * sizes.value_width;
      const Reg by = S::set(sees ? total[i] : T(1));
      if (!sees) std::fill(line, line + sizes.value_width, T(0));
      for_registers<T>(sizes.value_width, [&](const auto& load, const auto& store, const auto&) {
        store(line, load(line) / by);
      });
      if (saved == nullptr) continue;
      *this->row(saved + i, b, 1) = sees ? largest[i] + std::log(total[i]) : T(0);
    }
  }
};

template <class T>
struct FlashBackward : FlashScores<T> {
  using Base = FlashScores<T>;
  using Base::sizes;
  using typename Base::Products;
  using typename Base::Reg;
  using typename Base::S;

  Products weights;  ///< G V^T, of packed values
  Products values, keys, queries;
  const T* grad;
  const T* result;
  const T* saved;
  T* grad_query;
  T* grad_key;
  T* grad_value;
  T* scratch;

  FlashBackward(const FlashSizes& s, double scale)
      : Base(s, scale),
        weights(this->products(
            {.k = s.value_width, .lda = s.value_width, .ldb = kKeys, .ldc = kKeys, .batch = {}},
            &Gemm::m, &Gemm::n)),
        values(into_keys(s.value_width)),
        keys(into_keys(s.width)),
        queries(this->products(
            {.n = s.width, .lda = kKeys, .ldb = s.width, .ldc = s.width, .batch = {}}, &Gemm::m,
            &Gemm::k)) {}

  /// A thread's own: packed keys and values, scores, and their gradients.
  std::int64_t thread_elements() const {
    return round_to_line((sizes.width + sizes.value_width) * kKeys) + 2 * kQueries * kKeys;
  }
  std::int64_t parts() const {
    return std::min(this->key_blocks(),
                    blocks_in(kLeastItems, std::max<std::int64_t>(sizes.key_heads, 1)));
  }
  std::int64_t items() const { return sizes.key_heads * parts(); }
  /// D, and the shares of the queries' gradient if a head has several parts.
  std::int64_t shared_elements() const {
    return round_to_line(query_rows()) +
           (parts() > 1 ? round_to_line(parts() * query_rows() * sizes.width) : 0);
  }

  void run(int threads) const {
    T* const own = scratch + shared_elements();
    parallel_for(threads, query_rows(), kQueries, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) scratch[i] = sum_of_products(i);
    });
    parallel_for(threads, items(), 1, [&](std::int64_t begin, std::int64_t end, int part) {
      for (std::int64_t i = begin; i < end; ++i) run_item(i, own + part * thread_elements());
    });
    parallel_for(threads, query_rows(), kQueries,
                 [&](std::int64_t begin, std::int64_t end) { add_parts(begin, end); });
  }

 private:
  std::int64_t query_rows() const { return sizes.heads * sizes.queries; }
  /// The share of the queries' gradient that a part writes.
  T* queries_to(std::int64_t part) const {
    if (parts() == 1) return grad_query;
    return scratch + round_to_line(query_rows()) + part * query_rows() * sizes.width;
  }
  Products into_keys(std::int64_t width) const {
    return this->products(
        {.n = width, .transpose_a = true, .lda = kKeys, .ldb = width, .ldc = width, .batch = {}},
        &Gemm::k, &Gemm::m);
  }

  T sum_of_products(std::int64_t row) const {
    Reg sum = S::zero();
    const T* const g = grad + row * sizes.value_width;
    const T* const y = result + row * sizes.value_width;
    for_registers<T>(sizes.value_width, [&](const auto& load, const auto&, const auto&) {
      sum = S::fma(load(g), load(y), sum);
    });
    return S::sum(sum);
  }

  void run_item(std::int64_t item, T* own) const {
    const std::int64_t key_head = item / parts(), part = item % parts();
    T* const packed_keys = own;
    T* const packed_values = packed_keys + sizes.width * kKeys;
    T* const scores = own + round_to_line((sizes.width + sizes.value_width) * kKeys);
    T* const changes = scores + kQueries * kKeys;
    const std::int64_t first = key_head * sizes.group();
    T* const to = queries_to(part);
    std::fill(to + first * sizes.queries * sizes.width,
              to + (first + sizes.group()) * sizes.queries * sizes.width, T(0));

    for (std::int64_t k = part; k < this->key_blocks(); k += parts()) {
      FlashBlock b = this->block(first, 0, k);
      this->transpose(this->keys_of(b), sizes.width, b.keys, packed_keys);
      this->transpose(this->values_of(b), sizes.value_width, b.keys, packed_values);
      T* const key_to = grad_key + this->key_row(b) * sizes.width;
      T* const value_to = grad_value + this->key_row(b) * sizes.value_width;
      std::fill(key_to, key_to + b.keys * sizes.width, T(0));
      std::fill(value_to, value_to + b.keys * sizes.value_width, T(0));
      const std::int64_t from = sizes.is_causal ? b.key / kQueries : 0;
      for (std::int64_t head = first; head < first + sizes.group(); ++head) {
        for (std::int64_t q = from; q < this->query_blocks(); ++q) {
          b = this->block(head, q, k);
          const T* const g = this->row(grad, b, sizes.value_width);
          this->of(this->scores, b)(this->queries_of(b), packed_keys, nullptr, scores);
          this->of(weights, b)(g, packed_values, nullptr, changes);
          differentiate(b, scores, changes);
          this->add_weighted_by_key(b, this->of(values, b), scores, g, sizes.value_width, value_to);
          this->add_weighted_by_key(b, this->of(keys, b), changes, this->queries_of(b), sizes.width,
                                    key_to);
          T* const query_to = this->row(to, b, sizes.width);
          this->add_weighted(b, this->of(queries, b), changes, this->keys_of(b), sizes.width,
                             query_to);
        }
      }
      multiply(key_to, b.keys * sizes.width, this->scale);
    }
  }

  /// Scores become weights, and gradients of weights those of scores: zeros where a key is not
  /// seen, whatever number it holds.
  void differentiate(const FlashBlock& b, T* scores, T* changes) const {
    using Limits = std::numeric_limits<T>;
    const bool all_seen = !sizes.is_causal && this->mask.data == nullptr;
    for (std::int64_t i = 0; i < b.queries; ++i) {
      T* const row = scores + i * kKeys;
      T* const change = changes + i * kKeys;
      this->finish_row(b, i, row);
      const Reg shift = S::set(*this->row(saved + i, b, 1));
      const Reg dot = S::set(*this->row(scratch + i, b, 1));
      const Reg least = S::set(all_seen ? -Limits::infinity() : Limits::lowest());
      for_whole_registers<T>(b.keys, [&](std::int64_t j) {
        const Reg score = S::load(row + j);
        const Reg p = this->exponential(score - shift);
        S::store(row + j, p);
        const Reg differences = p * (S::load(change + j) - dot);
        S::store(change + j, S::if_less(score, least, S::zero(), differences));
      });
    }
  }

  /// Rows [begin, end) of the queries' gradient from all parts.
  void add_parts(std::int64_t begin, std::int64_t end) const {
    const std::int64_t from = begin * sizes.width, count = (end - begin) * sizes.width;
    T* const to = grad_query + from;
    for_registers<T>(count, [&](const auto& load, const auto& store, const auto&) {
      Reg sum = load(queries_to(0) + from);
      for (std::int64_t part = 1; part < parts(); ++part) {
        sum = sum + load(queries_to(part) + from);
      }
      store(to, sum * S::set(this->scale));
    });
  }
};

int threads_of(double flops, const CpuQuery& q) { return flops > kParallelFlops ? q.threads : 1; }

/// The only way to run it, which needs so many elements of scratch.
Candidate in_blocks_of(std::int64_t shared, std::int64_t own, Element element, int threads) {
  const auto bytes = static_cast<std::size_t>(shared + threads * own) * size_of(element);
  return {.scratch_bytes = bytes, .threads = threads};
}

}  // namespace

std::vector<Candidate> candidates(const FlashAttention& op, const CpuQuery& q) {
  const int threads = threads_of(op.flops(q.inputs, q.outputs), q);
  const FlashSizes sizes(q.inputs[0], q.inputs[1], q.inputs[2], op.is_causal);
  const Element element = q.inputs[0].element;
  return only(with_floating<FlashAttention>(element, [&](auto zero) {
    const FlashForward<decltype(zero)> forward(sizes, op.scale);
    return in_blocks_of(0, forward.thread_elements(), element, threads);
  }));
}

CpuKernel bind(const FlashAttention& op, const CpuLaunch& l) {
  return with_floating<FlashAttention>(l.inputs[0].element, [&](auto zero) {
    using T = decltype(zero);
    FlashForward<T> f(FlashSizes(l.inputs[0], l.inputs[1], l.inputs[2], op.is_causal), op.scale);
    f.query = l.in<T>(0), f.key = l.in<T>(1), f.value = l.in<T>(2);
    if (l.inputs.size() > 3) f.mask = mask_of(l.inputs[3], l.input_data[3], l.inputs[0]);
    f.result = l.out<T>(0), f.saved = l.out<T>(1);
    return CpuKernel([f, own = static_cast<T*>(l.scratch), threads = l.choice.threads] {
      parallel_for(threads, f.items(), 1, [&](std::int64_t begin, std::int64_t end, int part) {
        for (std::int64_t i = begin; i < end; ++i) f.run(i, own + part * f.thread_elements());
      });
    });
  });
}

std::vector<Candidate> candidates(const FlashAttentionGrad& op, const CpuQuery& q) {
  const int threads = threads_of(op.flops(q.inputs, q.outputs), q);
  const FlashSizes sizes(q.inputs[1], q.inputs[2], q.inputs[3], op.is_causal);
  const Element element = q.inputs[0].element;
  return only(with_floating<FlashAttention>(element, [&](auto zero) {
    const FlashBackward<decltype(zero)> backward(sizes, op.scale);
    return in_blocks_of(backward.shared_elements(), backward.thread_elements(), element, threads);
  }));
}

CpuKernel bind(const FlashAttentionGrad& op, const CpuLaunch& l) {
  return with_floating<FlashAttention>(l.inputs[0].element, [&](auto zero) {
    using T = decltype(zero);
    FlashBackward<T> f(FlashSizes(l.inputs[1], l.inputs[2], l.inputs[3], op.is_causal), op.scale);
    f.grad = l.in<T>(0), f.query = l.in<T>(1), f.key = l.in<T>(2), f.value = l.in<T>(3);
    f.result = l.in<T>(4), f.saved = l.in<T>(5);
    if (l.inputs.size() > 6) f.mask = mask_of(l.inputs[6], l.input_data[6], l.inputs[1]);
    f.grad_query = l.out<T>(0), f.grad_key = l.out<T>(1), f.grad_value = l.out<T>(2);
    f.scratch = static_cast<T*>(l.scratch);
    return CpuKernel([f, threads = l.choice.threads] { f.run(threads); });
  });
}

}  // namespace metronome::METRONOME_ISA
