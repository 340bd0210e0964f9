// Activations beside those of ops/expr/functions.h, with PyTorch's names, defaults and
// gradients at kinks. All are formulas of other functions, of f32 and f64; as layers they treat
// each element alone but for glu and swiglu. A function without numbers is its own layer:
// `mt::mish(x)`, `x.through(mt::mish)`. One with numbers is a layer where it takes no value:
// `mt::elu(x, 0.5)`, `x.through(mt::elu(0.5))`, with its defaults `x.through(mt::elu())`. The name
// alone, `x.through(mt::elu)`, does not compile.
#pragma once

#include <cstdint>

#include "graph/ir/line.h"
#include "graph/ir/value.h"

namespace metronome {

/// An activation without numbers.
struct Activation {
  enum class Kind : std::uint8_t {
    selu,
    relu6,
    mish,
    hardswish,
    hardsigmoid,
    softsign,
    logsigmoid,
    gelu_tanh,
    tanhshrink,
  };
  static constexpr bool rowwise = true;
  Kind kind;
  Value operator()(Value x, Line line = Line::here()) const;
};

/// 1.0507 elu(x, 1.6733), the two numbers that keep mean 0 and variance 1 (Klambauer et al., 2017).
inline constexpr Activation selu{Activation::Kind::selu};
/// x moved into [0, 6]; its gradient is 0 at both ends.
inline constexpr Activation relu6{Activation::Kind::relu6};
/// x tanh(softplus(x)) (Misra, 2019).
inline constexpr Activation mish{Activation::Kind::mish};
/// x hardsigmoid(x) (Howard et al., 2019).
inline constexpr Activation hardswish{Activation::Kind::hardswish};
/// (x + 3) / 6, moved into [0, 1]; its gradient is 0 at both ends.
inline constexpr Activation hardsigmoid{Activation::Kind::hardsigmoid};
/// x / (1 + |x|).
inline constexpr Activation softsign{Activation::Kind::softsign};
/// log(sigmoid(x)), which keeps its digits in both tails.
inline constexpr Activation logsigmoid{Activation::Kind::logsigmoid};
/// gelu with tanh in place of erf: x sigmoid(2 u), u = sqrt(2 / pi) (x + 0.044715 x^3).
inline constexpr Activation gelu_tanh{Activation::Kind::gelu_tanh};
/// x - tanh(x).
inline constexpr Activation tanhshrink{Activation::Kind::tanhshrink};

/// x above 0, alpha (exp(x) - 1) elsewhere (Clevert et al., 2015).
Value elu(Value x, double alpha = 1, Line line = Line::here());
Layer elu(double alpha = 1);

/// x above 0, slope * x elsewhere.
Value leaky_relu(Value x, double slope = 0.01, Line line = Line::here());
Layer leaky_relu(double slope = 0.01);

/// x moved into [low, high], low < high; its gradient is 0 at both ends, unlike clamp's.
Value hardtanh(Value x, double low = -1, double high = 1, Line line = Line::here());
Layer hardtanh(double low = -1, double high = 1);

/// x above 0, weight * x elsewhere (He et al., 2015). Weight [1], or one for each channel of x
/// [N, C, ...].
Value prelu(Value x, Value weight, Line line = Line::here());
struct PreluOptions {
  std::int64_t channels = 1;  ///< 1: one weight for all
  double init = 0.25;
};
/// A layer of prelu with a parameter `weight` [channels] of its own.
Layer prelu(PreluOptions options = {});

/// a sigmoid(b) for the halves a, b of x along an axis of even size (Dauphin et al., 2016).
Value glu(Value x, std::int64_t axis = -1, Line line = Line::here());
Layer glu(std::int64_t axis = -1);

/// silu(a) b for the halves a, b of x along an axis of even size (Shazeer, 2020).
Value swiglu(Value x, std::int64_t axis = -1, Line line = Line::here());
Layer swiglu(std::int64_t axis = -1);

}  // namespace metronome
