// One kernel for the updates of all parameters. A table in device memory says where each parameter
// and what belongs to it lies; blocks take chunks of equal size, so that large and tiny parameters
// keep every multiprocessor equally busy. The arithmetic is that of
// ops/optimizer_updates/optimizer_updates.h, in the order of the CPU's kernel.
#pragma once

#include "ops/kernel/index.h"
#include "ops/kernel/kernel.h"
#include "ops/kernel/math.h"
#include "ops/kernel/reduce.h"

namespace metronome::cuda {

/// A parameter's tensors of equal size and its f64 scalars. A result may lie over the operand of
/// the same elements.
template <class T>
struct UpdateTensors {
  const T* in[4];           ///< param, grad, then what the rule keeps between steps
  T* out[3];                ///< param', then the same
  const double* scalar[5];  ///< the rule's, decay if it has one, factor of grad or null
  Index count;
  bool aligned;  ///< all tensors, to 16 bytes
};

/// The factor of the gradient at a place of the scalars, 1 where there is none.
template <class T>
METRONOME_DEVICE T factor_of(const UpdateTensors<T>& u, int place) {
  return u.scalar[place] != nullptr ? T(*u.scalar[place]) : T(1);
}

/// A block's share: elements [index * size, (index + 1) * size) of a parameter.
struct Chunk {
  int parameter;
  int index;
};

struct AdamRule {
  static constexpr const char* name = "adam_update";
  static constexpr int kIn = 4, kOut = 3, kScalars = 3;
  double beta1, beta2, eps;
  bool decays, decoupled;

  /// The numbers of one step: made in f64 and then rounded, as libtorch's fused kernel does.
  template <class T>
  struct Step {
    T weight1, beta2, weight2, eps, step, scale, factor, decay;
    bool scales, decays, decoupled;

    METRONOME_DEVICE Step(const AdamRule& rule, const UpdateTensors<T>& u)
        : weight1(T(1 - rule.beta1)),
          beta2(T(rule.beta2)),
          weight2(T(1 - rule.beta2)),
          eps(T(rule.eps)),
          step(T(-(*u.scalar[0] / *u.scalar[1]))),
          scale(T(1 / sqrt_of(*u.scalar[2]))),
          factor(factor_of(u, kScalars + rule.decays)),
          decay(decay_of(rule, u)),
          scales(u.scalar[kScalars + rule.decays] != nullptr),
          decays(rule.decays),
          decoupled(rule.decoupled) {}

    METRONOME_DEVICE static T decay_of(const AdamRule& rule, const UpdateTensors<T>& u) {
      if (!rule.decays) return T(0);
      const double decay = *u.scalar[kScalars];
      return T(rule.decoupled ? 1 - *u.scalar[0] * decay : decay);
    }

    METRONOME_DEVICE void operator()(const T (&x)[kIn], T (&y)[kOut]) const {
      T p = x[0], g = x[1];
      if (scales) g = g * factor;
      if (decays && decoupled) p = p * decay;
      if (decays && !decoupled) g = g + p * decay;
      const T m = fma_of(weight1, g - x[2], x[2]);
      const T v = x[3] * beta2 + weight2 * g * g;
      y[0] = p + step * m / (sqrt_of(v) * scale + eps);
      y[1] = m;
      y[2] = v;
    }
  };
};

template <bool kMomentum>
struct SgdRule {
  static constexpr const char* name = "sgd_update";
  static constexpr int kIn = kMomentum ? 3 : 2, kOut = kMomentum ? 2 : 1;
  static constexpr int kScalars = kMomentum ? 2 : 1;
  double momentum;
  bool decays, nesterov;

  template <class T>
  struct Step {
    T step, decay, momentum, weight, factor;
    bool scales, decays, nesterov;

    METRONOME_DEVICE Step(const SgdRule& rule, const UpdateTensors<T>& u)
        : step(T(-*u.scalar[0])),
          decay(rule.decays ? T(*u.scalar[kScalars]) : T(0)),
          momentum(T(rule.momentum)),
          weight(kMomentum ? T(*u.scalar[1]) : T(1)),
          factor(factor_of(u, kScalars + rule.decays)),
          scales(u.scalar[kScalars + rule.decays] != nullptr),
          decays(rule.decays),
          nesterov(rule.nesterov) {}

    METRONOME_DEVICE void operator()(const T (&x)[kIn], T (&y)[kOut]) const {
      T g = x[1];
      if (scales) g = g * factor;
      if (decays) g = g + x[0] * decay;
      if constexpr (kMomentum) {
        y[1] = x[2] * momentum + g * weight;
        g = nesterov ? g + y[1] * momentum : y[1];
      }
      y[0] = x[0] + g * step;
    }
  };
};

struct AverageRule {
  static constexpr const char* name = "average_update";
  static constexpr int kIn = 2, kOut = 1, kScalars = 1;

  template <class T>
  struct Step {
    T step;
    bool near;

    METRONOME_DEVICE Step(const AverageRule&, const UpdateTensors<T>& u) {
      const T weight = T(*u.scalar[0]);
      near = weight < T(0.5);  // a weight of 0 or 1 is a step of 0
      step = near ? weight : weight - T(1);
    }

    METRONOME_DEVICE void operator()(const T (&x)[kIn], T (&y)[kOut]) const {
      const T base = near ? x[0] : x[1];
      y[0] = step == T(0) ? base : fma_of(step, x[1] - x[0], base);
    }
  };
};

/// One block a chunk.
template <class T, class Rule>
struct Update {
  static constexpr const char* name = Rule::name;
  static constexpr int kIn = Rule::kIn, kOut = Rule::kOut;
  static constexpr int kWide = 16 / sizeof(T);
  Rule rule;
  const UpdateTensors<T>* parameters;
  const Chunk* chunks;  ///< one for each block
  Index size;           ///< of a chunk: elements, a multiple of kWide
  Watch watch;

  template <class Context>
  METRONOME_DEVICE void operator()(Context& c) const {
    const Chunk chunk = chunks[c.block()];
    const UpdateTensors<T> u = parameters[chunk.parameter];
    const typename Rule::template Step<T> step(rule, u);
    const Index begin = chunk.index * size;
    const Index end = begin + size < u.count ? begin + size : u.count;
    const Index wide_end = u.aligned ? begin + (end - begin) / kWide * kWide : begin;
    for (Index i = begin + c.thread() * kWide; i < wide_end; i += Index(c.threads()) * kWide) {
      several<kWide>(c, step, u, i);
    }
    for (Index i = wide_end + c.thread(); i < end; i += c.threads()) several<1>(c, step, u, i);
  }

 private:
  /// Elements [i, i + kCount): all are read before one is written.
  template <int kCount, class Context, class Step>
  METRONOME_DEVICE void several(Context& c, const Step& step, const UpdateTensors<T>& u,
                                Index i) const {
    using P = Pack<T, kCount>;
    P x[kIn], y[kOut];
    METRONOME_UNROLL
    for (int k = 0; k < kIn; ++k) x[k] = *reinterpret_cast<const P*>(u.in[k] + i);
    METRONOME_UNROLL
    for (int e = 0; e < kCount; ++e) {
      T before[kIn], after[kOut];
      METRONOME_UNROLL
      for (int k = 0; k < kIn; ++k) before[k] = x[k].v[e];
      step(before, after);
      METRONOME_UNROLL
      for (int k = 0; k < kOut; ++k) y[k].v[e] = watch_number(c, watch, after[k]);
    }
    METRONOME_UNROLL
    for (int k = 0; k < kOut; ++k) *reinterpret_cast<P*>(u.out[k] + i) = y[k];
  }
};

/// Adam's step of a table; a thread for each element. I: of the index.
template <class T, class I>
struct UpdateTable {
  static constexpr const char* name = "adam_table_update";
  AdamRule rule;
  UpdateTensors<T> table;
  const T* sums;
  const I* index;  ///< ascending
  Index n, width;
  Watch watch;

  template <class Context>
  METRONOME_DEVICE void operator()(Context& c) const {
    const AdamRule::Step<T> step(rule, table);
    for (Index e = first(c); e < table.count; e += stride(c)) {
      const Index row = quotient(e, width), at = place_of(row);
      const T g = at < n && index[at] == row ? sums[at * width + e - row * width] : T(0);
      const T before[4] = {table.in[0][e], g, table.in[2][e], table.in[3][e]};
      T after[3];
      step(before, after);
      METRONOME_UNROLL
      for (int k = 0; k < 3; ++k) table.out[k][e] = watch_number(c, watch, after[k]);
    }
  }

 private:
  /// The first place of the index that is not less; n if there is none.
  METRONOME_DEVICE Index place_of(Index row) const {
    Index begin = 0, end = n;
    while (begin < end) {
      const Index middle = (begin + end) / 2;
      if (index[middle] < row) {
        begin = middle + 1;
      } else {
        end = middle;
      }
    }
    return begin;
  }
};

struct AverageWeight {
  static constexpr const char* name = "average_weight";
  double* to;
  const long long* update;
  double decay;
  bool bias_correction;

  template <class Context>
  METRONOME_DEVICE void operator()(Context& c) const {
    if (first(c) != 0) return;
    const double sum = 1 - pow_of(decay, static_cast<double>(*update + 1));
    *to = (1 - decay) / (bias_correction ? sum : 1);
  }
};

using OptimizerUpdatesKernels =
    KernelList<Update<float, AdamRule>, Update<double, AdamRule>, Update<float, SgdRule<false>>,
               Update<double, SgdRule<false>>, Update<float, SgdRule<true>>,
               Update<double, SgdRule<true>>, Update<float, AverageRule>,
               Update<double, AverageRule>, UpdateTable<float, int>, UpdateTable<float, long long>,
               UpdateTable<double, int>, UpdateTable<double, long long>, AverageWeight>;

}  // namespace metronome::cuda
