#include "ops/slice/slice.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "graph/emit/scope.h"
#include "graph/ir/error.h"
#include "graph/ir/structural.h"
#include "ops/expr/functions.h"
#include "ops/rules/require.h"

namespace metronome {
namespace {

/// Elements of one step along the axis.
std::int64_t inner(const Shape& shape, std::int64_t axis) {
  return numel(Shape(shape.begin() + axis + 1, shape.end()));
}

std::int64_t outer(const Shape& shape, std::int64_t axis) {
  return numel(Shape(shape.begin(), shape.begin() + axis));
}

}  // namespace

std::string Slice::attributes() const { return fmt::format("{}, {}:{}", axis, begin, end); }

Types Slice::infer(std::span<const Type> in) const {
  const std::int64_t size = in[0].shape[normalized_axis(axis, in[0].rank())];
  if (begin < 0 || end < begin || end > size) {
    throw Requirement{
        fmt::format("0 <= begin <= end <= {}, but begin {} and end {}", size, begin, end)};
  }
  Type result = in[0];
  result.shape[axis] = end - begin;
  return {std::move(result)};
}

Values Slice::vjp(const Vjp& v) const {
  if (!v.grad().present()) return {Value()};
  return {apply(SliceGrad{axis, begin, v.in(0).size(axis)}, {v.grad()}, {})};
}

std::optional<Alias> Slice::alias(std::span<const Type> in) const {
  if (outer(in[0].shape, axis) != 1) return std::nullopt;
  const auto offset = static_cast<std::size_t>(begin * inner(in[0].shape, axis));
  return Alias{.output = 0, .input = 0, .offset = offset * size_of(in[0].element)};
}

std::optional<Fusion> Slice::fusion(std::span<const Type> in) const {
  if (alias(in)) return std::nullopt;
  return Fusion{.kind = Fusion::Kind::slice, .axis = axis, .begin = begin};
}

Value Slice::fold(std::span<const Value> in) const {
  if (begin == 0 && end == in[0].size(axis)) return in[0];
  const Slice* before = in[0].node().op->as<Slice>();
  if (before == nullptr || before->axis != axis) return {};
  return apply(Slice{axis, before->begin + begin, before->begin + end},
               {Value(in[0].emitter(), in[0].node().inputs[0])}, {});
}

std::vector<Case> Slice::cases() {
  std::vector<Case> cases;
  const auto add = [&](std::string name, Slice op, Shape shape, Element element = f32) {
    Case c{.name = std::move(name), .op = make_op(op), .inputs = {{{element, std::move(shape)}}}};
    c.gradient = element == f32;
    if (!is_floating(element)) c.inputs[0].fill = whole_fill(element);
    cases.push_back(std::move(c));
  };
  add("a view of rows", {0, 2, 5}, {7, 3});
  add("a view behind ones", {2, 1, 3}, {1, 1, 4, 5});
  add("one column", {1, 3, 4}, {9, 8});
  add("columns", {1, 2, 31}, {5, 37});
  add("middle axis", {1, 1, 3}, {3, 4, 5});
  add("one of a middle axis", {1, 7, 8}, {4, 50, 16});
  add("everything", {1, 0, 4}, {3, 4});
  add("nothing", {1, 2, 2}, {3, 4});
  add("for threads", {1, 5, 200}, {400, 257});
  add("i64 column", {1, 1, 2}, {5, 3}, i64);
  add("bool columns", {1, 1, 3}, {5, 4}, bool_);
  add("bf16 columns", {1, 1, 4}, {5, 9}, bf16);
  add("f16 view", {0, 1, 4}, {5, 9}, f16);
  return cases;
}

std::string SliceGrad::attributes() const {
  return fmt::format("{}, {} of {}{}", axis, begin, size, accumulate ? ", accumulate" : "");
}

Types SliceGrad::infer(std::span<const Type> in) const {
  normalized_axis(axis, in[0].rank());
  const std::int64_t end = begin + in[0].shape[axis];
  if (begin < 0 || end > size) {
    throw Requirement{fmt::format("a range inside {}, but {} to {}", size, begin, end)};
  }
  Type result = in[0];
  result.shape[axis] = size;
  if (accumulate) {
    if (!is_floating(result.element)) require_floating(result);
    if (in[1] != result) {
      throw Requirement{fmt::format("a sum of {}, but {}", to_string(result), to_string(in[1]))};
    }
  }
  return {std::move(result)};
}

Values SliceGrad::vjp(const Vjp& v) const {
  Values gradients(v.inputs.size());
  if (!v.grad().present()) return gradients;
  gradients[0] = v.grad().slice(axis, begin, begin + v.in(0).size(axis));
  if (accumulate) gradients[1] = v.grad();
  return gradients;
}

std::vector<InPlace> SliceGrad::in_place() const {
  if (!accumulate) return {};
  return {{0, 1}};
}

OpPtr SliceGrad::absorb(const Op& consumer, std::size_t) const {
  if (accumulate || consumer.as<Accumulate>() == nullptr) return nullptr;
  SliceGrad sum = *this;
  sum.accumulate = true;
  return make_op(sum);
}

bool SliceGrad::gathers_with(const Op& other) const {
  const SliceGrad* of = other.as<SliceGrad>();
  return of != nullptr && of->axis == axis && of->size == size && !of->accumulate && !accumulate;
}

Value SliceGrad::gather(std::span<const Addend> addends) const {
  std::vector<std::pair<std::int64_t, Value>> parts;
  for (const Addend& addend : addends) {
    parts.emplace_back(addend.op->as<SliceGrad>()->begin, addend.inputs[0]);
  }
  std::ranges::stable_sort(parts, {}, &std::pair<std::int64_t, Value>::first);
  Values side_by_side;
  std::int64_t end = 0;
  for (const auto& [begin, part] : parts) {
    if (begin != end) return {};
    end += part.size(axis);
    side_by_side.push_back(part);
  }
  return end == size ? concat(side_by_side, axis) : Value();
}

std::vector<Case> SliceGrad::cases() {
  std::vector<Case> cases;
  const auto add = [&](std::string name, SliceGrad op, Shape shape, Element element = f32) {
    Case c{.name = std::move(name), .op = make_op(op), .inputs = {{{element, shape}}}};
    c.gradient = element == f32;
    if (op.accumulate) {
      shape[op.axis] = op.size;
      c.inputs.push_back({{element, std::move(shape)}});
    }
    cases.push_back(std::move(c));
  };
  add("rows", {0, 2, 7}, {3, 3});
  add("one column", {1, 3, 8}, {9, 1});
  add("columns", {1, 2, 37}, {5, 29});
  add("middle axis", {1, 1, 4}, {3, 2, 5});
  add("everything", {1, 0, 4}, {3, 4});
  add("nothing", {1, 2, 4}, {3, 0});
  add("for threads", {1, 5, 257}, {400, 195});
  add("rows of a sum", {0, 2, 7, true}, {3, 3});
  add("one column of a sum", {1, 3, 8, true}, {9, 1});
  add("columns of a sum", {1, 2, 37, true}, {5, 29});
  add("middle axis of a sum", {1, 1, 4, true}, {3, 2, 5});
  add("all of a sum", {1, 0, 4, true}, {3, 4});
  add("nothing of a sum", {1, 2, 4, true}, {3, 0});
  add("of a sum, for threads", {1, 5, 257, true}, {400, 195});
  for (const Element element : {bf16, f16}) {
    const std::string name(name_of(element));
    add(name + " columns", {1, 2, 37}, {5, 29}, element);
    add(name + " columns of a sum", {1, 2, 37, true}, {5, 29}, element);
  }
  return cases;
}

}  // namespace metronome
