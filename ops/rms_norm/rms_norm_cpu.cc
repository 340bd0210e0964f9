#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <vector>

#include "ops/cpu/launch.h"
#include "ops/cpu/norms.h"
#include "ops/cpu/row_blocks.h"
#include "ops/rms_norm/rms_norm.h"
#include "ops/rules/by_element.h"

namespace metronome::METRONOME_ISA {
namespace {

template <class T>
struct RmsNormForward {
  const T* x;
  const T* gamma;
  T* y;
  T* rstd;
  std::int64_t width;
  T eps;

  template <int R>
  void block(std::int64_t row) const {
    using S = Simd<T>;
    using Reg = typename S::Reg;
    const T* const from = x + row * width;
    T* const to = y + row * width;
    Reg squares[1][R], scale[R];
    sum_row<T>(width, squares, [&](const auto& load, const auto&, Reg(&part)[1][R]) {
#pragma GCC unroll 4
      for (int r = 0; r < R; ++r) {
        const Reg v = load(from + r * width);
        part[0][r] = S::fma(v, v, part[0][r]);
      }
    });
    std::array<T, 4> s = sums<T, R>(squares[0]);
    for (T& each : s) each = T(1) / std::sqrt(each / static_cast<T>(width) + eps);
    for (std::size_t r = 0; r < R; ++r) scale[r] = S::set(s[r]);
    for_registers<T>(width, [&](const auto& load, const auto& store, const auto&) {
      const Reg weight = load(gamma);
#pragma GCC unroll 4
      for (int r = 0; r < R; ++r) store(to + r * width, load(from + r * width) * scale[r] * weight);
    });
    if (rstd) std::copy(s.begin(), s.begin() + R, rstd + row);
  }
};

template <class T>
struct RmsNormBackward {
  const T* g;
  const T* x;
  const T* rstd;
  const T* gamma;
  T* dx;
  std::int64_t width;

  // dx = rstd (h - n average(h n)) with h = g gamma and n = x rstd; adds g n of these rows to the
  // sums, or begins them.
  template <int R>
  void block(std::int64_t row, bool begins, const std::array<T*, 1>& of_rows) const {
    using S = Simd<T>;
    using Reg = typename S::Reg;
    const T *const gs = g + row * width, *const xs = x + row * width;
    T* const to = dx + row * width;
    T* const dgamma = of_rows[0];
    Reg total[1][R], scale[R], slope[R];
    // Beyond the row gamma is zero, and with it h.
    sum_row<T>(width, total, [&](const auto& load, const auto&, Reg(&part)[1][R]) {
      const Reg weight = load(gamma);
#pragma GCC unroll 4
      for (int r = 0; r < R; ++r) {
        part[0][r] = S::fma(load(gs + r * width) * weight, load(xs + r * width), part[0][r]);
      }
    });
    const std::array<T, 4> products = sums<T, R>(total[0]);
    for (std::size_t r = 0; r < R; ++r) {
      const T own = rstd[row + static_cast<std::int64_t>(r)];
      scale[r] = S::set(own);
      slope[r] = S::set(products[r] / static_cast<T>(width) * own);
    }
    for_registers<T>(width, [&](const auto& load, const auto& store, const auto&) {
      const Reg weight = load(gamma);
      Reg of_gamma = begins ? S::zero() : load(dgamma);
#pragma GCC unroll 4
      for (int r = 0; r < R; ++r) {
        const Reg grad = load(gs + r * width);
        const Reg normal = load(xs + r * width) * scale[r];
        of_gamma = S::fma(grad, normal, of_gamma);
        store(to + r * width, (grad * weight - normal * slope[r]) * scale[r]);
      }
      store(dgamma, of_gamma);
    });
  }
};

template <class T>
CpuKernel bind_rms_norm_forward(const RmsNorm& op, const CpuLaunch& l) {
  const Type& x = l.inputs[0];
  const RmsNormForward<T> forward{l.in<T>(0),  l.in<T>(1),     l.out<T>(0),
                                  l.out<T>(1), x.shape.back(), static_cast<T>(op.eps)};
  return over_rows(forward, rows_of(x), l.choice.threads);
}

template <class T>
CpuKernel bind_rms_norm_backward(const CpuLaunch& l) {
  const Type& x = l.inputs[1];
  const RmsNormBackward<T> backward{l.in<T>(0), l.in<T>(1),  l.in<T>(2),
                                    l.in<T>(3), l.out<T>(0), x.shape.back()};
  return over_rows_with_sums(backward, std::array{l.out<T>(1)}, l.scratch, rows_of(x),
                             l.choice.threads);
}

}  // namespace

std::vector<Candidate> candidates(const RmsNorm&, const CpuQuery& q) {
  return {{.threads = threads_for_elements(q.inputs[0].numel(), q.threads)}};
}

CpuKernel bind(const RmsNorm& op, const CpuLaunch& l) {
  return with_floating(l.inputs[0].element,
                       [&](auto x) { return bind_rms_norm_forward<decltype(x)>(op, l); });
}

std::vector<Candidate> candidates(const RmsNormGrad&, const CpuQuery& q) {
  return {candidate_with_sums(q.inputs[1], 1, q.threads)};
}

CpuKernel bind(const RmsNormGrad&, const CpuLaunch& l) {
  return with_floating(l.inputs[0].element,
                       [&](auto x) { return bind_rms_norm_backward<decltype(x)>(l); });
}

}  // namespace metronome::METRONOME_ISA
