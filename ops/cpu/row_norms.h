// Norms of rows. A centered one (layer norm) takes each row's mean off and adds beta; the other
// (RMS norm) does neither. A block of up to four rows is done at once (row_blocks.h):
//
//   forward    sum -> mean; sums of d = x - mean and d^2 -> rstd; y = (x - mean) rstd gamma + beta
//   backward   sums of h = g gamma, h d and d; dx, and the rows' shares of dgamma and dbeta
//
// The mean is rounded, so d has an average of its own. It is taken off as well, or a row far from 0
// would lose its digits. A row whose squares leave T's range is done again in f64.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "graph/ir/type.h"
#include "ops/cpu/launch.h"
#include "ops/cpu/norms.h"
#include "ops/cpu/row_blocks.h"
#include "ops/rules/by_element.h"

namespace metronome::METRONOME_ISA {

/// n of up to four rows: (x - center) scale + shift, or x scale if not centered.
template <class T, bool kCentered, int R>
struct NormLines {
  using S = Simd<T>;
  using Reg = typename S::Reg;
  Reg center[R], scale[R], shift[R];

  Reg operator()(int r, Reg x) const {
    if constexpr (kCentered) return S::fma(x - center[r], scale[r], shift[r]);
    return x * scale[r];
  }
};

/// n gamma + beta, rstd = 1 / sqrt(average((x - mean)^2) + eps); if not centered n gamma,
/// rstd = 1 / sqrt(average(x^2) + eps).
template <class T, bool kCentered>
struct NormForward {
  const T* x;
  const T* gamma;
  const T* beta;  ///< if centered
  T* y;
  T* mean;  ///< if centered; may be null
  T* rstd;  ///< may be null
  std::int64_t width;
  T eps;

  template <int R>
  void block(std::int64_t row) const {
    using S = Simd<T>;
    using Reg = typename S::Reg;
    const T* const from = x + row * width;
    T* const to = y + row * width;
    NormLines<T, kCentered, R> lines;
    if constexpr (kCentered) {
      center(row, lines);
    } else {
      scale(row, lines);
    }
    for_registers<T>(width, [&](const auto& load, const auto& store, const auto&) {
      const Reg weight = load(gamma), bias = kCentered ? load(beta) : S::zero();
#pragma GCC unroll 4
      for (int r = 0; r < R; ++r) {
        const Reg n = lines(r, load(from + r * width));
        store(to + r * width, kCentered ? S::fma(n, weight, bias) : n * weight);
      }
    });
  }

 private:
  template <int R>
  inline __attribute__((always_inline)) void scale(std::int64_t row,
                                                   NormLines<T, kCentered, R>& lines) const {
    using S = Simd<T>;
    using Reg = typename S::Reg;
    const T* const from = x + row * width;
    Reg squares[1][R];
    sum_row<T>(width, squares, [&](const auto& load, const auto&, Reg(&part)[1][R]) {
#pragma GCC unroll 4
      for (int r = 0; r < R; ++r) {
        const Reg v = load(from + r * width);
        part[0][r] = S::fma(v, v, part[0][r]);
      }
    });
    std::array<T, 4> s = sums<T, R>(squares[0]);
    for (std::size_t r = 0; r < R; ++r) {
      const bool beyond = !(s[r] < std::numeric_limits<T>::infinity());
      s[r] = beyond ? scale_again(from + static_cast<std::int64_t>(r) * width)
                    : T(1) / std::sqrt(s[r] / static_cast<T>(width) + eps);
      lines.scale[r] = S::set(s[r]);
    }
    if (rstd) std::copy(s.begin(), s.begin() + R, rstd + row);
  }

  // rstd of a row whose squares are beyond T's range, from smaller numbers.
  T scale_again(const T* from) const {
    constexpr double kSmaller = sizeof(T) == 4 ? 1 : 0x1p-600;
    double squares = 0;
    for (std::int64_t i = 0; i < width; ++i) {
      const double x = static_cast<double>(from[i]) * kSmaller;
      squares += x * x;
    }
    return static_cast<T>(kSmaller / std::sqrt(squares / static_cast<double>(width)));
  }

  // Mean first, then the squares of what differs from it: no cancellation. A mean far from zero,
  // rounded to T, is off by a good part of what differs from it, so what is left of the differences
  // is summed, too, and its average taken out.
  template <int R>
  inline __attribute__((always_inline)) void center(std::int64_t row,
                                                    NormLines<T, kCentered, R>& lines) const {
    using S = Simd<T>;
    using Reg = typename S::Reg;
    const T* const from = x + row * width;
    Reg total[1][R], differences[2][R];
    sum_row<T>(width, total, [&](const auto& load, const auto&, Reg(&part)[1][R]) {
#pragma GCC unroll 4
      for (int r = 0; r < R; ++r) part[0][r] = part[0][r] + load(from + r * width);
    });
    std::array<T, 4> m = sums<T, R>(total[0]);
    for (T& each : m) each /= static_cast<T>(width);

    for (std::size_t r = 0; r < R; ++r) lines.center[r] = S::set(m[r]);
    sum_row<T>(width, differences, [&](const auto& load, const auto& cut, Reg(&part)[2][R]) {
#pragma GCC unroll 4
      for (int r = 0; r < R; ++r) {
        const Reg d = cut(load(from + r * width) - lines.center[r]);
        part[0][r] = S::fma(d, d, part[0][r]);
        part[1][r] = part[1][r] + d;
      }
    });
    std::array<T, 4> s = sums<T, R>(differences[0]), rest = sums<T, R>(differences[1]);
    // Loops over four, which are one vector.
    std::array<T, 4> variance{};
    for (T& each : rest) each /= static_cast<T>(width);
    for (std::size_t r = 0; r < 4; ++r) {
      variance[r] = s[r] / static_cast<T>(width) - rest[r] * rest[r];
    }
    for (std::size_t r = 0; r < 4; ++r) {
      s[r] = T(1) / std::sqrt((variance[r] < T(0) ? T(0) : variance[r]) + eps);
    }
    T worst = 0;
    for (const T each : variance) worst += each;
    if (!(worst < std::numeric_limits<T>::infinity())) {
      for (std::size_t r = 0; r < R; ++r) {
        if (variance[r] < std::numeric_limits<T>::infinity()) continue;
        const auto [mean, rstd] = in_double(from + static_cast<std::int64_t>(r) * width);
        m[r] = static_cast<T>(mean), s[r] = static_cast<T>(rstd);
        rest[r] = static_cast<T>(mean - static_cast<double>(m[r]));
      }
    }
    for (std::size_t r = 0; r < R; ++r) {
      lines.center[r] = S::set(m[r]), lines.scale[r] = S::set(s[r]);
      lines.shift[r] = S::set(-rest[r] * s[r]);
      m[r] += rest[r];
    }
    if (mean) std::copy(m.begin(), m.begin() + R, mean + row);
    if (rstd) std::copy(s.begin(), s.begin() + R, rstd + row);
  }

  // Mean and rstd of a row whose sum or squares are beyond T's range.
  std::pair<double, double> in_double(const T* from) const {
    double sum = 0, squares = 0;
    for (std::int64_t i = 0; i < width; ++i) sum += from[i];
    const double center = sum / static_cast<double>(width);
    for (std::int64_t i = 0; i < width; ++i) squares += (from[i] - center) * (from[i] - center);
    return {center, 1 / std::sqrt(squares / static_cast<double>(width) + eps)};
  }
};

/// dx = rstd (h - average(h) - n average(h n)) with h = g gamma, n = (d - average(d)) rstd and
/// d = x - mean; if not centered dx = rstd (h - n average(h n)) with n = x rstd.
template <class T, bool kCentered>
struct NormBackward {
  /// Over all rows: of g n, and of g if centered.
  static constexpr std::size_t kSums = kCentered ? 2 : 1;

  const T* g;
  const T* x;
  const T* mean;  ///< if centered
  const T* rstd;
  const T* gamma;
  T* dx;
  std::int64_t width;

  /// Adds these rows to the sums, or begins them.
  template <int R>
  void block(std::int64_t row, bool begins, const std::array<T*, kSums>& of_rows) const {
    using S = Simd<T>;
    using Reg = typename S::Reg;
    const T *const gs = g + row * width, *const xs = x + row * width;
    T *const to = dx + row * width, *const dgamma = of_rows.front(), *const dbeta = of_rows.back();
    NormLines<T, kCentered, R> lines;
    Reg total[kCentered ? 3 : 1][R], average[R], slope[R];
    for (int r = 0; r < R; ++r) {
      if (kCentered) lines.center[r] = S::set(mean[row + r]);
      lines.scale[r] = S::set(rstd[row + r]);
    }
    // Sums of h d and, if centered, of h and of d. Beyond the row gamma is zero, and with it h.
    sum_row<T>(width, total, [&](const auto& load, const auto& cut, auto& part) {
      const Reg weight = load(gamma);
#pragma GCC unroll 4
      for (int r = 0; r < R; ++r) {
        const Reg h = load(gs + r * width) * weight;
        Reg d = load(xs + r * width);
        if (kCentered) d = cut(d - lines.center[r]);
        part[0][r] = S::fma(h, d, part[0][r]);
        if constexpr (kCentered) {
          part[1][r] = part[1][r] + h;
          part[2][r] = part[2][r] + d;
        }
      }
    });
    std::array<T, 4> b = sums<T, R>(total[0]), s{};
    std::copy_n(rstd + row, R, s.begin());
    for (T& each : b) each /= static_cast<T>(width);
    if constexpr (kCentered) {
      std::array<T, 4> a = sums<T, R>(total[1]), c = sums<T, R>(total[2]), m{};
      std::copy_n(mean + row, R, m.begin());
      for (T& each : a) each /= static_cast<T>(width);
      for (std::size_t r = 0; r < 4; ++r) {
        c[r] = left_of_mean<T>(c[r] / static_cast<T>(width), m[r]);
      }
      for (std::size_t r = 0; r < 4; ++r) b[r] -= c[r] * a[r];
      for (std::size_t r = 0; r < R; ++r) {
        lines.shift[r] = S::set(-c[r] * s[r]);
        average[r] = S::set(a[r]);
      }
    }
    for (std::size_t r = 0; r < R; ++r) slope[r] = S::set(b[r] * s[r]);
    for_registers<T>(width, [&](const auto& load, const auto& store, const auto&) {
      const Reg weight = load(gamma);
      Reg of_gamma = begins ? S::zero() : load(dgamma);
      Reg of_beta = begins || !kCentered ? S::zero() : load(dbeta);
#pragma GCC unroll 4
      for (int r = 0; r < R; ++r) {
        const Reg grad = load(gs + r * width), n = lines(r, load(xs + r * width));
        of_gamma = S::fma(grad, n, of_gamma);
        of_beta = of_beta + grad;
        Reg h = grad * weight;
        if (kCentered) h = h - average[r];
        store(to + r * width, (h - n * slope[r]) * lines.scale[r]);
      }
      store(dgamma, of_gamma);
      if (kCentered) store(dbeta, of_beta);
    });
  }
};

inline std::vector<Candidate> norm_candidates(const CpuQuery& q) {
  return {{.threads = threads_for_elements(q.inputs[0].numel(), q.threads)}};
}

/// Operands: x, gamma, beta if centered; results: y, each row's mean if centered, rstd.
template <bool kCentered>
CpuKernel bind_norm(double eps, const CpuLaunch& l) {
  const Type& x = l.inputs[0];
  return with_floating<LayerNorm>(x.element, [&](auto number) {
    using T = decltype(number);
    const NormForward<T, kCentered> forward{l.in<T>(0),
                                            l.in<T>(1),
                                            kCentered ? l.in<T>(2) : nullptr,
                                            l.out<T>(0),
                                            kCentered ? l.out<T>(1) : nullptr,
                                            l.out<T>(kCentered ? 2 : 1),
                                            x.shape.back(),
                                            static_cast<T>(eps)};
    return over_rows(forward, rows_of(x), l.choice.threads);
  });
}

/// Operands: the gradient of y, x, each row's mean if centered, rstd, gamma; results: the gradients
/// of x, of gamma, of beta if centered.
template <bool kCentered>
CpuKernel bind_norm_grad(const CpuLaunch& l) {
  const Type& x = l.inputs[1];
  return with_floating<LayerNorm>(x.element, [&](auto number) {
    using T = decltype(number);
    constexpr std::size_t kRstd = kCentered ? 3 : 2;
    using Backward = NormBackward<T, kCentered>;
    const Backward backward{l.in<T>(0),     l.in<T>(1),         kCentered ? l.in<T>(2) : nullptr,
                            l.in<T>(kRstd), l.in<T>(kRstd + 1), l.out<T>(0),
                            x.shape.back()};
    std::array<T*, Backward::kSums> sums;
    for (std::size_t k = 0; k < sums.size(); ++k) sums[k] = l.out<T>(1 + k);
    return over_rows_with_sums(backward, sums, l.scratch, rows_of(x), l.choice.threads);
  });
}

}  // namespace metronome::METRONOME_ISA
