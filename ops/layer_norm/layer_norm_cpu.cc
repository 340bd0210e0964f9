#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "ops/cpu/launch.h"
#include "ops/cpu/norms.h"
#include "ops/cpu/row_blocks.h"
#include "ops/layer_norm/layer_norm.h"
#include "ops/rules/by_element.h"

namespace metronome::METRONOME_ISA {
namespace {

template <class T>
struct LayerNormForward {
  const T* x;
  const T* gamma;
  const T* beta;
  T* y;
  T* mean;
  T* rstd;
  std::int64_t width;
  T eps;

  // Mean and rstd of a row whose sum or squares are beyond T's range.
  std::pair<double, double> in_double(const T* from) const {
    double sum = 0, squares = 0;
    for (std::int64_t i = 0; i < width; ++i) sum += from[i];
    const double center = sum / static_cast<double>(width);
    for (std::int64_t i = 0; i < width; ++i) squares += (from[i] - center) * (from[i] - center);
    return {center, 1 / std::sqrt(squares / static_cast<double>(width) + eps)};
  }

  // Mean first, then the squares of what differs from it: no cancellation. A mean far from zero,
  // rounded to T, is off by a good part of what differs from it, so what is left of the differences
  // is summed, too, and its average taken out.
  template <int R>
  void block(std::int64_t row) const {
    using S = Simd<T>;
    using Reg = typename S::Reg;
    const T* const from = x + row * width;
    T* const to = y + row * width;
    Reg total[1][R], differences[2][R];
    sum_row<T>(width, total, [&](const auto& load, const auto&, Reg(&part)[1][R]) {
#pragma GCC unroll 4
      for (int r = 0; r < R; ++r) part[0][r] = part[0][r] + load(from + r * width);
    });
    std::array<T, 4> m = sums<T, R>(total[0]);
    for (T& each : m) each /= static_cast<T>(width);

    Reg center[R], scale[R], shift[R];
    for (int r = 0; r < R; ++r) center[r] = S::set(m[static_cast<std::size_t>(r)]);
    sum_row<T>(width, differences, [&](const auto& load, const auto& cut, Reg(&part)[2][R]) {
#pragma GCC unroll 4
      for (int r = 0; r < R; ++r) {
        const Reg d = cut(load(from + r * width) - center[r]);
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
      center[r] = S::set(m[r]), scale[r] = S::set(s[r]), shift[r] = S::set(-rest[r] * s[r]);
      m[r] += rest[r];
    }
    for_registers<T>(width, [&](const auto& load, const auto& store, const auto&) {
      const Reg g = load(gamma), b = load(beta);
#pragma GCC unroll 4
      for (int r = 0; r < R; ++r) {
        const Reg normal = S::fma(load(from + r * width) - center[r], scale[r], shift[r]);
        store(to + r * width, S::fma(normal, g, b));
      }
    });
    if (mean) std::copy(m.begin(), m.begin() + R, mean + row);
    if (rstd) std::copy(s.begin(), s.begin() + R, rstd + row);
  }
};

template <class T>
struct LayerNormBackward {
  const T* g;
  const T* x;
  const T* mean;
  const T* rstd;
  const T* gamma;
  T* dx;
  std::int64_t width;

  // dx = rstd (h - average(h) - n average(h n)) with h = g gamma, n = (d - average(d)) rstd and
  // d = x - mean; adds g n and g of these rows to the sums, or begins them.
  template <int R>
  void block(std::int64_t row, bool begins, const std::array<T*, 2>& of_rows) const {
    using S = Simd<T>;
    using Reg = typename S::Reg;
    const T *const gs = g + row * width, *const xs = x + row * width;
    T* const to = dx + row * width;
    const auto [dgamma, dbeta] = of_rows;
    Reg center[R], scale[R], shift[R], total[3][R];
    for (int r = 0; r < R; ++r) {
      center[r] = S::set(mean[row + r]);
      scale[r] = S::set(rstd[row + r]);
    }
    // Beyond the row gamma is zero, and with it h.
    sum_row<T>(width, total, [&](const auto& load, const auto& cut, Reg(&part)[3][R]) {
      const Reg weight = load(gamma);
#pragma GCC unroll 4
      for (int r = 0; r < R; ++r) {
        const Reg h = load(gs + r * width) * weight;
        const Reg d = cut(load(xs + r * width) - center[r]);
        part[0][r] = part[0][r] + h;
        part[1][r] = S::fma(h, d, part[1][r]);
        part[2][r] = part[2][r] + d;
      }
    });
    std::array<T, 4> a = sums<T, R>(total[0]), b = sums<T, R>(total[1]), c = sums<T, R>(total[2]);
    Reg average[R], slope[R];
    std::array<T, 4> m{}, s{};
    std::copy_n(mean + row, R, m.begin());
    std::copy_n(rstd + row, R, s.begin());
    for (T& each : a) each /= static_cast<T>(width);
    for (std::size_t r = 0; r < 4; ++r) {
      c[r] = left_of_mean<T>(c[r] / static_cast<T>(width), m[r]);
    }
    for (std::size_t r = 0; r < 4; ++r) {
      b[r] = (b[r] / static_cast<T>(width) - c[r] * a[r]) * s[r];
    }
    for (std::size_t r = 0; r < R; ++r) {
      shift[r] = S::set(-c[r] * s[r]);
      average[r] = S::set(a[r]);
      slope[r] = S::set(b[r]);
    }
    for_registers<T>(width, [&](const auto& load, const auto& store, const auto&) {
      const Reg weight = load(gamma);
      Reg of_gamma = begins ? S::zero() : load(dgamma);
      Reg of_beta = begins ? S::zero() : load(dbeta);
#pragma GCC unroll 4
      for (int r = 0; r < R; ++r) {
        const Reg grad = load(gs + r * width);
        const Reg normal = S::fma(load(xs + r * width) - center[r], scale[r], shift[r]);
        of_gamma = S::fma(grad, normal, of_gamma);
        of_beta = of_beta + grad;
        const Reg h = grad * weight - average[r] - normal * slope[r];
        store(to + r * width, h * scale[r]);
      }
      store(dgamma, of_gamma);
      store(dbeta, of_beta);
    });
  }
};

template <class T>
CpuKernel bind_layer_norm_forward(const LayerNorm& op, const CpuLaunch& l) {
  const Type& x = l.inputs[0];
  const LayerNormForward<T> forward{
      l.in<T>(0),  l.in<T>(1),  l.in<T>(2),     l.out<T>(0),
      l.out<T>(1), l.out<T>(2), x.shape.back(), static_cast<T>(op.eps)};
  return over_rows(forward, rows_of(x), l.choice.threads);
}

template <class T>
CpuKernel bind_layer_norm_backward(const CpuLaunch& l) {
  const Type& x = l.inputs[1];
  const LayerNormBackward<T> backward{l.in<T>(0), l.in<T>(1),  l.in<T>(2),    l.in<T>(3),
                                      l.in<T>(4), l.out<T>(0), x.shape.back()};
  return over_rows_with_sums(backward, std::array{l.out<T>(1), l.out<T>(2)}, l.scratch, rows_of(x),
                             l.choice.threads);
}

}  // namespace

std::vector<Candidate> candidates(const LayerNorm&, const CpuQuery& q) {
  return {{.threads = threads_for_elements(q.inputs[0].numel(), q.threads)}};
}

CpuKernel bind(const LayerNorm& op, const CpuLaunch& l) {
  return with_floating(l.inputs[0].element,
                       [&](auto x) { return bind_layer_norm_forward<decltype(x)>(op, l); });
}

std::vector<Candidate> candidates(const LayerNormGrad&, const CpuQuery& q) {
  return {candidate_with_sums(q.inputs[1], 2, q.threads)};
}

CpuKernel bind(const LayerNormGrad&, const CpuLaunch& l) {
  return with_floating(l.inputs[0].element,
                       [&](auto x) { return bind_layer_norm_backward<decltype(x)>(l); });
}

}  // namespace metronome::METRONOME_ISA
