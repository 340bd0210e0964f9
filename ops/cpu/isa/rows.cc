// The loops around row functions. `bind_rows` broadcasts the operands to the result and joins
// neighbouring loops (ops/expr/nest.h). The innermost loop is the row function's; those around it
// choose the kernel:
//
//   result, operands                 loops      kernel
//   [], [] and []                    none       RowRun: a run of one element
//   [8, 4], [8, 4] and [8, 4]        32         RowRun, or ParallelRun on several threads
//   [8, 4], [8, 4] and [4]           8, 4       Matrix: 8 rows of 4, pointers advance row by row
//   [2, 3, 4], same and [2, 1, 4]    2, 3, 4    NestedRuns: 6 rows of 4, each divides its number
//                                               by the sizes to find its operands
//
// An operand that is repeated along a loop moves by 0 there. Each thread's share but the last is a
// multiple of kGrain elements (ops/cpu/parallel.h), or of the rows that hold so many at least.
#include <array>
#include <cstring>

#include "ops/cpu/parallel.h"
#include "ops/cpu/rows.h"
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
  Numbers numbers;
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

template <class T>
void copy_elements(const Numbers&, void* out, const void* const* in, const std::int64_t* steps,
                   std::int64_t n) {
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

CpuKernel bind_rows(RowFunction row, const Numbers& numbers, const Type& type, void* out,
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
  if (outer == 1) return CpuKernel(Matrix{run, rows, run.n * element, moves[0], grain, threads});
  nest.sizes.pop_back();
  return CpuKernel(
      NestedRuns{run, nest.sizes, std::move(moves), rows, run.n * element, grain, threads});
}

}  // namespace metronome::METRONOME_ISA
