// An update is one pass over parameter, gradient and moments:
//
//   once a call    scalars in f64, rounded to the element type and spread over vectors
//   per vector     load p, g, m, v -> the step's formula -> store p, m, v
//   the tail       the same code under a mask, so an element's bits depend neither on its position
//                  nor on the number of threads
//
// A factor and a decay of Adam are arguments of templates. `adam_table` walks over a table whose
// gradient is a list of rows: between two of them it steps with a gradient of 0.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "ops/cpu/launch.h"
#include "ops/cpu/parallel.h"
#include "ops/cpu/vector.h"
#include "ops/optimizer_updates/optimizer_updates.h"

namespace metronome::METRONOME_ISA {

namespace {

// A thread's share is a multiple of this many elements: no two threads write one cache line.
constexpr std::int64_t kUpdateGrain = 64;

std::vector<Candidate> one_pass(const CpuQuery& query) {
  return {{.threads = query.outputs[0].numel() >= kParallelFrom ? query.threads : 1}};
}

// A vector's place: all of its elements, or the first `count`.
struct WholeVector {};
struct Tail {
  std::int64_t count;
};

template <class T>
Vector<T> get(const T* p, WholeVector) {
  return load(p);
}
template <class T>
Vector<T> get(const T* p, Tail tail) {
  return load(p, tail.count);
}
template <class T>
void put(T* p, const Vector<T>& x, WholeVector) {
  store(p, x);
}
template <class T>
void put(T* p, const Vector<T>& x, Tail tail) {
  store(p, x, tail.count);
}

// body(i, place) for each vector of [begin, end).
template <class T, class Body>
void over_vectors(std::int64_t begin, std::int64_t end, const Body& body) {
  std::int64_t i = begin;
  for (; i + kLanes<T> <= end; i += kLanes<T>) body(i, WholeVector{});
  if (i < end) body(i, Tail{end - i});
}

// The square root of x >= 0. The divider makes quotients and roots one after the other and sets the
// pace of Adam; where AVX-512's estimate of 14 bits and a step of Newton's (together within 1 ulp)
// leave it to the quotient, a thousand f32 elements take 270 ns in place of 375 (Sapphire Rapids).
template <class T>
Vector<T> root(const Vector<T>& x) {
#ifdef __AVX512F__
  if constexpr (std::is_same_v<T, float>) {
    // Not of 0, whose estimate is infinite; x times any other estimate is 0 there.
    const __m512 inverse = _mm512_rsqrt14_ps(_mm512_max_ps(_mm512_set1_ps(0x1p-149f), x));
    const __m512 estimate = _mm512_mul_ps(x, inverse),
                 half = _mm512_mul_ps(inverse, _mm512_set1_ps(0.5f));
    const __m512 rest = _mm512_fnmadd_ps(estimate, estimate, x);
    const __mmask16 infinite = _mm512_cmp_ps_mask(x, _mm512_set1_ps(INFINITY), _CMP_EQ_OQ);
    return _mm512_mask_mov_ps(_mm512_fmadd_ps(rest, half, estimate), infinite, x);
  }
#endif
  return sqrt(x);
}

template <class T>
struct AdamArguments {
  AdamUpdate op;
  const T *param, *grad, *m, *v;
  const double *lr, *bias_correction1, *bias_correction2;
  const double *decay, *factor;  // null where there is none
  T *next_param, *next_m, *next_v;
  std::int64_t n;
  int threads;
};

// The step of a vector's elements.
template <class T, bool kFactor, bool kDecay>
class AdamStep {
 public:
  using Vec = Vector<T>;

  // Numbers once a call, in f64 and then rounded, as libtorch's fused kernel does.
  explicit AdamStep(const AdamArguments<T>& a)
      : a_(a),
        weight1_(constant(1 - a.op.beta1)),
        beta2_(constant(a.op.beta2)),
        weight2_(constant(1 - a.op.beta2)),
        eps_(constant(a.op.eps)),
        step_(constant(-(*a.lr / *a.bias_correction1))),
        scale_(constant(1 / std::sqrt(*a.bias_correction2))),
        factor_(constant(kFactor ? *a.factor : 1)),
        decay_(constant(!kDecay          ? 0
                        : a.op.decoupled ? 1 - *a.lr * *a.decay
                                         : *a.decay)) {}

  template <class Place>
  void operator()(std::int64_t i, Place place, Vec g) const {
    Vec p = get(a_.param + i, place);
    if constexpr (kFactor) g = g * factor_;
    if constexpr (kDecay) {
      if (a_.op.decoupled) {
        p = p * decay_;
      } else {
        g = g + p * decay_;
      }
    }
    Vec m = get(a_.m + i, place);
    m = fmadd(weight1_, g - m, m);
    const Vec v = get(a_.v + i, place) * beta2_ + weight2_ * g * g;
    p = p + step_ * m / (root(v) * scale_ + eps_);
    put(a_.next_m + i, m, place);
    put(a_.next_v + i, v, place);
    put(a_.next_param + i, p, place);
  }

 private:
  static Vec constant(double x) { return Vec(static_cast<T>(x)); }

  AdamArguments<T> a_;
  Vec weight1_, beta2_, weight2_, eps_, step_, scale_, factor_, decay_;
};

template <class T, bool kFactor, bool kDecay>
void adam(const AdamArguments<T>& a) {
  const AdamStep<T, kFactor, kDecay> of_all(a);
  parallel_for(a.threads, a.n, kUpdateGrain, [&](std::int64_t begin, std::int64_t end) {
    const AdamStep<T, kFactor, kDecay> step = of_all;  // where no store can change it
    over_vectors<T>(begin, end,
                    [&](std::int64_t i, auto place) { step(i, place, get(a.grad + i, place)); });
  });
}

// The rows of a table that have a gradient.
template <class T, class Index>
struct TableRows {
  const T* sums;
  const Index* index;
  std::int64_t n, rows, width;
};

template <class T, class Index, bool kDecay>
void adam_table(const AdamArguments<T>& a, const TableRows<T, Index>& table) {
  const AdamStep<T, false, kDecay> of_all(a);
  const Index *const from = table.index, *const to = from + table.n;
  const std::int64_t grain = kUpdateGrain / table.width + 1;
  parallel_for(a.threads, table.rows, grain, [&](std::int64_t begin, std::int64_t end) {
    const AdamStep<T, false, kDecay> step = of_all;
    const std::int64_t width = table.width;
    const Index* at = std::lower_bound(from, to, begin);
    for (std::int64_t row = begin; row < end;) {
      const std::int64_t next = at == to ? end : std::min<std::int64_t>(*at, end);
      over_vectors<T>(row * width, next * width,
                      [&](std::int64_t i, auto place) { step(i, place, Vector<T>(0)); });
      if (next == end) break;
      const T* const sum = table.sums + (at - from) * width;
      over_vectors<T>(0, width, [&](std::int64_t c, auto place) {
        step(next * width + c, place, get(sum + c, place));
      });
      while (at != to && *at == next) ++at;
      row = next + 1;
    }
  });
}

template <class T, class Index>
CpuKernel bind_adam_table(const AdamUpdate& op, const CpuLaunch& launch) {
  const AdamArguments<T> a{op,
                           launch.in<T>(0),
                           nullptr,
                           launch.in<T>(1),
                           launch.in<T>(2),
                           launch.in<double>(5),
                           launch.in<double>(6),
                           launch.in<double>(7),
                           op.decays ? launch.in<double>(8) : nullptr,
                           nullptr,
                           launch.out<T>(0),
                           launch.out<T>(1),
                           launch.out<T>(2),
                           launch.outputs[0].numel(),
                           launch.choice.threads};
  const TableRows<T, Index> rows{launch.in<T>(3), launch.in<Index>(4), launch.inputs[4].numel(),
                                 launch.inputs[0].shape[0], launch.inputs[0].shape[1]};
  if (a.n == 0) return CpuKernel([] {});
  if (op.decays) return CpuKernel([a, rows] { adam_table<T, Index, true>(a, rows); });
  return CpuKernel([a, rows] { adam_table<T, Index, false>(a, rows); });
}

template <class T>
CpuKernel bind_adam(const AdamUpdate& op, const CpuLaunch& launch) {
  const bool factor = launch.inputs.size() > op.arity(), decay = op.decays;
  const AdamArguments<T> a{op,
                           launch.in<T>(0),
                           launch.in<T>(1),
                           launch.in<T>(2),
                           launch.in<T>(3),
                           launch.in<double>(4),
                           launch.in<double>(5),
                           launch.in<double>(6),
                           decay ? launch.in<double>(7) : nullptr,
                           factor ? launch.in<double>(op.arity()) : nullptr,
                           launch.out<T>(0),
                           launch.out<T>(1),
                           launch.out<T>(2),
                           launch.outputs[0].numel(),
                           launch.choice.threads};
  if (factor && decay) return CpuKernel([a] { adam<T, true, true>(a); });
  if (factor) return CpuKernel([a] { adam<T, true, false>(a); });
  if (decay) return CpuKernel([a] { adam<T, false, true>(a); });
  return CpuKernel([a] { adam<T, false, false>(a); });
}

template <class T>
struct SgdArguments {
  SgdUpdate op;
  const T *param, *grad, *buffer;
  const double *lr, *gradient_weight, *decay, *factor;
  T *next_param, *next_buffer;
  std::int64_t n;
  int threads;
};

template <class T, bool kMomentum>
void sgd(const SgdArguments<T>& a) {
  using Vec = Vector<T>;
  const auto constant = [](double x) { return Vec(static_cast<T>(x)); };
  const Vec step = constant(-*a.lr), decay = constant(a.decay != nullptr ? *a.decay : 0);
  const Vec momentum = constant(a.op.momentum);
  const Vec weight = constant(kMomentum ? *a.gradient_weight : 1);
  const Vec factor = constant(a.factor != nullptr ? *a.factor : 1);
  const bool scaled = a.factor != nullptr, decays = a.decay != nullptr;
  const bool nesterov = a.op.nesterov;
  parallel_for(a.threads, a.n, kUpdateGrain, [=, &a](std::int64_t begin, std::int64_t end) {
    over_vectors<T>(begin, end, [=, &a](std::int64_t i, auto place) {
      const Vec p = get(a.param + i, place);
      Vec g = get(a.grad + i, place);
      if (scaled) g = g * factor;
      if (decays) g = g + p * decay;
      if constexpr (kMomentum) {
        const Vec b = get(a.buffer + i, place) * momentum + g * weight;
        put(a.next_buffer + i, b, place);
        g = nesterov ? g + b * momentum : b;
      }
      put(a.next_param + i, p + g * step, place);
    });
  });
}

template <class T>
CpuKernel bind_sgd(const SgdUpdate& op, const CpuLaunch& launch) {
  const bool momentum = op.has_momentum();
  const std::size_t lr = momentum ? 3 : 2;
  const bool factor = launch.inputs.size() > op.arity();
  const SgdArguments<T> a{op,
                          launch.in<T>(0),
                          launch.in<T>(1),
                          momentum ? launch.in<T>(2) : nullptr,
                          launch.in<double>(lr),
                          momentum ? launch.in<double>(lr + 1) : nullptr,
                          op.decays ? launch.in<double>(op.arity() - 1) : nullptr,
                          factor ? launch.in<double>(op.arity()) : nullptr,
                          launch.out<T>(0),
                          momentum ? launch.out<T>(1) : nullptr,
                          launch.outputs[0].numel(),
                          launch.choice.threads};
  if (momentum) return CpuKernel([a] { sgd<T, true>(a); });
  return CpuKernel([a] { sgd<T, false>(a); });
}

template <class T>
void average(const T* from, const T* param, const double* share, T* next, std::int64_t n,
             int threads) {
  using Vec = Vector<T>;
  const T weight = static_cast<T>(*share);
  // As torch.lerp: from the nearer end.
  const bool near = weight < T(0.5);
  const T way = near ? weight : weight - 1;
  const Vec step(way);
  parallel_for(threads, n, kUpdateGrain, [=](std::int64_t begin, std::int64_t end) {
    if (way == 0) {
      std::copy(near ? from + begin : param + begin, near ? from + end : param + end, next + begin);
      return;
    }
    over_vectors<T>(begin, end, [=](std::int64_t i, auto place) {
      const Vec a = get(from + i, place), p = get(param + i, place);
      put(next + i, fmadd(step, p - a, near ? a : p), place);
    });
  });
}

template <class T>
CpuKernel bind_average(const CpuLaunch& launch) {
  return CpuKernel(
      [from = launch.in<T>(0), param = launch.in<T>(1), share = launch.in<double>(2),
       next = launch.out<T>(0), n = launch.outputs[0].numel(),
       threads = launch.choice.threads] { average<T>(from, param, share, next, n, threads); });
}

}  // namespace

std::vector<Candidate> candidates(const AdamUpdate&, const CpuQuery& query) {
  return one_pass(query);
}

CpuKernel bind(const AdamUpdate& op, const CpuLaunch& launch) {
  return launch.outputs[0].element == f32 ? bind_adam<float>(op, launch)
                                          : bind_adam<double>(op, launch);
}

std::vector<Candidate> candidates(const AdamTableUpdate&, const CpuQuery& query) {
  return one_pass(query);
}

CpuKernel bind(const AdamTableUpdate& op, const CpuLaunch& launch) {
  const bool narrow = launch.inputs[4].element == i32;
  if (launch.outputs[0].element == f32) {
    return narrow ? bind_adam_table<float, std::int32_t>(op.step, launch)
                  : bind_adam_table<float, std::int64_t>(op.step, launch);
  }
  return narrow ? bind_adam_table<double, std::int32_t>(op.step, launch)
                : bind_adam_table<double, std::int64_t>(op.step, launch);
}

std::vector<Candidate> candidates(const SgdUpdate&, const CpuQuery& query) {
  return one_pass(query);
}

CpuKernel bind(const SgdUpdate& op, const CpuLaunch& launch) {
  return launch.outputs[0].element == f32 ? bind_sgd<float>(op, launch)
                                          : bind_sgd<double>(op, launch);
}

CpuKernel bind(const AverageWeight& op, const CpuLaunch& launch) {
  return CpuKernel([op, to = launch.out<double>(0), update = launch.in<std::int64_t>(0)] {
    const double sum = 1 - std::pow(op.decay, static_cast<double>(*update) + 1);
    *to = (1 - op.decay) / (op.bias_correction ? sum : 1);
  });
}

std::vector<Candidate> candidates(const AverageUpdate&, const CpuQuery& query) {
  return one_pass(query);
}

CpuKernel bind(const AverageUpdate&, const CpuLaunch& launch) {
  return launch.outputs[0].element == f32 ? bind_average<float>(launch)
                                          : bind_average<double>(launch);
}

}  // namespace metronome::METRONOME_ISA
