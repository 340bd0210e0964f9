// Policies of a robot's size at one row, beside a function that is written for each by hand: the
// weights packed once, sums of up to four registers of columns, tanh behind them. The first is of
// 8, 64, 64 and 4 numbers, the others' sizes are drawn. Both are given the same observations in
// turn, and an action of each is read.
#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <random>
#include <vector>

#include "benchmarks/machine.h"
#include "benchmarks/statistics.h"
#include "benchmarks/table.h"
#include "executor/metronome.h"

namespace mt = metronome;
namespace bench = metronome::benchmarks;

namespace {

using Sizes = std::vector<std::int64_t>;

/// tanh of clamped numbers as an odd fraction, within 3e-7 of it.
template <class V>
[[gnu::always_inline]] inline void take_tanh(V& x) {
  constexpr float kMost = 7.90531110763549805F;
  x = x < kMost ? x : V{} + kMost;
  x = x > -kMost ? x : V{} - kMost;
  const V s = x * x;
  V above = s * -2.76076847742355e-16F + 2.00018790482477e-13F;
  above = above * s + -8.60467152213735e-11F;
  above = above * s + 5.12229709037114e-08F;
  above = above * s + 1.48572235717979e-05F;
  above = above * s + 6.37261928875436e-04F;
  above = above * s + 4.89352455891786e-03F;
  V below = s * 1.19825839466702e-06F + 1.18534705686654e-04F;
  below = below * s + 2.26843463243900e-03F;
  below = below * s + 4.89352518554385e-03F;
  x = x * above / below;
}

/// One layer of a policy: columns rounded up to whole registers, blocks of at most four registers
/// one behind the other, each [in, columns of the block].
struct PackedLayer {
  std::int64_t in = 0, columns = 0;
  std::vector<float> weights, bias;
};

constexpr std::int64_t kTogether = 4;  // registers of sums in a block

/// `R` registers of columns: even and odd terms are summed apart, which keeps the multipliers busy.
template <class V, int R>
[[gnu::always_inline]] inline void run_block(const float* w, const float* bias, std::int64_t in,
                                             const float* x, float* y, bool last) {
  constexpr int kWidth = sizeof(V) / sizeof(float);
  V even[R], odd[R];
#pragma GCC unroll 4
  for (int v = 0; v < R; ++v) {
    std::memcpy(&even[v], bias + v * kWidth, sizeof(V));
    odd[v] = V{};
  }
  std::int64_t i = 0;
  for (; i + 1 < in; i += 2, w += 2 * R * kWidth) {
#pragma GCC unroll 4
    for (int v = 0; v < R; ++v) {
      V first, second;
      std::memcpy(&first, w + v * kWidth, sizeof(V));
      std::memcpy(&second, w + (R + v) * kWidth, sizeof(V));
      even[v] += x[i] * first;
      odd[v] += x[i + 1] * second;
    }
  }
#pragma GCC unroll 4
  for (int v = 0; v < R; ++v) {
    if (i < in) {
      V first;
      std::memcpy(&first, w + v * kWidth, sizeof(V));
      even[v] += x[i] * first;
    }
    V sum = even[v] + odd[v];
    if (!last) take_tanh(sum);
    std::memcpy(y + v * kWidth, &sum, sizeof(V));
  }
}

template <class V>
[[gnu::always_inline]] inline void run_layer(const PackedLayer& layer, const float* x, float* y,
                                             bool last) {
  constexpr std::int64_t kWidth = sizeof(V) / sizeof(float);
  const float *w = layer.weights.data(), *bias = layer.bias.data();
  for (std::int64_t left = layer.columns / kWidth; left > 0; left -= kTogether) {
    switch (left) {
      case 1:
        return run_block<V, 1>(w, bias, layer.in, x, y, last);
      case 2:
        return run_block<V, 2>(w, bias, layer.in, x, y, last);
      case 3:
        return run_block<V, 3>(w, bias, layer.in, x, y, last);
      default:
        run_block<V, 4>(w, bias, layer.in, x, y, last);
    }
    w += layer.in * kTogether * kWidth;
    bias += kTogether * kWidth;
    y += kTogether * kWidth;
  }
}

/// A policy that is written by hand.
class HandWritten {
 public:
  HandWritten(const mt::Executable& policy, const Sizes& sizes) {
    for (std::size_t k = 0; k + 1 < sizes.size(); ++k) {
      const std::string path = k == 0 ? "linear" : fmt::format("linear_{}", k);
      const mt::Tensor weight = policy.get_tensor(path + "/weight"),
                       bias = policy.get_tensor(path + "/bias");
      const std::int64_t in = sizes[k], out = sizes[k + 1];
      const std::int64_t width = has_avx512_ ? 16 : 8, block = kTogether * width;
      PackedLayer layer{.in = in, .columns = (out + width - 1) / width * width};
      layer.weights.resize(static_cast<std::size_t>(layer.columns * in));
      layer.bias.resize(static_cast<std::size_t>(layer.columns));
      const auto w = mt::to_span<float>(weight), b = mt::to_span<float>(bias);
      for (std::int64_t j = 0; j < out; ++j) {
        layer.bias[j] = b[j];
        const std::int64_t begin = j / block * block;
        const std::int64_t columns = std::min(block, layer.columns - begin);
        for (std::int64_t i = 0; i < in; ++i) {
          layer.weights[begin * in + i * columns + j - begin] = w[j * in + i];
        }
      }
      layers_.push_back(std::move(layer));
    }
  }

  const float* act(const float* observed) {
    return has_avx512_ ? act_avx512(observed) : act_avx2(observed);
  }

 private:
  template <class V>
  [[gnu::always_inline]] const float* act_by(const float* observed) {
    const float* x = observed;
    for (std::size_t k = 0; k < layers_.size(); ++k) {
      float* y = values_[k % 2];
      run_layer<V>(layers_[k], x, y, k + 1 == layers_.size());
      x = y;
    }
    return x;
  }
  [[gnu::target("avx512f,avx512vl,fma")]] const float* act_avx512(const float* observed) {
    using V [[gnu::vector_size(64)]] = float;
    return act_by<V>(observed);
  }
  [[gnu::target("avx2,fma")]] const float* act_avx2(const float* observed) {
    using V [[gnu::vector_size(32)]] = float;
    return act_by<V>(observed);
  }

  bool has_avx512_ = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl");
  std::vector<PackedLayer> layers_;
  alignas(64) float values_[2][256] = {};
};

struct Times {
  bench::Samples by_hand, planned, in_place;
};

/// Nanoseconds an action.
Times measure(const Sizes& sizes) {
  constexpr int kObserved = 64, kRounds = 31, kActions = 20000;
  mt::Graph g("policy");
  const mt::Value seen = g.input("observation", mt::f32, {1, sizes[0]});
  mt::Value h = seen;
  for (std::size_t k = 1; k + 1 < sizes.size(); ++k) h = mt::tanh(h.through(mt::linear(sizes[k])));
  const mt::Value action = h.through(mt::linear(sizes.back()));
  g.output("action", action);
  mt::Executable policy = mt::compile(g, mt::cpu_replay(), {.modes = {mt::evaluate}, .threads = 1});
  HandWritten by_hand(policy, sizes);

  std::mt19937 draw(1);
  std::normal_distribution<float> normal;
  std::vector<std::vector<float>> observed(kObserved);
  std::vector<mt::Tensor> tensors;
  for (std::vector<float>& one : observed) {
    for (std::int64_t i = 0; i < sizes[0]; ++i) one.push_back(normal(draw));
    tensors.push_back(mt::from_span(one, {1, sizes[0]}));
  }
  for (int k = 0; k < kObserved; ++k) {
    policy.evaluate({{seen, tensors[k]}});
    const auto actions = mt::to_span<float>(policy.read_tensor(action));
    const float* expected = by_hand.act(observed[k].data());
    for (std::size_t i = 0; i < actions.size(); ++i) {
      if (std::abs(actions[i] - expected[i]) <= 1e-5) continue;
      throw std::runtime_error(
          fmt::format("{}: action {} is {} and by hand {}", sizes, i, actions[i], expected[i]));
    }
  }

  float sum = 0;  // so that every action is needed
  const bench::Side hand{[&](int n) {
                           for (int i = 0; i < n; ++i)
                             sum += by_hand.act(observed[i % kObserved].data())[0];
                         },
                         kActions};
  const bench::Side fed{[&](int n) {
                          for (int i = 0; i < n; ++i) {
                            policy.evaluate({{seen, tensors[i % kObserved]}});
                            sum += mt::to_span<float>(policy.read_tensor(action))[0];
                          }
                        },
                        kActions};
  // The input's memory is filled, and the action's is shown by one tensor for good.
  const at::Tensor input = policy.input(seen);
  const mt::Tensor shown = policy.read_tensor(action);
  const std::size_t bytes = observed[0].size() * sizeof(float);
  const bench::Side filled{[&](int n) {
                             for (int i = 0; i < n; ++i) {
                               std::memcpy(input.data_ptr(), observed[i % kObserved].data(), bytes);
                               policy.evaluate();
                               sum += mt::to_span<float>(shown)[0];
                             }
                           },
                           kActions};
  bench::interleave(hand, filled, 2);  // warm-up
  Times times;
  const bench::Rounds usual = bench::interleave(hand, fed, kRounds);
  const bench::Rounds lean = bench::interleave(hand, filled, kRounds);
  const auto in_ns = [](bench::Samples ms) {
    for (double& value : ms.values) value *= 1e6;
    return ms;
  };
  times = {in_ns(lean.a), in_ns(usual.b), in_ns(lean.b)};
  if (!std::isfinite(sum)) fmt::print("an action is not finite\n");
  return times;
}

}  // namespace

int main() {
  at::set_num_threads(1);
  fmt::print("{}\n{:<26} {:>16} {:>18} {:>18} {:>7} {:>7}\n",
             bench::to_string(bench::this_machine()), "policy, tanh, one row", "by hand, ns",
             "fed and read, ns", "in place, ns", "ratio", "ratio");
  std::mt19937 draw(1);
  const auto drawn = [&](std::int64_t least, std::int64_t most) {
    return std::uniform_int_distribution<std::int64_t>(least, most)(draw);
  };
  std::vector<Sizes> all = {{8, 64, 64, 4}};
  for (int k = 0; k < 10; ++k) {
    Sizes sizes = {drawn(3, 48)};
    for (std::int64_t layers = drawn(1, 3); layers > 0; --layers) sizes.push_back(drawn(16, 128));
    sizes.push_back(drawn(1, 16));
    all.push_back(std::move(sizes));
  }
  double fed = 0, in_place = 0;
  for (std::size_t k = 0; k < all.size(); ++k) {
    const Times t = measure(all[k]);
    const double hand = t.by_hand.median();
    fmt::print(
        "{:<26} {:>9.0f} +- {:<3.0f} {:>11.0f} +- {:<3.0f} {:>11.0f} +- {:<3.0f} {:>7.2f} "
        "{:>7.2f}\n",
        fmt::format("{}", fmt::join(all[k], "-")), hand, t.by_hand.spread(), t.planned.median(),
        t.planned.spread(), t.in_place.median(), t.in_place.spread(), t.planned.median() / hand,
        t.in_place.median() / hand);
    if (k == 0) continue;
    fed += std::log(t.planned.median() / hand) / 10;
    in_place += std::log(t.in_place.median() / hand) / 10;
  }
  fmt::print("geometric mean of the ten that are drawn: {:.2f} and {:.2f}\n", std::exp(fed),
             std::exp(in_place));
}
