// Convolutions as sums along rows: for each element of the kernel, a row of the output and the row
// of the input under it. Threads share out planes of the result.
#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "ops/convolution/convolution_cpu.h"
#include "ops/cpu/parallel.h"
#include "ops/rules/by_element.h"

namespace metronome::METRONOME_ISA {
namespace {

/// The places [begin, end) along one dimension at which an element of the kernel lies on the input,
/// and where the first of them does.
struct CoveredPlaces {
  std::int64_t begin = 0, end = 0, first = 0;
  std::int64_t count() const { return end - begin; }
};

/// The places that each element of the kernel covers, in dimension d.
std::vector<CoveredPlaces> find_covered_places(const ConvolutionSizes& s, std::size_t d) {
  std::vector<CoveredPlaces> all;
  for (std::int64_t j = 0; j < s.kernel[d]; ++j) {
    const std::int64_t shift = j * s.dilation[d] - s.low[d], step = s.stride[d];
    const std::int64_t begin = shift < 0 ? (-shift + step - 1) / step : 0;
    const std::int64_t behind = s.input[d] - shift;  // places o with o step < behind
    const std::int64_t end = behind > 0 ? (behind + step - 1) / step : 0;
    CoveredPlaces c{std::min(begin, s.output[d]), std::min(end, s.output[d]), begin * step + shift};
    c.end = std::max(c.begin, c.end);
    all.push_back(c);
  }
  return all;
}

template <class T>
struct DirectConvolution {
  ConvolutionSizes s;
  std::array<std::vector<CoveredPlaces>, 3> at;
  T* input;
  T* weight;
  T* output;
  const T* bias;

  /// f(tap, from, to, count) for each element of the kernel and each pair of rows that it joins:
  /// row `from` of an input's plane, of every stride-th element, and row `to` of an output's.
  template <class F>
  void rows(const F& f) const {
    std::int64_t tap = 0;
    for (const CoveredPlaces& a : at[0]) {
      for (const CoveredPlaces& b : at[1]) {
        for (const CoveredPlaces& c : at[2]) {
          each_row(a, b, c, tap++, f);
        }
      }
    }
  }

  template <class F>
  void each_row(const CoveredPlaces& a, const CoveredPlaces& b, const CoveredPlaces& c,
                std::int64_t tap, const F& f) const {
    if (c.count() == 0) return;
    for (std::int64_t i = 0; i < a.count(); ++i) {
      const std::int64_t plane = (a.first + i * s.stride[0]) * s.input[1];
      const std::int64_t place = (a.begin + i) * s.output[1];
      for (std::int64_t j = 0; j < b.count(); ++j) {
        const std::int64_t row = plane + b.first + j * s.stride[1];
        f(tap, row * s.input[2] + c.first, (place + b.begin + j) * s.output[2] + c.begin,
          c.count());
      }
    }
  }

  // Planes are counted over images and channels.
  void forward(std::int64_t plane) const {
    const std::int64_t image = plane / (s.groups * s.out), k = plane % (s.groups * s.out);
    const std::int64_t step = s.stride[2];
    T* const y = output + plane * s.places();
    std::fill_n(y, s.places(), bias ? bias[k] : T(0));
    for (std::int64_t c = 0; c < s.in; ++c) {
      const T* const x = input + ((image * s.groups + k / s.out) * s.in + c) * s.points();
      const T* const w = weight + (k * s.in + c) * s.taps();
      rows([&](std::int64_t tap, std::int64_t from, std::int64_t to, std::int64_t count) {
        const T* const source = x + from;
        T* const target = y + to;
        const T factor = w[tap];
        if (step == 1) {
#pragma GCC ivdep
          for (std::int64_t i = 0; i < count; ++i) target[i] += factor * source[i];
        } else {
#pragma GCC ivdep
          for (std::int64_t i = 0; i < count; ++i) target[i] += factor * source[i * step];
        }
      });
    }
  }

  void transposed(std::int64_t plane) const {
    const std::int64_t image = plane / (s.groups * s.in), channel = plane % (s.groups * s.in);
    const std::int64_t group = channel / s.in, c = channel % s.in, step = s.stride[2];
    T* const x = input + plane * s.points();
    std::fill_n(x, s.points(), bias ? bias[channel] : T(0));
    for (std::int64_t k = 0; k < s.out; ++k) {
      const T* const y = output + ((image * s.groups + group) * s.out + k) * s.places();
      const T* const w = weight + ((group * s.out + k) * s.in + c) * s.taps();
      rows([&](std::int64_t tap, std::int64_t to, std::int64_t from, std::int64_t count) {
        const T* const source = y + from;
        T* const target = x + to;
        const T factor = w[tap];
        if (step == 1) {
#pragma GCC ivdep
          for (std::int64_t i = 0; i < count; ++i) target[i] += factor * source[i];
        } else {
#pragma GCC ivdep
          for (std::int64_t i = 0; i < count; ++i) target[i * step] += factor * source[i];
        }
      });
    }
  }

  // Pairs of an output and a channel of its group. Sums of rows are added in double: there are as
  // many as all images have.
  void weight_grad(std::int64_t pair) const {
    const std::int64_t k = pair / s.in, c = pair % s.in, group = k / s.out, step = s.stride[2];
    T* const w = weight + pair * s.taps();
    std::int64_t tap = 0;
    for (const CoveredPlaces& a : at[0]) {
      for (const CoveredPlaces& b : at[1]) {
        for (const CoveredPlaces& e : at[2]) {
          double total = 0;
          for (std::int64_t image = 0; image < s.images; ++image) {
            const T* const x = input + ((image * s.groups + group) * s.in + c) * s.points();
            const T* const y = output + (image * s.groups * s.out + k) * s.places();
            each_row(a, b, e, tap,
                     [&](std::int64_t, std::int64_t from, std::int64_t to, std::int64_t count) {
                       total += product_of_rows(x + from, step, y + to, count);
                     });
          }
          w[tap++] = static_cast<T>(total);
        }
      }
    }
  }

  static T product_of_rows(const T* x, std::int64_t step, const T* y, std::int64_t count) {
    T sum = 0;
    if (step == 1) {
#pragma omp simd reduction(+ : sum)
      for (std::int64_t i = 0; i < count; ++i) sum += x[i] * y[i];
    } else {
      for (std::int64_t i = 0; i < count; ++i) sum += x[i * step] * y[i];
    }
    return sum;
  }
};

template <class T>
CpuKernel bind_direct(const ConvolutionTask& task, const ConvolutionData& data, int threads) {
  const ConvolutionSizes& s = task.sizes;
  DirectConvolution<T> direct{
      s,
      {find_covered_places(s, 0), find_covered_places(s, 1), find_covered_places(s, 2)},
      static_cast<T*>(data.input),
      static_cast<T*>(data.weight),
      static_cast<T*>(data.output),
      static_cast<const T*>(data.bias)};
  const auto kernel = [&](std::int64_t count, auto part) {
    return CpuKernel([direct = std::move(direct), threads, count, part] {
      parallel_for(threads, count, 1, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) part(direct, i);
      });
    });
  };
  using Direct = DirectConvolution<T>;
  switch (task.result) {
    case ConvolutionTask::Result::output:
      return kernel(s.images * s.groups * s.out,
                    [](const Direct& d, std::int64_t i) { d.forward(i); });
    case ConvolutionTask::Result::input:
      return kernel(s.images * s.groups * s.in,
                    [](const Direct& d, std::int64_t i) { d.transposed(i); });
    case ConvolutionTask::Result::weight:
      break;
  }
  return kernel(s.groups * s.out * s.in, [](const Direct& d, std::int64_t i) { d.weight_grad(i); });
}

}  // namespace

CpuKernel bind_direct_convolution(const ConvolutionTask& task, const ConvolutionData& data,
                                  int threads) {
  return with_floating<Convolution>(
      task.element, [&](auto x) { return bind_direct<decltype(x)>(task, data, threads); });
}

}  // namespace metronome::METRONOME_ISA
