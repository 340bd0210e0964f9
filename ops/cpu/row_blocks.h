// A walk that norms of rows share: four rows at a time. Their sums hide each other's latency, and
// weights and their gradients are loaded once for four.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "graph/ir/type.h"
#include "ops/cpu/launch.h"
#include "ops/cpu/norms.h"
#include "ops/cpu/parallel.h"
#include "ops/rules/candidate.h"

namespace metronome::METRONOME_ISA {

/// Rows that are worked on at once.
constexpr int kRows = 4;

/// Rows along the last dimension.
inline std::int64_t rows_of(const Type& x) {
  std::int64_t rows = 1;
  for (std::size_t i = 0; i + 1 < x.shape.size(); ++i) rows *= x.shape[i];
  return rows;
}

/// Rows of one thread's part: a multiple of the block.
inline std::int64_t grain_of(std::int64_t width) {
  const std::int64_t rows = std::max<std::int64_t>(1, kElementsPerPart / width);
  return (rows + kRows - 1) / kRows * kRows;
}

/// total[k][r] is the sum over row r's registers of what add(load, cut, sums) adds to sums[k][r].
template <class T, int K, int R, class Add>
inline __attribute__((always_inline)) void sum_row(std::int64_t width,
                                                   typename Simd<T>::Reg (&total)[K][R],
                                                   const Add& add) {
  using Sums = typename Simd<T>::Reg[K][R];
  const auto part_of = [&](std::int64_t begin, std::int64_t count, Sums& part) {
    for (auto& sums : part) {
      for (auto& sum : sums) sum = Simd<T>::zero();
    }
    for_registers<T>(count, [&](const auto& load, const auto&, const auto& cut) {
      add([&](const T* p) { return load(p + begin); }, cut, part);
    });
  };
  part_of(0, std::min(width, kElementsTogether), total);
  if (width <= kElementsTogether) return;
  for_parts(width - kElementsTogether, kElementsTogether,
            [&](std::int64_t begin, std::int64_t count) {
              Sums part;
              part_of(begin + kElementsTogether, count, part);
              for (int k = 0; k < K; ++k) {
                for (int r = 0; r < R; ++r) total[k][r] = total[k][r] + part[k][r];
              }
            });
}

/// f(std::integral_constant<int, R>, row) for blocks of R rows.
template <class F>
inline void for_blocks(std::int64_t begin, std::int64_t end, const F& f) {
  std::int64_t row = begin;
  for (; row + kRows <= end; row += kRows) f(std::integral_constant<int, kRows>(), row);
  switch (end - row) {
    case 3:
      f(std::integral_constant<int, 3>(), row);
      break;
    case 2:
      f(std::integral_constant<int, 2>(), row);
      break;
    case 1:
      f(std::integral_constant<int, 1>(), row);
      break;
  }
}

/// Elements from one thread's sums of `count` elements to the next one's: each begins on a cache
/// line of its own.
inline std::int64_t partial_stride(std::int64_t count) { return (count + 15) / 16 * 16; }

/// A kernel over `rows` rows: body.block<R>(row) for each block. `body` has a `width`.
template <class Body>
CpuKernel over_rows(const Body& body, std::int64_t rows, int threads) {
  return CpuKernel([body, rows, grain = grain_of(body.width), threads] {
    parallel_for(threads, rows, grain, [&](std::int64_t begin, std::int64_t end) {
      for_blocks(begin, end, [&](auto r, std::int64_t row) { body.template block<r()>(row); });
    });
  });
}

/// The candidate of a kernel that adds up `sums` sums over the rows of x.
inline Candidate candidate_with_sums(const Type& x, std::int64_t sums, int most_threads) {
  const int threads = threads_for_elements(x.numel(), most_threads);
  const auto partials =
      static_cast<std::size_t>((threads - 1) * partial_stride(sums * x.shape.back()));
  return {.scratch_bytes = partials * size_of(x.element), .threads = threads};
}

/// As `over_rows`, with K sums over all rows, each of `width` elements, to `sums`:
/// body.block<R>(row, begins, own) adds a block's to own[k], or begins them.
template <class T, std::size_t K, class Body>
CpuKernel over_rows_with_sums(const Body& body, const std::array<T*, K>& sums, void* scratch,
                              std::int64_t rows, int threads) {
  const auto partial = [width = body.width, scratch = static_cast<T*>(scratch)](std::int64_t part) {
    T* const first = scratch + (part - 1) * partial_stride(static_cast<std::int64_t>(K) * width);
    std::array<T*, K> own;
    for (std::size_t k = 0; k < K; ++k) own[k] = first + static_cast<std::int64_t>(k) * width;
    return own;
  };
  return CpuKernel([=, grain = grain_of(body.width)] {
    if (rows == 0) {
      for (T* const sum : sums) std::fill_n(sum, body.width, T(0));
      return;
    }
    // The first part sums in the outputs, the others in scratch, added in their order. One thread
    // has no scratch.
    parallel_for(threads, rows, grain, [&](std::int64_t begin, std::int64_t end, int part) {
      const std::array<T*, K> own = part == 0 ? sums : partial(part);
      for_blocks(begin, end, [&](auto r, std::int64_t row) {
        body.template block<r()>(row, row == begin, own);
      });
    });
    const std::int64_t size = part_size(threads, rows, grain);
    for (std::int64_t part = 1; part * size < rows; ++part) {
      const std::array<T*, K> own = partial(part);
      for (std::size_t k = 0; k < K; ++k) {
        for (std::int64_t i = 0; i < body.width; ++i) sums[k][i] += own[k][i];
      }
    }
  });
}

}  // namespace metronome::METRONOME_ISA
