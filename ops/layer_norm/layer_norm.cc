#include "ops/layer_norm/layer_norm.h"

#include <fmt/format.h>

#include "graph/emit/scope.h"
#include "graph/ir/error.h"
#include "ops/rules/axis.h"
#include "ops/rules/require.h"

namespace metronome {
std::string LayerNorm::attributes() const { return fmt::format("eps={}", eps); }

Types LayerNorm::infer(std::span<const Type> in) const {
  require_floating(in[0]);
  require_equal_elements(in);
  if (in[0].rank() == 0) throw Requirement{"an operand of one or more dimensions, but a scalar"};
  const std::int64_t width = in[0].shape.back();
  require_at_least_one("a last dimension", width);
  for (const Type& type : in.subspan(1)) {
    if (type.shape != Shape{width}) {
      throw Requirement{
          fmt::format("a gamma and a beta of shape [{}], but {}", width, to_string(type.shape))};
    }
  }
  return {in[0], without_last(in[0]), without_last(in[0])};
}

Values LayerNorm::vjp(const Vjp& v) const {
  if (!v.grad().present()) return Values(3);
  return apply_all(LayerNormGrad{}, {v.grad(), v.in(0), v.out(1), v.out(2), v.in(1)}, 3,
                   Line::here());
}

std::vector<Case> LayerNorm::cases() {
  const auto make = [](std::string name, Shape shape, bool gradient = true) {
    const std::int64_t d = shape.back();
    return Case{.name = std::move(name),
                .op = make_op(LayerNorm{}),
                .inputs = {{{f32, std::move(shape)}}, {{f32, {d}}}, {{f32, {d}}}},
                .sums = true,
                .gradient = gradient};
  };
  return {
      make("small", {4, 64}),
      make("odd", {5, 19}),
      make("one row", {1, 35}),
      make("vector", {17}),
      make("three dimensions", {2, 3, 33}),
      make("narrow", {6, 3}),
      // A row of one element leaves nothing but beta: its gradient is zero, and libtorch's is
      // noise.
      make("width one", {3, 1}, false),
      make("empty", {0, 8}),
      make("wide", {3, 2051}),
      make("threads", {130, 515}),
  };
}

Types LayerNormGrad::infer(std::span<const Type> in) const {
  require_floating(in[0]);
  require_equal_elements(in);
  const Type rows = without_last(in[1]);
  if (in[0] != in[1] || in[2] != rows || in[3] != rows ||
      in[4].shape != Shape{in[1].shape.back()}) {
    throw Requirement{"the operands of its layer norm"};
  }
  return {in[1], in[4], in[4]};
}

std::vector<Case> LayerNormGrad::cases() {
  const auto make = [](std::string name, Shape shape) {
    const std::int64_t d = shape.back();
    const Shape rows(shape.begin(), shape.end() - 1);
    return Case{.name = std::move(name),
                .op = make_op(LayerNormGrad{}),
                .inputs = {{{f32, shape}},
                           {{f32, shape}},
                           {{f32, rows}},
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
