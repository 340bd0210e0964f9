// Rows [N, C]: up to four registers of neighbouring channels, all rows down. Images [N, C, plane]:
// one channel after the other, chunk by chunk of what fits the first-level cache.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "ops/batch_norm.h"
#include "ops/cpu/launch.h"
#include "ops/cpu/norms.h"
#include "ops/cpu/parallel.h"

namespace metronome::METRONOME_ISA {
namespace {

// Elements of a channel that are summed in vectors before the sums go to f64: few enough to keep
// f32 sums within 1e-6, and to be read twice from the first-level cache.
constexpr std::int64_t kChunk = 2048;

struct Extent {
  std::int64_t n = 0;
  std::int64_t channels = 0;
  std::int64_t plane = 1;

  std::int64_t each() const { return n * plane; }  // elements of a channel
};

Extent extent_of(const Type& x) {
  Extent e{x.shape[0], x.shape[1], 1};
  for (std::size_t d = 2; d < x.shape.size(); ++d) e.plane *= x.shape[d];
  return e;
}

// f(begin, count, runs): `runs` runs of `count` elements of channel c, the first at `begin`, each
// channels * plane after the one before, at most kChunk elements together (or one run).
template <class F>
void for_chunks(const Extent& e, std::int64_t c, const F& f) {
  const std::int64_t image = e.channels * e.plane;
  if (e.plane > kChunk) {
    for (std::int64_t i = 0; i < e.n; ++i) {
      for (std::int64_t s = 0; s < e.plane; s += kChunk) {
        f(i * image + c * e.plane + s, std::min(kChunk, e.plane - s), std::int64_t{1});
      }
    }
    return;
  }
  const std::int64_t runs = std::max<std::int64_t>(1, kChunk / std::max<std::int64_t>(1, e.plane));
  for (std::int64_t i = 0; i < e.n; i += runs) {
    f(i * image + c * e.plane, e.plane, std::min(runs, e.n - i));
  }
}

template <class T>
struct Channel {
  T mean, rstd, gamma, beta;
};

template <class T>
void write_image_channel(const Extent& e, std::int64_t c, const Channel<T>& channel, const T* x,
                         T* y) {
  using S = Simd<T>;
  const auto mean = S::set(channel.mean), rstd = S::set(channel.rstd);
  const auto scale = S::set(channel.gamma), shift = S::set(channel.beta);
  for (std::int64_t i = 0; i < e.n; ++i) {
    const std::int64_t at = (i * e.channels + c) * e.plane;
    for_registers<T>(e.plane, [&](const auto& load, const auto& store, const auto&) {
      store(y + at, S::fma((load(x + at) - mean) * rstd, scale, shift));
    });
  }
}

template <class T>
struct Forward {
  Extent e;
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
  Channel<T> finish(std::int64_t c, double mean, double m2) const {
    const auto count = static_cast<double>(e.each());
    const double rstd = 1 / std::sqrt(m2 / count + eps);
    const double unbiased = m2 / (count - 1);
    new_mean[c] = static_cast<T>((1 - momentum) * running_mean[c] + momentum * mean);
    new_variance[c] = static_cast<T>((1 - momentum) * running_variance[c] + momentum * unbiased);
    if (saved_mean) saved_mean[c] = static_cast<T>(mean);
    if (saved_rstd) saved_rstd[c] = static_cast<T>(rstd);
    return {static_cast<T>(mean), static_cast<T>(rstd), gamma[c], beta[c]};
  }

  // Chunks' means and squares are joined as in Chan, Golub and LeVeque (1979): one pass over
  // memory.
  void image_channel(std::int64_t c) const {
    using S = Simd<T>;
    using Reg = typename S::Reg;
    const std::int64_t image = e.channels * e.plane;
    double count = 0, mean = 0, m2 = 0;
    for_chunks(e, c, [&](std::int64_t begin, std::int64_t length, std::int64_t runs) {
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
      // What rounding the mean left over is taken out of both (the corrected two-pass algorithm).
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
    const Reg size = S::set(static_cast<T>(e.n));
    Reg mean[V], squares[V], rstd[V], scale[V], shift[V];
    for (int v = 0; v < V; ++v) mean[v] = squares[v] = S::zero();
    for (std::int64_t i = 0; i < e.n; ++i) {
      const T* const row = x + i * e.channels + c;
#pragma GCC unroll 4
      for (int v = 0; v < V; ++v) mean[v] = mean[v] + load(row, v);
    }
    for (int v = 0; v < V; ++v) mean[v] = mean[v] / size;
    for (std::int64_t i = 0; i < e.n; ++i) {
      const T* const row = x + i * e.channels + c;
#pragma GCC unroll 4
      for (int v = 0; v < V; ++v) {
        const Reg d = load(row, v) - mean[v];
        squares[v] = S::fma(d, d, squares[v]);
      }
    }
    alignas(64) T means[V * S::kWidth], m2[V * S::kWidth], rstds[V * S::kWidth] = {};
    for (int v = 0; v < V; ++v) {
      S::store(means + v * S::kWidth, mean[v]);
      S::store(m2 + v * S::kWidth, squares[v]);
    }
    for (std::int64_t k = 0; k < count; ++k) rstds[k] = finish(c + k, means[k], m2[k]).rstd;
    for (int v = 0; v < V; ++v) {
      rstd[v] = S::load(rstds + v * S::kWidth);
      scale[v] = load(gamma + c, v);
      shift[v] = load(beta + c, v);
    }
    for (std::int64_t i = 0; i < e.n; ++i) {
      const std::int64_t at = i * e.channels + c;
#pragma GCC unroll 4
      for (int v = 0; v < V; ++v) {
        store(y + at, v, S::fma((load(x + at, v) - mean[v]) * rstd[v], scale[v], shift[v]));
      }
    }
  }
};

template <class T>
struct Backward {
  Extent e;
  const T* g;
  const T* x;
  const T* mean;
  const T* rstd;
  const T* gamma;
  T* dx;
  T* dgamma;
  T* dbeta;

  // dx = gamma rstd (g - average(g) - n average(g n)) with n = (x - mean) rstd.
  void image_channel(std::int64_t c) const {
    using S = Simd<T>;
    using Reg = typename S::Reg;
    const std::int64_t image = e.channels * e.plane;
    const Reg center = S::set(mean[c]), scale = S::set(rstd[c]);
    double sum = 0, product = 0;
    for_chunks(e, c, [&](std::int64_t begin, std::int64_t length, std::int64_t runs) {
      Reg sums[2] = {S::zero(), S::zero()};
      for (std::int64_t r = 0; r < runs; ++r) {
        const std::int64_t at = begin + r * image;
        for_registers<T>(length, [&](const auto& load, const auto&, const auto&) {
          const Reg grad = load(g + at);
          sums[0] = sums[0] + grad;
          sums[1] = S::fma(grad, load(x + at) - center, sums[1]);
        });
      }
      sum += S::sum(sums[0]);
      product += S::sum(sums[1]);
    });
    product *= rstd[c];
    dbeta[c] = static_cast<T>(sum);
    dgamma[c] = static_cast<T>(product);
    const auto count = static_cast<double>(e.each());
    const Reg average = S::set(static_cast<T>(sum / count));
    const Reg slope = S::set(static_cast<T>(product / count));
    const Reg factor = S::set(gamma[c] * rstd[c]);
    for (std::int64_t i = 0; i < e.n; ++i) {
      const std::int64_t at = (i * e.channels + c) * e.plane;
      for_registers<T>(e.plane, [&](const auto& load, const auto& store, const auto&) {
        const Reg normal = (load(x + at) - center) * scale;
        store(dx + at, (load(g + at) - average - normal * slope) * factor);
      });
    }
  }

  template <int V, class Load, class Store>
  void row_channels(std::int64_t c, std::int64_t, const Load& load, const Store& store) const {
    using S = Simd<T>;
    using Reg = typename S::Reg;
    const Reg size = S::set(static_cast<T>(e.n));
    Reg center[V], scale[V], sum[V], product[V], average[V], slope[V], factor[V];
    for (int v = 0; v < V; ++v) {
      center[v] = load(mean + c, v);
      scale[v] = load(rstd + c, v);
      sum[v] = product[v] = S::zero();
    }
    for (std::int64_t i = 0; i < e.n; ++i) {
      const std::int64_t at = i * e.channels + c;
#pragma GCC unroll 4
      for (int v = 0; v < V; ++v) {
        const Reg grad = load(g + at, v);
        sum[v] = sum[v] + grad;
        product[v] = S::fma(grad, load(x + at, v) - center[v], product[v]);
      }
    }
    for (int v = 0; v < V; ++v) {
      product[v] = product[v] * scale[v];
      average[v] = sum[v] / size;
      slope[v] = product[v] / size;
      factor[v] = load(gamma + c, v) * scale[v];
      store(dgamma + c, v, product[v]);
      store(dbeta + c, v, sum[v]);
    }
    for (std::int64_t i = 0; i < e.n; ++i) {
      const std::int64_t at = i * e.channels + c;
#pragma GCC unroll 4
      for (int v = 0; v < V; ++v) {
        const Reg normal = (load(x + at, v) - center[v]) * scale[v];
        store(dx + at, v, (load(g + at, v) - average[v] - normal * slope[v]) * factor[v]);
      }
    }
  }
};

template <class T>
struct Evaluate {
  Extent e;
  const T* x;
  const T* gamma;
  const T* beta;
  const T* mean;
  const T* variance;
  T* y;
  T eps;

  void image_channel(std::int64_t c) const {
    const T rstd = T(1) / std::sqrt(variance[c] + eps);
    write_image_channel<T>(e, c, {mean[c], rstd, gamma[c], beta[c]}, x, y);
  }

  template <int V, class Load, class Store>
  void row_channels(std::int64_t c, std::int64_t count, const Load& load,
                    const Store& store) const {
    using S = Simd<T>;
    using Reg = typename S::Reg;
    alignas(64) T rstds[V * S::kWidth] = {};
    for (std::int64_t k = 0; k < count; ++k) rstds[k] = T(1) / std::sqrt(variance[c + k] + eps);
    Reg center[V], rstd[V], scale[V], shift[V];
    for (int v = 0; v < V; ++v) {
      center[v] = load(mean + c, v);
      rstd[v] = S::load(rstds + v * S::kWidth);
      scale[v] = load(gamma + c, v);
      shift[v] = load(beta + c, v);
    }
    for (std::int64_t i = 0; i < e.n; ++i) {
      const std::int64_t at = i * e.channels + c;
#pragma GCC unroll 4
      for (int v = 0; v < V; ++v) {
        store(y + at, v, S::fma((load(x + at, v) - center[v]) * rstd[v], scale[v], shift[v]));
      }
    }
  }
};

// Channels are independent: threads share them out, and bits do not depend on how.
template <class T, template <class> class Body>
CpuKernel over_channels(const Body<T>& body, int threads) {
  using S = Simd<T>;
  const Extent e = body.e;
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
CpuKernel bind_forward(const BatchNorm& op, const CpuLaunch& l) {
  return over_channels(Forward<T>{extent_of(l.inputs[0]), l.in<T>(0), l.in<T>(1), l.in<T>(2),
                                  l.in<T>(3), l.in<T>(4), l.out<T>(0), l.out<T>(1), l.out<T>(2),
                                  l.out<T>(3), l.out<T>(4), op.eps, op.momentum},
                       l.choice.threads);
}

template <class T>
CpuKernel bind_backward(const CpuLaunch& l) {
  return over_channels(Backward<T>{extent_of(l.inputs[1]), l.in<T>(0), l.in<T>(1), l.in<T>(2),
                                   l.in<T>(3), l.in<T>(4), l.out<T>(0), l.out<T>(1), l.out<T>(2)},
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
  return l.inputs[0].element == f64 ? bind_forward<double>(op, l) : bind_forward<float>(op, l);
}

std::vector<Candidate> candidates(const BatchNormGrad&, const CpuQuery& q) {
  return candidates_over(q);
}

CpuKernel bind(const BatchNormGrad&, const CpuLaunch& l) {
  return l.inputs[0].element == f64 ? bind_backward<double>(l) : bind_backward<float>(l);
}

std::vector<Candidate> candidates(const BatchNormEvaluate&, const CpuQuery& q) {
  return candidates_over(q);
}

CpuKernel bind(const BatchNormEvaluate& op, const CpuLaunch& l) {
  return l.inputs[0].element == f64 ? bind_evaluate<double>(op, l) : bind_evaluate<float>(op, l);
}

}  // namespace metronome::METRONOME_ISA
