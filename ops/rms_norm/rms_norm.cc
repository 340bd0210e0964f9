#include "ops/rms_norm/rms_norm.h"

#include <fmt/format.h>

#include "graph/emit/scope.h"
#include "graph/ir/error.h"
#include "ops/expr/functions.h"
#include "ops/rules/axis.h"
#include "ops/rules/require.h"

namespace metronome {
std::string RmsNorm::attributes() const { return fmt::format("eps={}", eps); }

Types RmsNorm::infer(std::span<const Type> in) const {
  require_floating(in[0]);
  require_equal_elements(in);
  if (in[0].rank() == 0) throw Requirement{"an operand of one or more dimensions, but a scalar"};
  const std::int64_t width = in[0].shape.back();
  require_at_least_one("a last dimension", width);
  if (in[1].shape != Shape{width}) {
    throw Requirement{fmt::format("a gamma of shape [{}], but {}", width, to_string(in[1].shape))};
  }
  return {in[0], without_last(in[0])};
}

Values RmsNorm::vjp(const Vjp& v) const {
  if (!v.grad().present()) return Values(2);
  return apply_all(RmsNormGrad{}, {v.grad(), v.in(0), v.out(1), v.in(1)}, 2, Line::here());
}

Values RmsNorm::lower(std::span<const Value> in) const {
  const Value average = mean(square(in[0]), -1, true);
  return {in[0] * rsqrt(average + eps) * in[1]};
}

std::vector<Case> RmsNorm::cases() {
  const auto make = [](std::string name, Shape shape, bool gradient = true) {
    const std::int64_t d = shape.back();
    return Case{.name = std::move(name),
                .op = make_op(RmsNorm{}),
                .inputs = {{{f32, std::move(shape)}}, {{f32, {d}}}},
                .sums = true,
                .gradient = gradient};
  };
  // A row of one element leaves nothing but its sign: its gradient is what eps leaves, all
  // rounding.
  return {
      make("small", {4, 64}),           make("odd", {5, 19}),
      make("one row", {1, 35}),         make("vector", {17}),
      make("narrow", {6, 3}),           make("three dimensions", {2, 3, 33}),
      make("width one", {3, 1}, false), make("empty", {0, 8}),
      make("wide", {3, 2051}),          make("threads", {130, 515}),
  };
}

Types RmsNormGrad::infer(std::span<const Type> in) const {
  require_floating(in[0]);
  require_equal_elements(in);
  if (in[0] != in[1] || in[2] != without_last(in[1]) || in[3].shape != Shape{in[1].shape.back()}) {
    throw Requirement{"the operands of its rms norm"};
  }
  return {in[1], in[3]};
}

std::vector<Case> RmsNormGrad::cases() {
  const auto make = [](std::string name, Shape shape) {
    const std::int64_t d = shape.back();
    const Shape rows(shape.begin(), shape.end() - 1);
    return Case{.name = std::move(name),
                .op = make_op(RmsNormGrad{}),
                .inputs = {{{f32, shape}},
                           {{f32, shape}},
                           {{f32, rows}, {.low = 0.5, .high = 1.5}},
                           {{f32, {d}}}},
                .sums = true,
                .gradient = false};
  };
  return {
      make("small", {4, 64}),  make("odd", {5, 19}),   make("one row", {1, 35}),
      make("wide", {3, 2051}), make("narrow", {6, 3}), make("three dimensions", {2, 3, 33}),
      make("vector", {17}),    make("empty", {0, 8}),  make("threads", {130, 515}),
  };
}

}  // namespace metronome
