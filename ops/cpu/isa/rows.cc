// The loops around row functions. `bind_rows` broadcasts the operands to the result and joins
// neighbouring loops (ops/expr/nest.h). The innermost loop is the row function's; those around it
// choose the kernel:
//
//   result, operands                 loops      kernel
//   [], [] and []                    none       RowRun: a run of one element
//   [8, 4], [8, 4] and [8, 4]        32         RowRun, or ParallelRun on several threads
//   [8, 4], [8, 4] and [4]           8, 4       Matrix: 8 rows of 4, pointers advance row by row
//   [2, 3, 40], same and [2, 1, 40]  2, 3, 40   NestedRuns: 6 rows of 40, each divides its number
//                                               by the sizes to find its operands
//   [900, 4], [900, 4] and [4]       900, 4     ShortRuns: strips of 256 rows of 4, whose operands
//                                               are gathered (ops/cpu/runs.h)
//
// An operand that is repeated along a loop moves by 0 there. Each thread's share but the last is a
// multiple of kGrain elements (ops/cpu/parallel.h), or of the rows that hold so many at least.
#include <algorithm>
#include <array>
#include <cstring>

#include "ops/cpu/parallel.h"
#include "ops/cpu/rows.h"
#include "ops/cpu/runs.h"
#include "ops/expr/nest.h"
#include "ops/rules/by_element.h"

namespace metronome::METRONOME_ISA {
namespace {

// Operands of a row function at most: `where` has three. Those that a function lacks are null and
// move by 0.
constexpr std::size_t kOperands = 3;

using Pointers = std::array<const char*, kOperands>;

/// One run of elements.
struct RowRun {
  RowFunction row;
  RowAttributes numbers;
  char* out;
  Pointers in;
  std::array<std::int64_t, kOperands> steps;
  std::int64_t n;

  void operator()() const {
    row(numbers, out, reinterpret_cast<const void* const*>(in.data()), steps.data(), n);
  }
};

struct ParallelRun {
  RowRun run;
  std::int64_t out_bytes;                        ///< of an element
  std::array<std::int64_t, kOperands> in_bytes;  ///< of a step
  int threads;

  void operator()() const {
    parallel_for(threads, run.n, kGrain, [&](std::int64_t begin, std::int64_t end) {
      RowRun part = run;
      part.out += begin * out_bytes;
      for (std::size_t k = 0; k < kOperands; ++k) part.in[k] += begin * in_bytes[k];
      part.n = end - begin;
      part();
    });
  }
};

/// Rows of a matrix.
struct Matrix {
  RowRun run;  ///< of the first row
  std::int64_t rows;
  std::int64_t out_bytes;                        ///< from row to row
  std::array<std::int64_t, kOperands> in_bytes;  ///< from row to row
  std::int64_t grain;
  int threads;

  void operator()() const {
    if (threads == 1) return part(0, rows);
    parallel_for(threads, rows, grain,
                 [&](std::int64_t begin, std::int64_t end) { part(begin, end); });
  }
  void part(std::int64_t begin, std::int64_t end) const {
    char* out = run.out + begin * out_bytes;
    Pointers in = run.in;
    for (std::size_t k = 0; k < kOperands; ++k) in[k] += begin * in_bytes[k];
    for (std::int64_t r = begin; r < end; ++r) {
      run.row(run.numbers, out, reinterpret_cast<const void* const*>(in.data()), run.steps.data(),
              run.n);
      out += out_bytes;
      for (std::size_t k = 0; k < kOperands; ++k) in[k] += in_bytes[k];
    }
  }
};

/// Rows under any nest of loops.
struct NestedRuns {
  RowRun run;  ///< of the first row
  std::vector<std::int64_t> sizes;
  std::vector<std::array<std::int64_t, kOperands>> in_bytes;  ///< [loop]
  std::int64_t rows;
  std::int64_t out_bytes;  ///< from row to row
  std::int64_t grain;
  int threads;

  void operator()() const {
    parallel_for(threads, rows, grain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t r = begin; r < end; ++r) {
        Pointers in = run.in;
        std::int64_t rest = r;
        for (std::size_t d = sizes.size(); d-- > 0;) {
          const std::int64_t index = rest % sizes[d];
          rest /= sizes[d];
          for (std::size_t k = 0; k < kOperands; ++k) in[k] += index * in_bytes[d][k];
        }
        run.row(run.numbers, run.out + r * out_bytes,
                reinterpret_cast<const void* const*>(in.data()), run.steps.data(), run.n);
      }
    });
  }
};

/// Rows of few elements, many to a call.
struct ShortRuns {
  static constexpr std::int64_t kStrip = 1024;  ///< elements
  static constexpr std::int64_t kLongest = 32;  ///< of a run: a call costs as much as so many
  static constexpr std::int64_t kLeastRows = 16;
  static constexpr std::int64_t kWidest = 8;  ///< bytes of an element

  RowRun run;  ///< of the first row
  std::vector<std::int64_t> sizes;
  std::array<std::vector<std::int64_t>, kOperands> strides;  ///< [operand][loop]
  std::array<bool, kOperands> dense{};                       ///< lies as the result does
  std::array<std::int64_t, kOperands> bytes{};
  std::size_t count;  ///< of operands
  std::int64_t rows;
  std::int64_t out_bytes;  ///< of an element
  int threads;

  void operator()() const {
    const std::int64_t together = kStrip / run.n, strips = (rows + together - 1) / together;
    parallel_for(threads, strips, (kGrain + kStrip - 1) / kStrip,
                 [&](std::int64_t begin, std::int64_t end) {
                   for (std::int64_t s = begin; s < end; ++s) {
                     const std::int64_t first = s * together;
                     compute(first, std::min(together, rows - first));
                   }
                 });
  }

  void compute(std::int64_t first, std::int64_t runs) const {
    alignas(64) char strips[kOperands][kStrip * kWidest + kGatherSlack];
    std::array<const void*, kOperands> from{};
    std::array<std::int64_t, kOperands> steps{};
    for (std::size_t k = 0; k < count; ++k) {
      steps[k] = 1;
      from[k] = run.in[k] + first * run.n * bytes[k];
      if (dense[k]) continue;
      from[k] = strips[k];
      gather_runs({run.in[k], strides[k], run.steps[k], bytes[k]}, sizes, first, runs, run.n,
                  strips[k]);
    }
    run.row(run.numbers, run.out + first * run.n * out_bytes, from.data(), steps.data(),
            runs * run.n);
  }
};

template <class T>
void copy_elements(const RowAttributes&, void* out, const void* const* in,
                   const std::int64_t* steps, std::int64_t n) {
  if (steps[0] != 0) {
    std::memcpy(out, in[0], static_cast<std::size_t>(n) * sizeof(T));
    return;
  }
  const T x = *static_cast<const T*>(in[0]);
  T* to = static_cast<T*>(out);
  for (std::int64_t i = 0; i < n; ++i) to[i] = x;
}

}  // namespace

RowFunction copy_row(std::size_t element_bytes) {
  return with_size(element_bytes,
                   [](auto unit) -> RowFunction { return copy_elements<decltype(unit)>; });
}

CpuKernel bind_rows(RowFunction row, const RowAttributes& numbers, const Type& type, void* out,
                    const RowOperands& operands, int threads) {
  if (type.numel() == 0) return CpuKernel([] {});
  Nest nest = broadcast_nest(type.shape, operands.types);
  const bool single = nest.rank() == 0;  // one element: a run of one, in which every operand moves
  const std::size_t count = operands.types.size();
  const std::size_t outer = single ? 0 : nest.sizes.size() - 1;
  RowRun run{row, numbers, static_cast<char*>(out), {}, {}, single ? 1 : nest.sizes.back()};
  std::array<std::int64_t, kOperands> bytes{};
  for (std::size_t k = 0; k < count; ++k) {
    bytes[k] = static_cast<std::int64_t>(size_of(operands.types[k].element));
    run.in[k] = static_cast<const char*>(operands.data[k]);
    run.steps[k] = single ? 1 : nest.strides[k + 1].back();
  }
  const auto element = static_cast<std::int64_t>(size_of(type.element));
  const std::int64_t rows = type.numel() / run.n;
  const std::int64_t grain = (kGrain + run.n - 1) / run.n;
  std::vector<std::array<std::int64_t, kOperands>> moves(outer);
  for (std::size_t d = 0; d < outer; ++d) {
    for (std::size_t k = 0; k < count; ++k) moves[d][k] = nest.strides[k + 1][d] * bytes[k];
  }
  if (outer == 0) {
    if (threads <= 1) return CpuKernel(run);
    for (std::size_t k = 0; k < count; ++k) bytes[k] *= run.steps[k];
    return CpuKernel(ParallelRun{run, element, bytes, threads});
  }
  const bool short_runs = run.n <= ShortRuns::kLongest && rows >= ShortRuns::kLeastRows;
  if (short_runs && outer <= RunWalk::kMostLoops) {
    const std::vector<std::int64_t> sizes(nest.sizes.begin(), nest.sizes.end() - 1);
    ShortRuns runs{run, sizes, {}, {}, bytes, count, rows, element, threads};
    for (std::size_t k = 0; k < count; ++k) {
      runs.dense[k] = nest.strides[k + 1] == nest.strides[0];
      runs.strides[k].assign(nest.strides[k + 1].begin(), nest.strides[k + 1].end() - 1);
    }
    return CpuKernel(std::move(runs));
  }
  if (outer == 1) return CpuKernel(Matrix{run, rows, run.n * element, moves[0], grain, threads});
  nest.sizes.pop_back();
  return CpuKernel(
      NestedRuns{run, nest.sizes, std::move(moves), rows, run.n * element, grain, threads});
}

}  // namespace metronome::METRONOME_ISA
