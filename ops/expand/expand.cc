#include "ops/expand/expand.h"

#include <fmt/format.h>

#include "graph/emit/scope.h"
#include "graph/ir/error.h"
#include "graph/ir/node.h"
#include "ops/expr/sums.h"

namespace metronome {

std::string Expand::attributes() const { return to_string(shape); }

Types Expand::infer(std::span<const Type> in) const {
  const std::size_t rank = in[0].shape.size();
  bool fits = rank <= shape.size();
  for (std::size_t i = 1; fits && i <= rank; ++i) {
    const std::int64_t from = in[0].shape[rank - i], to = shape[shape.size() - i];
    fits = from == to || from == 1;
  }
  for (const std::int64_t size : shape) fits = fits && size >= 0;
  if (!fits) {
    throw Requirement{fmt::format("a shape that {} broadcasts to, but {}", to_string(in[0].shape),
                                  to_string(shape))};
  }
  return {{in[0].element, shape}};
}

Values Expand::vjp(const Vjp& v) const { return {sum_to(v.grad(), v.in(0).shape())}; }

std::optional<LaidOutOp> Expand::lay_out(std::span<const Type> in, const Layout& layout) const {
  if (layout.order.size() != shape.size() && !layout.order.empty()) return std::nullopt;
  if (layout.blocked >= static_cast<std::int32_t>(shape.size())) return std::nullopt;
  const auto operand = in[0].shape == shape ? layout : broadcast_layout(layout, shape, in[0].shape);
  if (!operand) return std::nullopt;
  return LaidOutOp{make_op(Expand{apply_layout(layout, shape)}), {*operand}, {layout}};
}

Value Expand::fold(std::span<const Value> in) const {
  if (in[0].shape() == shape) return in[0];
  if (in[0].node().op->as<Expand>() == nullptr) return {};
  return apply(*this, {Value(in[0].emitter(), in[0].node().inputs[0])}, {});
}

std::vector<Case> Expand::cases() {
  std::vector<Case> cases;
  const auto add = [&](std::string name, Shape from, Shape to) {
    cases.push_back({.name = std::move(name),
                     .op = make_op(Expand{std::move(to)}),
                     .inputs = {{{f32, std::move(from)}}},
                     .sums = true});
  };
  add("rows", {13}, {5, 13});
  add("columns", {6, 1}, {6, 35});
  add("a scalar", {}, {3, 7});
  add("the same shape", {3, 7}, {3, 7});
  add("middle", {2, 1, 3}, {4, 2, 5, 3});
  add("outer and inner", {1, 4, 1}, {3, 4, 9});
  add("empty", {1, 3}, {0, 3});
  add("for threads", {300, 1}, {300, 257});
  for (const Element element : {i32, i64, bool_, bf16, f16}) {
    cases.push_back({.name = std::string(name_of(element)),
                     .op = make_op(Expand{{4, 9}}),
                     .inputs = {{{element, {4, 1}}, whole_fill(element)}},
                     .gradient = false});
  }
  return cases;
}

}  // namespace metronome
