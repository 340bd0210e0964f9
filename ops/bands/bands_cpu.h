// Kernels of linear maps along up to three dimensions (ops/bands/bands.h).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "ops/bands/bands.h"
#include "ops/cpu/launch.h"
#include "ops/cpu/norms.h"
#include "ops/cpu/parallel.h"
#include "ops/cpu/row_blocks.h"
#include "ops/rules/by_element.h"
#include "ops/rules/candidate.h"

namespace metronome::METRONOME_ISA {

/// A row of f64 for each thread, as long as the operand's.
inline std::vector<Candidate> bands_candidates(const CpuQuery& q) {
  const Type &x = q.inputs[0], &y = q.outputs[0];
  const int threads = threads_for_elements(std::max(x.numel(), y.numel()), q.threads);
  const auto row = static_cast<std::size_t>(partial_stride(x.shape.back()));
  return {{.scratch_bytes = static_cast<std::size_t>(threads) * row * sizeof(double),
           .threads = threads}};
}

/// Row `row` of the result: a weighted sum of the operand's rows in f64, then of its elements.
/// Sums begin with the first of their numbers, in order: threads change no bit.
template <class T>
void bands_row(const BandsOf3& bands, const T* x, T* y, double* sums, std::int64_t row) {
  const auto& [depth, height, width] = bands;
  const std::int64_t h = row % height.out(), d = row / height.out() % depth.out();
  const std::int64_t plane = row / height.out() / depth.out();
  const T* const from = x + plane * depth.in * height.in * width.in;
  const std::int64_t n = width.in;
  std::fill_n(sums, n, 0.0);
  for (std::int32_t i = 0; i < depth.count[d]; ++i) {
    for (std::int32_t j = 0; j < height.count[h]; ++j) {
      const double weight = depth.weight[depth.at[d] + i * depth.step] *
                            height.weight[height.at[h] + j * height.step];
      const T* const line = from + ((depth.begin[d] + i) * height.in + height.begin[h] + j) * n;
      for (std::int64_t k = 0; k < n; ++k) sums[k] += weight * static_cast<double>(line[k]);
    }
  }
  T* const to = y + row * width.out();
  for (std::int64_t o = 0; o < width.out(); ++o) {
    const double *const part = sums + width.begin[o], *const weight =
                                                          width.weight.data() + width.at[o];
    double sum = 0;
    for (std::int32_t k = 0; k < width.count[o]; ++k) sum += weight[k * width.step] * part[k];
    to[o] = static_cast<T>(sum);
  }
}

template <class T>
CpuKernel bind_bands_of(BandsOf3 bands, const CpuLaunch& l) {
  const std::int64_t n = l.outputs[0].numel();
  if (n == 0) return CpuKernel([] {});
  const std::int64_t rows = n / bands[2].out();
  const std::int64_t grain = 4096 / std::max(bands[2].in, bands[2].out()) + 1;
  return CpuKernel([bands = std::move(bands), rows, grain, x = l.in<T>(0), y = l.out<T>(0),
                    scratch = static_cast<double*>(l.scratch), threads = l.choice.threads] {
    const std::int64_t step = partial_stride(bands[2].in);
    parallel_for(threads, rows, grain, [&](std::int64_t begin, std::int64_t end, int part) {
      for (std::int64_t row = begin; row < end; ++row) {
        bands_row(bands, x, y, scratch + part * step, row);
      }
    });
  });
}

inline CpuKernel bind_bands(BandsOf3 bands, const CpuLaunch& l) {
  return with_floating(l.inputs[0].element,
                       [&](auto x) { return bind_bands_of<decltype(x)>(std::move(bands), l); });
}

}  // namespace metronome::METRONOME_ISA
