// Batch norm, channel by channel. There are two walks:
//
//   rows [N, C]             registers of neighbouring channels, up to four, down all rows
//   images [N, C, plane]    one channel after the other, chunk by chunk of its planes
//
// Neither serves for both: registers hold neighbours in memory, which are of several channels in
// rows and of one in images. Rows in the walk of images (one element a register) took 18 times as
// long and more (f32, [32, 64] to [4096, 64], AVX2). Both make, with d = x - mean:
//
//              sums of       numbers of a channel      elements
//   forward    x; d, d d     mean, rstd, statistics    y = (x - center) scale + shift
//   backward   g, g d, d     dgamma, dbeta             dx = (g - (d slope + base)) factor
//   evaluate                                           y as forward, of the running statistics
//
// A mean far from zero, rounded to T, is off by a good part of what differs from it. So every pass
// that subtracts the rounded mean also sums what is left, d, and takes its average out. Sums beyond
// T's range are made again in f64.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <tuple>
#include <utility>
#include <vector>

#include "ops/batch_norm/batch_norm.h"
#include "ops/cpu/launch.h"
#include "ops/cpu/norms.h"
#include "ops/cpu/parallel.h"
#include "ops/rules/by_element.h"

namespace metronome::METRONOME_ISA {
namespace {

// Elements of a channel that the forward pass sums in vectors before the sums go to f64: few enough
// (8 KiB of f32) to be read twice from the first-level cache. The second reading sees what rounding
// loses in the first. A larger value leaves that cache; a smaller one joins more chunks in f64.
constexpr std::int64_t kReadTwice = 2048;

struct BatchExtent {
  std::int64_t n = 0;
  std::int64_t channels = 0;
  std::int64_t plane = 1;

  std::int64_t each() const { return n * plane; }  // elements of a channel
};

BatchExtent extent_of(const Type& x) {
  BatchExtent e{x.shape[0], x.shape[1], 1};
  for (std::size_t d = 2; d < x.shape.size(); ++d) e.plane *= x.shape[d];
  return e;
}

// f(begin, count, runs): `runs` runs of `count` elements of channel c, the first at `begin`, each
// channels * plane after the one before, at most `most` elements together.
template <class F>
void for_chunks(const BatchExtent& e, std::int64_t c, std::int64_t most, const F& f) {
  const std::int64_t image = e.channels * e.plane;
  if (e.plane > most) {
    for (std::int64_t i = 0; i < e.n; ++i) {
      for_parts(e.plane, most, [&](std::int64_t s, std::int64_t count) {
        f(i * image + c * e.plane + s, count, std::int64_t{1});
      });
    }
    return;
  }
  const std::int64_t runs =
      std::clamp<std::int64_t>(most / std::max<std::int64_t>(1, e.plane), 1, kRowsTogether);
  for (std::int64_t i = 0; i < e.n; i += runs) {
    f(i * image + c * e.plane, e.plane, std::min(runs, e.n - i));
  }
}

// f(place) for every element of channel c.
template <class F>
void for_elements(const BatchExtent& e, std::int64_t c, const F& f) {
  for (std::int64_t i = 0; i < e.n; ++i) {
    const std::int64_t at = (i * e.channels + c) * e.plane;
    for (std::int64_t k = 0; k < e.plane; ++k) f(at + k);
  }
}

// add(i, part) for each row i < n; `total` of K sums over V registers gets what is added to parts.
template <class T, int K, int V, class Add>
inline __attribute__((always_inline)) void sum_rows(std::int64_t n,
                                                    typename Simd<T>::Reg (&total)[K][V],
                                                    const Add& add) {
  for (auto& sums : total) {
    for (auto& sum : sums) sum = Simd<T>::zero();
  }
  for_parts(n, kRowsTogether, [&](std::int64_t begin, std::int64_t count) {
    typename Simd<T>::Reg part[K][V];
    for (auto& sums : part) {
      for (auto& sum : sums) sum = Simd<T>::zero();
    }
    for (std::int64_t i = begin; i < begin + count; ++i) add(i, part);
    for (int k = 0; k < K; ++k) {
      for (int v = 0; v < V; ++v) total[k][v] = total[k][v] + part[k][v];
    }
  });
}

// y = (x - center) * scale + shift.
template <class T>
struct ChannelLine {
  T center, scale, shift;
};

template <class T>
void write_image_channel(const BatchExtent& e, std::int64_t c, const ChannelLine<T>& line,
                         const T* x, T* y) {
  using S = Simd<T>;
  const auto center = S::set(line.center), scale = S::set(line.scale), shift = S::set(line.shift);
  for (std::int64_t i = 0; i < e.n; ++i) {
    const std::int64_t at = (i * e.channels + c) * e.plane;
    for_registers<T>(e.plane, [&](const auto& load, const auto& store, const auto&) {
      store(y + at, S::fma(load(x + at) - center, scale, shift));
    });
  }
}

// y = (x - center) * scale + shift for V registers of neighbouring channels of [N, C].
template <int V, class T, class Load, class Store>
void write_row_channels(const BatchExtent& e, std::int64_t c, const T* centers, const T* scales,
                        const T* shifts, const T* x, T* y, const Load& load, const Store& store) {
  using S = Simd<T>;
  typename S::Reg center[V], scale[V], shift[V];
  for (int v = 0; v < V; ++v) {
    center[v] = S::load(centers + v * S::kWidth);
    scale[v] = S::load(scales + v * S::kWidth);
    shift[v] = S::load(shifts + v * S::kWidth);
  }
  for (std::int64_t i = 0; i < e.n; ++i) {
    const std::int64_t at = i * e.channels + c;
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) {
      store(y + at, v, S::fma(load(x + at, v) - center[v], scale[v], shift[v]));
    }
  }
}

template <class T>
struct BatchNormForward {
  BatchExtent e;
  const T* x;
  const T* gamma;
  const T* beta;
  const T* running_mean;
  const T* running_variance;
  T* y;
  T* new_mean;
  T* new_variance;
  T* saved_mean;
  T* saved_rstd;
  double eps;
  double momentum;

  // `m2`: the sum of the squares of what differs from the mean.
  ChannelLine<T> finish(std::int64_t c, double mean, double m2) const {
    if (!(m2 < std::numeric_limits<double>::infinity())) std::tie(mean, m2) = in_double(c);
    const auto count = static_cast<double>(e.each());
    const double rstd = 1 / std::sqrt(m2 / count + eps);
    const double unbiased = m2 / (count - 1);
    new_mean[c] = static_cast<T>((1 - momentum) * running_mean[c] + momentum * mean);
    new_variance[c] = static_cast<T>((1 - momentum) * running_variance[c] + momentum * unbiased);
    if (saved_mean) saved_mean[c] = static_cast<T>(mean);
    if (saved_rstd) saved_rstd[c] = static_cast<T>(rstd);
    const T center = static_cast<T>(mean);
    const double scale = rstd * gamma[c], rest = mean - static_cast<double>(center);
    const double moved = rest == 0 ? 0 : rest * scale;  // an infinite gamma makes no NaN here
    return {center, static_cast<T>(scale), static_cast<T>(beta[c] - moved)};
  }

  // Mean and m2 of numbers whose sums or squares are beyond T's range.
  std::pair<double, double> in_double(std::int64_t c) const {
    double sum = 0, m2 = 0;
    for_elements(e, c, [&](std::int64_t at) { sum += x[at]; });
    const double mean = sum / static_cast<double>(e.each());
    for_elements(e, c, [&](std::int64_t at) { m2 += (x[at] - mean) * (x[at] - mean); });
    return {mean, m2};
  }

  // Chunks' means and squares are joined as in Chan, Golub and LeVeque (1979): one pass over
  // memory.
  void image_channel(std::int64_t c) const {
    using S = Simd<T>;
    using Reg = typename S::Reg;
    const std::int64_t image = e.channels * e.plane;
    double count = 0, mean = 0, m2 = 0;
    for_chunks(e, c, kReadTwice, [&](std::int64_t begin, std::int64_t length, std::int64_t runs) {
      Reg total[2] = {S::zero(), S::zero()};
      for (std::int64_t r = 0; r < runs; ++r) {
        for_registers<T>(length, [&](const auto& load, const auto&, const auto&) {
          total[0] = total[0] + load(x + begin + r * image);
        });
      }
      const double size = static_cast<double>(length * runs);
      const double own = static_cast<double>(S::sum(total[0])) / size;
      const Reg center = S::set(static_cast<T>(own));
      total[0] = S::zero();
      for (std::int64_t r = 0; r < runs; ++r) {
        for_registers<T>(length, [&](const auto& load, const auto&, const auto& cut) {
          const Reg d = cut(load(x + begin + r * image) - center);
          total[0] = S::fma(d, d, total[0]);
          total[1] = total[1] + d;
        });
      }
      // Takes the rounding error of the mean out of both (the corrected two-pass algorithm).
      const double rest = static_cast<double>(S::sum(total[1])) / size;
      const double exact = static_cast<double>(static_cast<T>(own)) + rest;
      const double squares = static_cast<double>(S::sum(total[0])) - rest * rest * size;
      const double apart = exact - mean, sum = count + size;
      mean += apart * size / sum;
      m2 += squares + apart * apart * count * size / sum;
      count = sum;
    });
    write_image_channel(e, c, finish(c, mean, std::max(m2, 0.0)), x, y);
  }

  // V registers of neighbouring channels of [N, C].
  template <int V, class Load, class Store>
  void row_channels(std::int64_t c, std::int64_t count, const Load& load,
                    const Store& store) const {
    using S = Simd<T>;
    using Reg = typename S::Reg;
    const T rows = static_cast<T>(e.n);
    Reg total[1][V], center[V], sums[2][V];
    sum_rows<T>(e.n, total, [&](std::int64_t i, Reg(&part)[1][V]) {
#pragma GCC unroll 4
      for (int v = 0; v < V; ++v) part[0][v] = part[0][v] + load(x + i * e.channels + c, v);
    });
    for (int v = 0; v < V; ++v) center[v] = total[0][v] / S::set(rows);
    sum_rows<T>(e.n, sums, [&](std::int64_t i, Reg(&part)[2][V]) {
#pragma GCC unroll 4
      for (int v = 0; v < V; ++v) {
        const Reg d = load(x + i * e.channels + c, v) - center[v];
        part[0][v] = S::fma(d, d, part[0][v]);
        part[1][v] = part[1][v] + d;
      }
    });
    constexpr int kWidth = V * S::kWidth;  // channels of V registers
    alignas(64) T centers[kWidth], squares[kWidth], rests[kWidth];
    alignas(64) T scales[kWidth] = {}, shifts[kWidth] = {};
    for (int v = 0; v < V; ++v) {
      S::store(centers + v * S::kWidth, center[v]);
      S::store(squares + v * S::kWidth, sums[0][v]);
      S::store(rests + v * S::kWidth, sums[1][v]);
    }
    for (std::int64_t k = 0; k < count; ++k) {
      const double size = static_cast<double>(e.n), rest = rests[k] / size;
      const double m2 = std::max(squares[k] - rest * rest * size, 0.0);
      const ChannelLine<T> line = finish(c + k, centers[k] + rest, m2);
      centers[k] = line.center, scales[k] = line.scale, shifts[k] = line.shift;
    }
    write_row_channels<V>(e, c, centers, scales, shifts, x, y, load, store);
  }
};

template <class T>
struct BatchNormBackward {
  BatchExtent e;
  const T* g;
  const T* x;
  const T* mean;
  const T* rstd;
  const T* gamma;
  T* dx;
  T* dgamma;
  T* dbeta;

  // Sums of a channel, with d = x - mean: of g, of g d and of d.
  struct Sums {
    double g, product, rest;
  };

  // dx = (g - (d * slope + base)) * factor.
  struct Coefficients {
    T factor, slope, base;
  };

  // dx = gamma rstd (g - average(g) - n average(g n)) with n = (d - average(d)) rstd.
  Coefficients finish(std::int64_t c, Sums s) const {
    if (!std::isfinite(s.product + s.rest)) s = in_double(c);
    const auto count = static_cast<double>(e.each());
    const double rest = left_of_mean(s.rest / count, mean[c]);
    const double product = (s.product - times(rest, s.g)) * rstd[c],
                 slope = product / count * rstd[c];
    dbeta[c] = static_cast<T>(s.g);
    dgamma[c] = static_cast<T>(product);
    return {static_cast<T>(static_cast<double>(gamma[c]) * rstd[c]), static_cast<T>(slope),
            static_cast<T>(s.g / count - times(rest, slope))};
  }

  // The rest of a rounded mean times a sum. It changes no infinite sum.
  static double times(double rest, double sum) { return std::isfinite(sum) ? rest * sum : 0; }

  // For sums beyond T's range.
  Sums in_double(std::int64_t c) const {
    Sums s{0, 0, 0};
    for_elements(e, c, [&](std::int64_t at) {
      const double d = static_cast<double>(x[at]) - mean[c];
      s.g += g[at];
      s.product += g[at] * d;
      s.rest += d;
    });
    return s;
  }

  void image_channel(std::int64_t c) const {
    using S = Simd<T>;
    using Reg = typename S::Reg;
    const std::int64_t image = e.channels * e.plane;
    const Reg center = S::set(mean[c]);
    Sums total{0, 0, 0};
    for_chunks(e, c, kElementsTogether,
               [&](std::int64_t begin, std::int64_t length, std::int64_t runs) {
                 Reg parts[3] = {S::zero(), S::zero(), S::zero()};
                 for (std::int64_t r = 0; r < runs; ++r) {
                   const std::int64_t at = begin + r * image;
                   for_registers<T>(length, [&](const auto& load, const auto&, const auto& cut) {
                     const Reg grad = load(g + at), d = cut(load(x + at) - center);
                     parts[0] = parts[0] + grad;
                     parts[1] = S::fma(grad, d, parts[1]);
                     parts[2] = parts[2] + d;
                   });
                 }
                 const std::array<T, 4> chunk = sums<T>(parts);
                 total.g += chunk[0], total.product += chunk[1], total.rest += chunk[2];
               });
    const Coefficients k = finish(c, total);
    const Reg factor = S::set(k.factor), slope = S::set(k.slope), base = S::set(k.base);
    for (std::int64_t i = 0; i < e.n; ++i) {
      const std::int64_t at = (i * e.channels + c) * e.plane;
      for_registers<T>(e.plane, [&](const auto& load, const auto& store, const auto&) {
        const Reg d = load(x + at) - center;
        store(dx + at, (load(g + at) - S::fma(d, slope, base)) * factor);
      });
    }
  }

  template <int V, class Load, class Store>
  void row_channels(std::int64_t c, std::int64_t count, const Load& load,
                    const Store& store) const {
    using S = Simd<T>;
    using Reg = typename S::Reg;
    Reg center[V], sums[3][V];
    for (int v = 0; v < V; ++v) center[v] = load(mean + c, v);
    sum_rows<T>(e.n, sums, [&](std::int64_t i, Reg(&part)[3][V]) {
#pragma GCC unroll 4
      for (int v = 0; v < V; ++v) {
        const std::int64_t at = i * e.channels + c;
        const Reg grad = load(g + at, v), d = load(x + at, v) - center[v];
        part[0][v] = part[0][v] + grad;
        part[1][v] = S::fma(grad, d, part[1][v]);
        part[2][v] = part[2][v] + d;
      }
    });
    const Reg size = S::set(static_cast<T>(e.n));
    Reg factor[V], slope[V], base[V], beyond = S::zero();
    for (int v = 0; v < V; ++v) {
      const Reg scale = load(rstd + c, v);
      const Reg rest = left_of_mean<T>(sums[2][v] / size, center[v]);
      const Reg product = (sums[1][v] - rest * sums[0][v]) * scale;
      factor[v] = load(gamma + c, v) * scale;
      slope[v] = product / size * scale;
      base[v] = sums[0][v] / size - rest * slope[v];
      store(dgamma + c, v, product);
      store(dbeta + c, v, sums[0][v]);
      beyond = beyond + (sums[1][v] + sums[2][v] + slope[v]) * S::zero();
    }
    if (S::sum(beyond) != T(0)) return one_by_one(c, count);
    for (std::int64_t i = 0; i < e.n; ++i) {
      const std::int64_t at = i * e.channels + c;
#pragma GCC unroll 4
      for (int v = 0; v < V; ++v) {
        const Reg d = load(x + at, v) - center[v];
        store(dx + at, v, (load(g + at, v) - S::fma(d, slope[v], base[v])) * factor[v]);
      }
    }
  }

  // Channels of [N, C] of which some have sums or slopes beyond T's range.
  void one_by_one(std::int64_t c, std::int64_t count) const {
    for (const std::int64_t end = c + count; c < end; ++c) {
      const Coefficients k = finish(c, in_double(c));
      for_elements(e, c, [&](std::int64_t at) {
        dx[at] = (g[at] - std::fma(x[at] - mean[c], k.slope, k.base)) * k.factor;
      });
    }
  }
};

template <class T>
struct Evaluate {
  BatchExtent e;
  const T* x;
  const T* gamma;
  const T* beta;
  const T* mean;
  const T* variance;
  T* y;
  T eps;

  ChannelLine<T> line_of(std::int64_t c) const {
    return {mean[c], gamma[c] / std::sqrt(variance[c] + eps), beta[c]};
  }

  void image_channel(std::int64_t c) const { write_image_channel<T>(e, c, line_of(c), x, y); }

  template <int V, class Load, class Store>
  void row_channels(std::int64_t c, std::int64_t count, const Load& load,
                    const Store& store) const {
    constexpr int kWidth = V * Simd<T>::kWidth;  // channels of V registers
    alignas(64) T centers[kWidth] = {}, scales[kWidth] = {}, shifts[kWidth] = {};
    for (std::int64_t k = 0; k < count; ++k) {
      const ChannelLine<T> line = line_of(c + k);
      centers[k] = line.center, scales[k] = line.scale, shifts[k] = line.shift;
    }
    write_row_channels<V>(e, c, centers, scales, shifts, x, y, load, store);
  }
};

// Channels are independent: threads share them out, and bits do not depend on how.
template <class T, template <class> class Body>
CpuKernel over_channels(const Body<T>& body, int threads) {
  using S = Simd<T>;
  const BatchExtent e = body.e;
  const std::int64_t grain =
      std::max<std::int64_t>(1, kElementsPerPart / std::max<std::int64_t>(1, e.each()));
  if (e.plane != 1) {
    return CpuKernel([=] {
      parallel_for(threads, e.channels, grain, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t c = begin; c < end; ++c) body.image_channel(c);
      });
    });
  }
  // Whole registers, and cache lines of each row to one thread.
  const std::int64_t columns = (grain + 63) / 64 * 64;
  return CpuKernel([=] {
    parallel_for(threads, e.channels, columns, [&](std::int64_t begin, std::int64_t end) {
      // Registers of channels at once. More read longer pieces of each row, but the backward pass
      // holds 3 V sums and V means in registers.
      constexpr int V = 4;
      const auto load = [](const T* p, int v) { return S::load(p + v * S::kWidth); };
      const auto store = [](T* p, int v, typename S::Reg r) { S::store(p + v * S::kWidth, r); };
      std::int64_t c = begin;
      for (; c + V * S::kWidth <= end; c += V * S::kWidth) {
        body.template row_channels<V>(c, V * S::kWidth, load, store);
      }
      for (; c + S::kWidth <= end; c += S::kWidth) {
        body.template row_channels<1>(c, S::kWidth, load, store);
      }
      if (c == end) return;
      const auto mask = S::mask(end - c);
      body.template row_channels<1>(
          c, end - c, [mask](const T* p, int) { return S::load(p, mask); },
          [mask](T* p, int, typename S::Reg r) { S::store(p, mask, r); });
    });
  });
}

template <class T>
CpuKernel bind_batch_norm_forward(const BatchNorm& op, const CpuLaunch& l) {
  return over_channels(
      BatchNormForward<T>{extent_of(l.inputs[0]), l.in<T>(0), l.in<T>(1), l.in<T>(2), l.in<T>(3),
                          l.in<T>(4), l.out<T>(0), l.out<T>(1), l.out<T>(2), l.out<T>(3),
                          l.out<T>(4), op.eps, op.momentum},
      l.choice.threads);
}

template <class T>
CpuKernel bind_batch_norm_backward(const CpuLaunch& l) {
  return over_channels(
      BatchNormBackward<T>{extent_of(l.inputs[1]), l.in<T>(0), l.in<T>(1), l.in<T>(2), l.in<T>(3),
                           l.in<T>(4), l.out<T>(0), l.out<T>(1), l.out<T>(2)},
      l.choice.threads);
}

template <class T>
CpuKernel bind_evaluate(const BatchNormEvaluate& op, const CpuLaunch& l) {
  return over_channels(Evaluate<T>{extent_of(l.inputs[0]), l.in<T>(0), l.in<T>(1), l.in<T>(2),
                                   l.in<T>(3), l.in<T>(4), l.out<T>(0), static_cast<T>(op.eps)},
                       l.choice.threads);
}

std::vector<Candidate> candidates_over(const CpuQuery& q) {
  return {{.threads = threads_for_elements(q.outputs[0].numel(), q.threads)}};
}

}  // namespace

std::vector<Candidate> candidates(const BatchNorm&, const CpuQuery& q) {
  return candidates_over(q);
}

CpuKernel bind(const BatchNorm& op, const CpuLaunch& l) {
  return with_floating<BatchNorm>(
      l.inputs[0].element, [&](auto x) { return bind_batch_norm_forward<decltype(x)>(op, l); });
}

std::vector<Candidate> candidates(const BatchNormGrad&, const CpuQuery& q) {
  return candidates_over(q);
}

CpuKernel bind(const BatchNormGrad&, const CpuLaunch& l) {
  return with_floating<BatchNorm>(l.inputs[0].element,
                                  [&](auto x) { return bind_batch_norm_backward<decltype(x)>(l); });
}

std::vector<Candidate> candidates(const BatchNormEvaluate&, const CpuQuery& q) {
  return candidates_over(q);
}

CpuKernel bind(const BatchNormEvaluate& op, const CpuLaunch& l) {
  return with_floating<BatchNorm>(l.inputs[0].element,
                                  [&](auto x) { return bind_evaluate<decltype(x)>(op, l); });
}

}  // namespace metronome::METRONOME_ISA
