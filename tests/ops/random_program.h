// Random programs in the language that models are written in, the same for the same seed.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <random>
#include <vector>

#include "executor/metronome.h"

namespace metronome {

/// A small training graph in f64 with one input "x" [3, 4]: unary and binary functions, numbers
/// that fold away, equal subexpressions, linear layers, norms, reductions, views, slices, concats,
/// repeats, loops and splits, and values that nothing reads.
class RandomProgram {
 public:
  explicit RandomProgram(std::uint32_t seed) : random_(seed) {}

  Graph make() {
    Graph g("random");
    Value x = g.input("x", f64, {3, 4});
    const int verbs = 4 + below(10);
    for (int i = 0; i < verbs; ++i) x = step(x, 2);
    const Value y = x.through(linear(3)).named("y");
    y.through(tanh);  // nothing reads it
    g.minimize(mean(square(y)), Adam{.lr = 1e-2});
    return g;
  }

 private:
  int below(int n) { return static_cast<int>(random_() % static_cast<std::uint32_t>(n)); }

  /// One verb on a matrix [rows, columns]; `depth` bounds verbs inside verbs.
  Value step(Value x, int depth) {
    switch (below(depth > 0 ? 17 : 13)) {
      case 0:
        return x.through(tanh);
      case 1:
        return x.through(gelu) + 0.0;
      case 2:
        return x * 1.0 + sigmoid(x);
      case 3:
        return x.through(linear(2 + below(5)));
      case 4:
        return x.through(layer_norm());
      case 5:
        return softmax(x, below(2) - 1) - x;
      case 6:
        return x - mean(x, 1, true);
      case 7:
        return x.transpose(0, 1);
      case 8:
        return concat({x, x * 2.0}, below(2));
      case 9:
        return x.size(1) > 1 ? x.slice(1, 0, x.size(1) - 1) : x.through(softplus);
      case 10:
        return where(x > 0.0, x, x * 0.5);
      case 11:
        return (x + exp(-(x * x))) / 2.0;
      case 12:
        return x.reshape({-1, x.size(0)});
      case 13:
        return x.also(inside(depth));
      case 14:
        return x.repeat(1 + below(3), inside(depth));
      case 15:
        return x.loop(inside(depth)).times(1 + below(3));
      default:
        return x.split(inside(depth), inside(depth)).merge(sum);
    }
  }

  /// A layer that keeps the shape.
  Layer inside(int depth) {
    const std::uint32_t seed = random_();
    return [seed, depth](Value h) {
      RandomProgram program(seed);
      const Value y = program.step(h, depth - 1);
      return y.shape() == h.shape() ? y : h.through(tanh) * 0.5;
    };
  }

  std::mt19937 random_;
};

}  // namespace metronome
