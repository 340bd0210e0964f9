#include "ops/reshape/reshape.h"

#include <fmt/format.h>

#include <algorithm>

#include "graph/emit/scope.h"
#include "graph/ir/error.h"
#include "graph/ir/structural.h"

namespace metronome {

std::int64_t elements_beside_free(Element element, Shape shape) {
  std::replace(shape.begin(), shape.end(), std::int64_t{-1}, std::int64_t{1});
  require_possible({element, shape});
  return numel(shape);
}

std::string Reshape::attributes() const { return to_string(shape); }

Types Reshape::infer(std::span<const Type> in) const {
  const auto free = std::count(shape.begin(), shape.end(), -1);
  for (const std::int64_t size : shape) {
    if (size < -1) throw Requirement{fmt::format("sizes of 0 or more, or -1, but {}", size)};
  }
  const std::int64_t others = elements_beside_free(in[0].element, shape);
  const std::int64_t have = in[0].numel();
  if (free > 1) throw Requirement{fmt::format("at most one size of -1, but {}", free)};
  if (free == 1 && others == 0) {
    throw Requirement{"a size in place of -1, as the other sizes hold 0 elements"};
  }
  // Value::reshape has put a number in place of a -1 that fits.
  if (free == 1) throw Requirement{fmt::format("a multiple of {} elements, but {}", others, have)};
  if (others != have) throw Requirement{fmt::format("{} elements, but {}", have, others)};
  return {{in[0].element, shape}};
}

Values Reshape::vjp(const Vjp& v) const {
  if (!v.grad().present()) return {Value()};
  return {v.grad().reshape(v.in(0).shape())};
}

Value Reshape::fold(std::span<const Value> in) const {
  if (in[0].shape() == shape) return in[0];
  const Fill* fill = in[0].node().op->as<Fill>();
  if (fill != nullptr && in[0].type().numel() == 1) {  // so that what reads it may fold further
    return make_constant(in[0].emitter(), fill->number, {in[0].element(), shape}, Line{});
  }
  if (in[0].node().op->as<Reshape>() == nullptr) return {};
  return Value(in[0].emitter(), in[0].node().inputs[0]).reshape(shape);
}

std::vector<Case> Reshape::cases() {
  return {
      {.name = "flatten", .op = make_op(Reshape{{15}}), .inputs = {{{f32, {3, 5}}}}},
      {.name = "scalar", .op = make_op(Reshape{{}}), .inputs = {{{f32, {1, 1}}}}},
      {.name = "bf16",
       .op = make_op(Reshape{{15}}),
       .inputs = {{{bf16, {3, 5}}}},
       .gradient = false},
      {.name = "empty", .op = make_op(Reshape{{0, 7}}), .inputs = {{{f32, {3, 0}}}}},
  };
}

}  // namespace metronome
