#include "ops/transpose/transpose.h"

#include <fmt/format.h>

#include <numeric>

#include "graph/emit/scope.h"
#include "graph/ir/error.h"
#include "graph/ir/node.h"
#include "ops/expr/functions.h"

namespace metronome {

std::string Transpose::attributes() const { return fmt::format("{}", fmt::join(axes, ", ")); }

Types Transpose::infer(std::span<const Type> in) const {
  const std::int64_t rank = in[0].rank();
  std::vector<bool> seen(in[0].shape.size());
  Type result{in[0].element, {}};
  for (const std::int64_t axis : axes) {
    const std::int64_t d = normalized_axis(axis, rank);
    if (seen[d]) throw Requirement{fmt::format("each axis once, but {} twice", d)};
    seen[d] = true;
    result.shape.push_back(in[0].shape[d]);
  }
  if (result.rank() != rank) {
    throw Requirement{fmt::format("one axis for each of {} dimensions, but {}", rank, axes.size())};
  }
  return {std::move(result)};
}

Values Transpose::vjp(const Vjp& v) const {
  if (!v.grad().present()) return {Value()};
  std::vector<std::int64_t> back(axes.size());
  for (std::size_t i = 0; i < axes.size(); ++i) back[axes[i]] = static_cast<std::int64_t>(i);
  return {permute(v.grad(), std::move(back))};
}

std::optional<Alias> Transpose::alias(std::span<const Type> in) const {
  std::int64_t last = -1;
  for (const std::int64_t axis : axes) {
    if (in[0].shape[axis] == 1) continue;
    if (axis < last) return std::nullopt;
    last = axis;
  }
  return Alias{};
}

Value Transpose::fold(std::span<const Value> in) const {
  std::vector<std::int64_t> same(axes.size());
  std::iota(same.begin(), same.end(), 0);
  if (axes == same) return in[0];
  const Transpose* before = in[0].node().op->as<Transpose>();
  if (before == nullptr) return {};
  std::vector<std::int64_t> both;
  for (const std::int64_t axis : axes) both.push_back(before->axes[axis]);
  const Value x(in[0].emitter(), in[0].node().inputs[0]);
  return both == same ? x : permute(x, std::move(both));
}

std::vector<Case> Transpose::cases() {
  std::vector<Case> cases;
  const auto add = [&](std::string name, std::vector<std::int64_t> axes, Shape shape,
                       Element element = f32) {
    Case c{.name = std::move(name),
           .op = make_op(Transpose{std::move(axes)}),
           .inputs = {{{element, std::move(shape)}}}};
    c.gradient = element == f32;
    if (!is_floating(element)) c.inputs[0].fill = whole_fill(element);
    cases.push_back(std::move(c));
  };
  add("a matrix", {1, 0}, {37, 53});
  add("whole tiles", {1, 0}, {32, 48});
  add("a small matrix", {1, 0}, {3, 5});
  add("for threads", {1, 0}, {301, 257});
  add("batched", {0, 2, 1}, {3, 17, 33});
  add("heads", {0, 2, 1, 3}, {2, 9, 4, 6});
  add("heads and back", {0, 2, 3, 1}, {2, 9, 4, 6});
  add("reversed", {3, 2, 1, 0}, {2, 3, 4, 5});
  add("a view", {1, 0, 2}, {1, 4, 5});
  add("no change", {0, 1}, {4, 5});
  add("empty", {1, 0}, {0, 4});
  add("i64", {1, 0}, {19, 18}, i64);
  add("i32", {1, 0}, {19, 18}, i32);
  add("bool", {1, 0}, {19, 18}, bool_);
  add("bf16", {1, 0}, {67, 34}, bf16);
  add("f16 heads", {0, 2, 1, 3}, {2, 9, 4, 6}, f16);
  add("f16, small", {1, 0}, {3, 5}, f16);
  return cases;
}

}  // namespace metronome
