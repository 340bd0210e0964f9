// Transposition by tiles: the dimension that is dense in the result against the one that is dense
// in the operand, under loops over the others.
#include "ops/rules/by_element.h"
#include "ops/transpose/transpose.h"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "ops/cpu/copy.h"
#include "ops/cpu/launch.h"
#include "ops/cpu/parallel.h"
#include "ops/cpu/simd.h"
#include "ops/expr/nest.h"

namespace metronome::METRONOME_ISA {
namespace {

// Rows and columns of a tile: both sides of it lie in the first-level cache.
constexpr std::int64_t kTile = 32;

/// One loop: how far the result and the operand move, in elements.
struct TransposeLoop {
  std::int64_t size, to, from;
};

using Floats = Simd<float>;
constexpr int kSide = Floats::kWidth;

/// Exchanges the bit kHalf between the numbers of registers and of lanes, then those above it: a
/// square of registers is turned once all bits are exchanged.
template <int kHalf>
inline void turn(Floats::Reg (&x)[kSide]) {
  using Places [[gnu::vector_size(sizeof(Floats::Reg))]] = std::int32_t;
  const auto exchange = [&]<int... k>(std::integer_sequence<int, k...>) {
    const Places low = {((k & kHalf) != 0 ? kSide + k - kHalf : k)...};
    const Places high = {((k & kHalf) != 0 ? kSide + k : k + kHalf)...};
    for (int r = 0; r < kSide; ++r) {
      if ((r & kHalf) != 0) continue;
      const Floats::Reg a = x[r], b = x[r + kHalf];
      x[r] = __builtin_shuffle(a, b, low);
      x[r + kHalf] = __builtin_shuffle(a, b, high);
    }
  };
  exchange(std::make_integer_sequence<int, kSide>());
  if constexpr (2 * kHalf < kSide) turn<2 * kHalf>(x);
}

/// A square of registers, or what there is of it.
void square(float* to, std::int64_t to_step, const float* from, std::int64_t from_step,
            std::int64_t rows, std::int64_t columns) {
  Floats::Reg x[kSide];
  if (rows >= kSide && columns >= kSide) {
    for (int r = 0; r < kSide; ++r) x[r] = Floats::load(from + r * from_step);
    turn<1>(x);
    for (int c = 0; c < kSide; ++c) Floats::store(to + c * to_step, x[c]);
    return;
  }
  const auto of_row = Floats::mask(std::min<std::int64_t>(columns, kSide));
  const auto of_column = Floats::mask(std::min<std::int64_t>(rows, kSide));
  for (int r = 0; r < kSide; ++r) {
    x[r] = r < rows ? Floats::load(from + r * from_step, of_row) : Floats::zero();
  }
  turn<1>(x);
  for (int c = 0; c < kSide && c < columns; ++c) Floats::store(to + c * to_step, of_column, x[c]);
}

/// to[c * to_step + r] = from[r * from_step + c], r < rows, c < columns.
template <class T>
void tile(T* to, std::int64_t to_step, const T* from, std::int64_t from_step, std::int64_t rows,
          std::int64_t columns) {
  if constexpr (sizeof(T) == 4) {
    // Elements are moved as they are, so floats serve for all of four bytes.
    const auto* const f = reinterpret_cast<const float*>(from);
    auto* const t = reinterpret_cast<float*>(to);
    for (std::int64_t r = 0; r < rows; r += kSide) {
      for (std::int64_t c = 0; c < columns; c += kSide) {
        square(t + c * to_step + r, to_step, f + r * from_step + c, from_step, rows - r,
               columns - c);
      }
    }
  } else {
    for (std::int64_t c = 0; c < columns; ++c) {
      for (std::int64_t r = 0; r < rows; ++r) to[c * to_step + r] = from[r * from_step + c];
    }
  }
}

template <class T>
struct Tiles {
  T* to;
  const T* from;
  std::vector<TransposeLoop> outer;
  TransposeLoop rows;     ///< of the operand: dense in the result
  TransposeLoop columns;  ///< of the operand: dense there
  std::int64_t matrices;
  int threads;

  void operator()() const {
    const std::int64_t strips = (columns.size + kTile - 1) / kTile;
    const std::int64_t strip = kTile * rows.size;
    parallel_for(threads, matrices * strips, 16384 / strip + 1,
                 [&](std::int64_t begin, std::int64_t end) {
                   for (std::int64_t s = begin; s < end; ++s) this->strip(s / strips, s % strips);
                 });
  }

  void strip(std::int64_t matrix, std::int64_t index) const {
    T* t = to;
    const T* f = from;
    for (std::size_t d = outer.size(); d-- > 0;) {
      const std::int64_t i = matrix % outer[d].size;
      matrix /= outer[d].size;
      t += i * outer[d].to;
      f += i * outer[d].from;
    }
    const std::int64_t c = index * kTile, width = std::min(kTile, columns.size - c);
    for (std::int64_t r = 0; r < rows.size; r += kTile) {
      tile(t + c * columns.to + r, columns.to, f + r * rows.from + c, rows.from,
           std::min(kTile, rows.size - r), width);
    }
  }
};

/// The last loop is dense on both sides.
struct Copies {
  Runs runs;
  std::vector<TransposeLoop> outer;  ///< in bytes
  std::int64_t count;
  int threads;

  void operator()() const {
    if (threads == 1) return walk(0, runs.to, runs.from);
    // Threads share out the runs; each works out where the innermost loops of its share begin.
    parallel_for(threads, count, run_grain(runs.bytes), [&](std::int64_t begin, std::int64_t end) {
      const TransposeLoop& inner = outer.back();
      for (std::int64_t r = begin; r < end;) {
        std::int64_t rest = r / inner.size;
        const std::int64_t i = r % inner.size, stop = std::min(inner.size, i + end - r);
        Runs part = runs;
        for (std::size_t d = outer.size() - 1; d-- > 0; rest /= outer[d].size) {
          part.to += rest % outer[d].size * outer[d].to;
          part.from += rest % outer[d].size * outer[d].from;
        }
        copy_runs(part, i, stop);
        r += stop - i;
      }
    });
  }

  void walk(std::size_t d, char* to, const char* from) const {
    const TransposeLoop& loop = outer[d];
    if (d + 1 == outer.size()) {
      return copy_runs({to, from, loop.to, loop.from, runs.bytes}, 0, loop.size);
    }
    for (std::int64_t i = 0; i < loop.size; ++i)
      walk(d + 1, to + i * loop.to, from + i * loop.from);
  }
};

template <class T>
CpuKernel transpose(const Nest& nest, const CpuLaunch& launch) {
  std::vector<TransposeLoop> loops;
  std::int64_t count = 1;
  for (std::int64_t d = 0; d < nest.rank(); ++d) {
    loops.push_back({nest.sizes[d], nest.strides[0][d], nest.strides[1][d]});
    count *= nest.sizes[d];
  }
  const int threads = launch.choice.threads;
  const TransposeLoop last = loops.back();
  loops.pop_back();
  if (last.from == 1) {
    constexpr auto kBytes = static_cast<std::int64_t>(sizeof(T));
    if (loops.empty()) loops.push_back({1, 0, 0});
    for (TransposeLoop& loop : loops) loop.to *= kBytes, loop.from *= kBytes;
    const Runs runs{launch.out<char>(0), launch.in<char>(0), loops.back().to, loops.back().from,
                    last.size * kBytes};
    return CpuKernel(Copies{runs, std::move(loops), count / last.size, threads});
  }
  // A dense operand has a dimension of step 1; the nest has no loops of one step.
  const auto dense = std::find_if(loops.begin(), loops.end(),
                                  [](const TransposeLoop& loop) { return loop.from == 1; });
  const TransposeLoop columns = *dense;
  loops.erase(dense);
  return CpuKernel(Tiles<T>{launch.out<T>(0), launch.in<T>(0), std::move(loops), last, columns,
                            count / last.size / columns.size, threads});
}

}  // namespace

CpuKernel bind(const Transpose& op, const CpuLaunch& launch) {
  const Type& type = launch.outputs[0];
  if (type.numel() == 0) return CpuKernel([] {});
  const Shape from = dense_strides(launch.inputs[0].shape);
  Shape moved;
  for (const std::int64_t axis : op.axes)
    moved.push_back(from[axis < 0 ? axis + type.rank() : axis]);
  Nest nest = coalesce({type.shape, {dense_strides(type.shape), moved}});
  if (nest.rank() == 0) nest = {{1}, {{1}, {1}}};
  return with_size<Transpose>(size_of(type.element),
                              [&](auto unit) { return transpose<decltype(unit)>(nest, launch); });
}

}  // namespace metronome::METRONOME_ISA
