// Lines along the last axis are rows, done one after the other. Lines along another axis lie side
// by side, and a register takes one element of several of them at a time. The passes over a line
// are:
//
//   forward    max; sum of e = exp(x - max); y = e / sum
//              log: y = x - max - log(sum), the sum as a count of largest elements and a rest,
//              so that it keeps its digits
//   backward   sum of g y; dx = y (g - sum)
//              log: sum of g; dx = g - exp(y) sum, by expm1 where y is near 0
//
// Sums are made in parts, so long ones keep their digits.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "ops/cpu/launch.h"
#include "ops/cpu/math.h"
#include "ops/cpu/norms.h"
#include "ops/cpu/parallel.h"
#include "ops/rules/axis.h"
#include "ops/rules/by_element.h"
#include "ops/softmax/softmax.h"

namespace metronome::METRONOME_ISA {
namespace {

template <class T>
using Reg = typename Simd<T>::Reg;

template <class T>
Reg<T> exp_of(Reg<T> x) {
  return exp(Vector<T>(x));
}

template <class T>
Reg<T> log_of(Reg<T> x) {
  return log(Vector<T>(x));
}

/// The two parts of the sum in a logarithm: the largest elements, which add 1 each and are counted,
/// and the rest. The sum less 1 so keeps its digits where one element is far above all others, and
/// with it log(sum).
template <class T>
struct TopAndRest {
  Reg<T> tops = Simd<T>::zero(), rest = Simd<T>::zero();

  void add(Reg<T> x, Reg<T> max, Reg<T> e, const auto& cut) {
    const Reg<T> one = Simd<T>::set(1), none = Simd<T>::zero();
    tops = tops + cut(Simd<T>::if_less(x, max, none, one));
    rest = rest + cut(Simd<T>::if_less(x, max, e, e - one));  // NaN stays
  }
  void add(const TopAndRest& part) { tops = tops + part.tops, rest = rest + part.rest; }
};

/// log(tops + rest). Only log1p keeps the digits of a small rest; it takes longer.
template <class T>
T log_of_sum(T tops, T rest) {
  if (rest > tops / 2) return std::log(tops + rest);
  return std::log(tops) + std::log1p(rest / tops);
}

/// g - exp(y) sum, y the logarithm of a probability. expm1 alone gives 1 - exp(y) its digits if the
/// probability is near 1.
template <class T>
Reg<T> log_gradient(Reg<T> g, Reg<T> y, Reg<T> sum) {
  using S = Simd<T>;
  const Reg<T> p = exp_of<T>(y), plain = g - p * sum, half = S::set(T(-0.7));
  // 1 where p is from a half to 1; at 1 both forms are equal, as in lanes beyond a row.
  const Reg<T> near =
      S::if_less(half, y, S::if_less(y, S::zero(), S::set(1), S::zero()), S::zero());
  if (S::maximum(near) == T(0)) return plain;
  const Reg<T> less = expm1(Vector<T>(y));  // p - 1
  return S::if_less(half, y, S::zero() - g * less - p * (sum - g), plain);
}

/// log_gradient, but 0 where neither the element nor the sum has a gradient, whatever y is: so a
/// row whose target is ignored may hold anything.
template <class T>
Reg<T> log_gradient_or_0(Reg<T> g, Reg<T> y, Reg<T> sum) {
  const Vector<T> zero(T(0));
  const Mask<T> none = (Vector<T>(g) == zero) & (Vector<T>(sum) == zero);
  return select(none, zero, Vector<T>(log_gradient<T>(g, y, sum)));
}

template <class T>
void forward_row(const T* x, T* y, std::int64_t n, bool log) {
  using S = Simd<T>;
  const Reg<T> lowest = S::set(-std::numeric_limits<T>::infinity());
  Reg<T> top = lowest;
  std::int64_t i = 0;
  for (; i + S::kWidth <= n; i += S::kWidth) top = S::max(S::load(x + i), top);
  const auto mask = S::mask(n - i);
  if (i < n) top = S::max(S::select(mask, S::load(x + i, mask), lowest), top);
  const Reg<T> max = S::set(S::maximum(top));

  if (log) {
    TopAndRest<T> total;
    for_parts(n, kElementsTogether, [&](std::int64_t begin, std::int64_t count) {
      TopAndRest<T> part;
      for_registers<T>(count, [&](const auto& load, const auto&, const auto& cut) {
        const Reg<T> v = load(x + begin);
        part.add(v, max, exp_of<T>(v - max), cut);
      });
      total.add(part);
    });
    const Reg<T> shift = S::set(log_of_sum(S::sum(total.tops), S::sum(total.rest)));
    for_registers<T>(n, [&](const auto& load, const auto& store, const auto&) {
      store(y, load(x) - max - shift);
    });
    return;
  }
  Reg<T> total = S::zero();
  for_parts(n, kElementsTogether, [&](std::int64_t begin, std::int64_t count) {
    Reg<T> part = S::zero();
    for_registers<T>(count, [&](const auto& load, const auto& store, const auto& cut) {
      const Reg<T> e = exp_of<T>(load(x + begin) - max);
      part = part + cut(e);
      store(y + begin, e);
    });
    total = total + part;
  });
  const Reg<T> sum = S::set(S::sum(total));
  for_registers<T>(
      n, [&](const auto& load, const auto& store, const auto&) { store(y, load(y) / sum); });
}

template <class T>
void backward_row(const T* g, const T* y, T* dx, std::int64_t n, bool log) {
  using S = Simd<T>;
  Reg<T> total = S::zero();
  for_parts(n, kElementsTogether, [&](std::int64_t begin, std::int64_t count) {
    Reg<T> part = S::zero();
    for_registers<T>(count, [&](const auto& load, const auto&, const auto&) {
      part = log ? part + load(g + begin) : S::fma(load(g + begin), load(y + begin), part);
    });
    total = total + part;
  });
  const Reg<T> sum = S::set(S::sum(total));
  if (log && S::sum(total) == T(0)) {
    for_registers<T>(n, [&](const auto& load, const auto& store, const auto&) {
      store(dx, log_gradient_or_0<T>(load(g), load(y), sum));
    });
    return;
  }
  for_registers<T>(n, [&](const auto& load, const auto& store, const auto&) {
    store(dx, log ? log_gradient<T>(load(g), load(y), sum) : load(y) * (load(g) - sum));
  });
}

/// backward_row with `log`, of a gradient that is `g` at one place and 0 elsewhere.
template <class T>
void backward_picked_row(T g, std::int64_t at, const T* y, T* dx, std::int64_t n) {
  using S = Simd<T>;
  const Reg<T> none = S::zero(), sum = S::set(g);
  if (g == T(0)) {
    for_registers<T>(n, [&](const auto&, const auto& store, const auto&) { store(dx, none); });
    return;
  }
  const Reg<T> there = log_gradient<T>(sum, S::set(y[at]), sum);
  for_registers<T>(n, [&](const auto& load, const auto& store, const auto&) {
    store(dx, log_gradient<T>(none, load(y), sum));
  });
  S::store(dx + at, S::mask(1), there);
}

// One register of neighbours; their axis has `n` elements, `step` apart.
template <class T, class Load, class Store>
void forward_column(std::int64_t n, std::int64_t step, bool log_form, const T* x, T* y,
                    const Load& load, const Store& store) {
  using S = Simd<T>;
  Reg<T> max = load(x);
  for (std::int64_t i = 1; i < n; ++i) max = S::max(load(x + i * step), max);
  if (log_form) {
    const auto whole = [](Reg<T> e) { return e; };
    TopAndRest<T> total;
    for_parts(n, kRowsTogether, [&](std::int64_t begin, std::int64_t count) {
      TopAndRest<T> part;
      for (std::int64_t i = begin; i < begin + count; ++i) {
        const Reg<T> v = load(x + i * step);
        part.add(v, max, exp_of<T>(v - max), whole);
      }
      total.add(part);
    });
    const Reg<T> more = log1p(Vector<T>(total.rest / total.tops));
    const Reg<T> shift = log_of<T>(total.tops) + more;
    for (std::int64_t i = 0; i < n; ++i) store(y + i * step, load(x + i * step) - max - shift);
    return;
  }
  Reg<T> total = S::zero();
  for_parts(n, kRowsTogether, [&](std::int64_t begin, std::int64_t count) {
    Reg<T> part = S::zero();
    for (std::int64_t i = begin; i < begin + count; ++i) {
      const Reg<T> e = exp_of<T>(load(x + i * step) - max);
      part = part + e;
      store(y + i * step, e);
    }
    total = total + part;
  });
  for (std::int64_t i = 0; i < n; ++i) {
    T* const to = y + i * step;
    store(to, load(to) / total);
  }
}

template <class T, class Load, class Store>
void backward_column(std::int64_t n, std::int64_t step, bool log_form, const T* g, const T* y,
                     T* dx, const Load& load, const Store& store) {
  using S = Simd<T>;
  Reg<T> total = S::zero();
  for_parts(n, kRowsTogether, [&](std::int64_t begin, std::int64_t count) {
    Reg<T> part = S::zero();
    for (std::int64_t i = begin; i < begin + count; ++i) {
      const Reg<T> grad = load(g + i * step);
      part = log_form ? part + grad : S::fma(grad, load(y + i * step), part);
    }
    total = total + part;
  });
  for (std::int64_t i = 0; i < n; ++i) {
    const Reg<T> grad = load(g + i * step), result = load(y + i * step);
    store(dx + i * step,
          log_form ? log_gradient_or_0<T>(grad, result, total) : result * (grad - total));
  }
}

// Runs `row(offset)` for each line along a last axis, else `column(offset, load, store)` for each
// register of lines.
template <class T, class Row, class Column>
void walk(const AxisExtent& e, int threads, const Row& row, const Column& column) {
  using S = Simd<T>;
  if (e.size == 0) return;
  if (e.inner == 1) {
    const std::int64_t grain = std::max<std::int64_t>(1, kElementsPerPart / e.size);
    parallel_for(threads, e.outer, grain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t r = begin; r < end; ++r) row(r * e.size);
    });
    return;
  }
  const std::int64_t columns = (e.inner + S::kWidth - 1) / S::kWidth;
  const std::int64_t grain = std::max<std::int64_t>(1, kElementsPerPart / (e.size * S::kWidth));
  parallel_for(threads, e.outer * columns, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t first = i % columns * S::kWidth;
      const std::int64_t offset = i / columns * e.size * e.inner + first;
      if (first + S::kWidth <= e.inner) {
        column(
            offset, [](const T* p) { return S::load(p); }, [](T* p, Reg<T> x) { S::store(p, x); });
      } else {
        const auto mask = S::mask(e.inner - first);
        column(
            offset, [mask](const T* p) { return S::load(p, mask); },
            [mask](T* p, Reg<T> x) { S::store(p, mask, x); });
      }
    }
  });
}

template <class T>
CpuKernel bind_forward(const Softmax& op, const CpuLaunch& l) {
  const T* const x = l.in<T>(0);
  T* const y = l.out<T>(0);
  return CpuKernel([=, e = extent_along(l.inputs[0], op.axis), log = op.log,
                    threads = l.choice.threads] {
    walk<T>(
        e, threads, [&](std::int64_t offset) { forward_row(x + offset, y + offset, e.size, log); },
        [&](std::int64_t offset, const auto& load, const auto& store) {
          forward_column(e.size, e.inner, log, x + offset, y + offset, load, store);
        });
  });
}

template <class T>
CpuKernel bind_backward(const SoftmaxGrad& op, const CpuLaunch& l) {
  const T* const g = l.in<T>(0);
  const T* const y = l.in<T>(1);
  T* const dx = l.out<T>(0);
  return CpuKernel([=, e = extent_along(l.inputs[0], op.axis), log = op.log,
                    threads = l.choice.threads] {
    walk<T>(
        e, threads, [&](std::int64_t at) { backward_row(g + at, y + at, dx + at, e.size, log); },
        [&](std::int64_t at, const auto& load, const auto& store) {
          backward_column(e.size, e.inner, log, g + at, y + at, dx + at, load, store);
        });
  });
}

template <class T, class I>
CpuKernel bind_picked(const PickedSoftmaxGrad& op, const CpuLaunch& l) {
  const std::int64_t size = l.inputs[2].shape.back(), rows = l.inputs[0].numel();
  return CpuKernel([g = l.in<T>(0), index = l.in<I>(1), y = l.in<T>(2), dx = l.out<T>(0), size,
                    rows, ignored = op.ignored.value_or(-1), threads = l.choice.threads] {
    const std::int64_t grain = std::max<std::int64_t>(1, kElementsPerPart / size);
    parallel_for(threads, rows, grain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        const std::int64_t at = index[i];
        const bool picked = at >= 0 && at < size && at != ignored;
        backward_picked_row(picked ? g[i] : T(0), at, y + i * size, dx + i * size, size);
      }
    });
  });
}

}  // namespace

std::vector<Candidate> candidates(const Softmax&, const CpuQuery& q) {
  return {{.threads = threads_for_elements(q.inputs[0].numel(), q.threads)}};
}

CpuKernel bind(const Softmax& op, const CpuLaunch& l) {
  return with_floating<Softmax>(l.inputs[0].element,
                                [&](auto x) { return bind_forward<decltype(x)>(op, l); });
}

std::vector<Candidate> candidates(const SoftmaxGrad&, const CpuQuery& q) {
  return {{.threads = threads_for_elements(q.inputs[0].numel(), q.threads)}};
}

CpuKernel bind(const SoftmaxGrad& op, const CpuLaunch& l) {
  return with_floating<Softmax>(l.inputs[0].element,
                                [&](auto x) { return bind_backward<decltype(x)>(op, l); });
}

std::vector<Candidate> candidates(const PickedSoftmaxGrad&, const CpuQuery& q) {
  return {{.threads = threads_for_elements(q.inputs[2].numel(), q.threads)}};
}

CpuKernel bind(const PickedSoftmaxGrad& op, const CpuLaunch& l) {
  if (l.outputs[0].numel() == 0) return CpuKernel([] {});
  return with_floating<Softmax>(l.inputs[2].element, [&](auto x) {
    return l.inputs[1].element == i32 ? bind_picked<decltype(x), std::int32_t>(op, l)
                                      : bind_picked<decltype(x), std::int64_t>(op, l);
  });
}

}  // namespace metronome::METRONOME_ISA
