// Four rows at a time: their sums hide each other's latency, and gamma, beta and their gradients
// are loaded once for four.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <vector>

#include "ops/cpu/launch.h"
#include "ops/cpu/norms.h"
#include "ops/cpu/parallel.h"
#include "ops/layer_norm.h"

namespace metronome::METRONOME_ISA {
namespace {

constexpr int kRows = 4;

std::int64_t rows_of(const Type& x) {
  std::int64_t rows = 1;
  for (std::size_t i = 0; i + 1 < x.shape.size(); ++i) rows *= x.shape[i];
  return rows;
}

// Rows of one thread's part: a multiple of the block.
std::int64_t grain_of(std::int64_t width) {
  const std::int64_t rows = std::max<std::int64_t>(1, kElementsPerPart / width);
  return (rows + kRows - 1) / kRows * kRows;
}

// f(std::integral_constant<int, R>, row) for blocks of R rows.
template <class F>
void for_blocks(std::int64_t begin, std::int64_t end, const F& f) {
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

template <class T>
struct Forward {
  const T* x;
  const T* gamma;
  const T* beta;
  T* y;
  T* mean;
  T* rstd;
  std::int64_t width;
  T eps;

  // Mean first, then the squares of what differs from it: no cancellation.
  template <int R>
  void block(std::int64_t row) const {
    using S = Simd<T>;
    using Reg = typename S::Reg;
    const T* const from = x + row * width;
    T* const to = y + row * width;
    Reg total[R];
    for (int r = 0; r < R; ++r) total[r] = S::zero();
    for_registers<T>(width, [&](const auto& load, const auto&, const auto&) {
#pragma GCC unroll 4
      for (int r = 0; r < R; ++r) total[r] = total[r] + load(from + r * width);
    });
    std::array<T, 4> m = sums<T, R>(total);
    for (T& each : m) each /= static_cast<T>(width);

    Reg center[R], scale[R];
    for (int r = 0; r < R; ++r) {
      center[r] = S::set(m[static_cast<std::size_t>(r)]);
      total[r] = S::zero();
    }
    for_registers<T>(width, [&](const auto& load, const auto&, const auto& cut) {
#pragma GCC unroll 4
      for (int r = 0; r < R; ++r) {
        const Reg d = cut(load(from + r * width) - center[r]);
        total[r] = S::fma(d, d, total[r]);
      }
    });
    std::array<T, 4> s = sums<T, R>(total);
    for (T& each : s) each = T(1) / std::sqrt(each / static_cast<T>(width) + eps);

    for (int r = 0; r < R; ++r) scale[r] = S::set(s[static_cast<std::size_t>(r)]);
    for_registers<T>(width, [&](const auto& load, const auto& store, const auto&) {
      const Reg g = load(gamma), b = load(beta);
#pragma GCC unroll 4
      for (int r = 0; r < R; ++r) {
        const Reg normal = (load(from + r * width) - center[r]) * scale[r];
        store(to + r * width, S::fma(normal, g, b));
      }
    });
    if (mean) std::copy(m.begin(), m.begin() + R, mean + row);
    if (rstd) std::copy(s.begin(), s.begin() + R, rstd + row);
  }
};

template <class T>
struct Backward {
  const T* g;
  const T* x;
  const T* mean;
  const T* rstd;
  const T* gamma;
  T* dx;
  std::int64_t width;

  // dx = rstd (h - average(h) - n average(h n)) with h = g gamma and n = (x - mean) rstd; adds g n
  // and g of these rows to the sums, or begins them.
  template <int R>
  void block(std::int64_t row, bool begins, T* dgamma, T* dbeta) const {
    using S = Simd<T>;
    using Reg = typename S::Reg;
    const T *const gs = g + row * width, *const xs = x + row * width;
    T* const to = dx + row * width;
    Reg center[R], scale[R], total[R], product[R];
    for (int r = 0; r < R; ++r) {
      center[r] = S::set(mean[row + r]);
      scale[r] = S::set(rstd[row + r]);
      total[r] = product[r] = S::zero();
    }
    // Beyond the row gamma is zero, and with it h.
    for_registers<T>(width, [&](const auto& load, const auto&, const auto&) {
      const Reg weight = load(gamma);
#pragma GCC unroll 4
      for (int r = 0; r < R; ++r) {
        const Reg h = load(gs + r * width) * weight;
        total[r] = total[r] + h;
        product[r] = S::fma(h, load(xs + r * width) - center[r], product[r]);
      }
    });
    std::array<T, 4> a = sums<T, R>(total), b = sums<T, R>(product);
    Reg average[R], slope[R];
    for (int r = 0; r < R; ++r) {
      const T s = rstd[row + r] / static_cast<T>(width);
      average[r] = S::set(a[static_cast<std::size_t>(r)] / static_cast<T>(width));
      slope[r] = S::set(b[static_cast<std::size_t>(r)] * s);
    }
    for_registers<T>(width, [&](const auto& load, const auto& store, const auto&) {
      const Reg weight = load(gamma);
      Reg of_gamma = begins ? S::zero() : load(dgamma);
      Reg of_beta = begins ? S::zero() : load(dbeta);
#pragma GCC unroll 4
      for (int r = 0; r < R; ++r) {
        const Reg grad = load(gs + r * width);
        const Reg normal = (load(xs + r * width) - center[r]) * scale[r];
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
CpuKernel bind_forward(const LayerNorm& op, const CpuLaunch& l) {
  const Type& x = l.inputs[0];
  const Forward<T> forward{l.in<T>(0),  l.in<T>(1),  l.in<T>(2),     l.out<T>(0),
                           l.out<T>(1), l.out<T>(2), x.shape.back(), static_cast<T>(op.eps)};
  const std::int64_t rows = rows_of(x), grain = grain_of(forward.width);
  return CpuKernel([forward, rows, grain, threads = l.choice.threads] {
    parallel_for(threads, rows, grain, [&](std::int64_t begin, std::int64_t end) {
      for_blocks(begin, end, [&](auto r, std::int64_t row) { forward.template block<r()>(row); });
    });
  });
}

// Elements of one thread's sums; each begins on a cache line of its own.
std::int64_t partial_stride(std::int64_t width) { return (2 * width + 15) / 16 * 16; }

template <class T>
CpuKernel bind_backward(const CpuLaunch& l) {
  const Type& x = l.inputs[1];
  const Backward<T> backward{l.in<T>(0), l.in<T>(1),  l.in<T>(2),    l.in<T>(3),
                             l.in<T>(4), l.out<T>(0), x.shape.back()};
  T* const dgamma = l.out<T>(1);
  T* const dbeta = l.out<T>(2);
  T* const scratch = static_cast<T*>(l.scratch);
  const std::int64_t rows = rows_of(x), grain = grain_of(backward.width);
  return CpuKernel([=, threads = l.choice.threads] {
    const std::int64_t width = backward.width;
    if (rows == 0) {
      std::fill_n(dgamma, width, T(0));
      std::fill_n(dbeta, width, T(0));
      return;
    }
    // The first part sums in the outputs, the others in scratch, added in their order.
    parallel_for(threads, rows, grain, [&](std::int64_t begin, std::int64_t end, int part) {
      T* const own = part == 0 ? nullptr : scratch + (part - 1) * partial_stride(width);
      T* const of_gamma = part == 0 ? dgamma : own;
      T* const of_beta = part == 0 ? dbeta : own + width;
      for_blocks(begin, end, [&](auto r, std::int64_t row) {
        backward.template block<r()>(row, row == begin, of_gamma, of_beta);
      });
    });
    const std::int64_t size = part_size(threads, rows, grain);
    for (std::int64_t part = 1; part * size < rows; ++part) {
      const T* const own = scratch + (part - 1) * partial_stride(width);
      for (std::int64_t i = 0; i < width; ++i) dgamma[i] += own[i];
      for (std::int64_t i = 0; i < width; ++i) dbeta[i] += own[width + i];
    }
  });
}

}  // namespace

std::vector<Candidate> candidates(const LayerNorm&, const CpuQuery& q) {
  return {{.threads = threads_for_elements(q.inputs[0].numel(), q.threads)}};
}

CpuKernel bind(const LayerNorm& op, const CpuLaunch& l) {
  return l.inputs[0].element == f64 ? bind_forward<double>(op, l) : bind_forward<float>(op, l);
}

std::vector<Candidate> candidates(const LayerNormGrad&, const CpuQuery& q) {
  const Type& x = q.inputs[1];
  const int threads = threads_for_elements(x.numel(), q.threads);
  const auto partials = static_cast<std::size_t>((threads - 1) * partial_stride(x.shape.back()));
  return {{.scratch_bytes = partials * size_of(x.element), .threads = threads}};
}

CpuKernel bind(const LayerNormGrad&, const CpuLaunch& l) {
  return l.inputs[0].element == f64 ? bind_backward<double>(l) : bind_backward<float>(l);
}

}  // namespace metronome::METRONOME_ISA
