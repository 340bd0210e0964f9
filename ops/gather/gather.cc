#include "ops/gather/gather.h"

#include <fmt/format.h>

#include <utility>

#include "graph/emit/scope.h"
#include "graph/ir/error.h"
#include "ops/expr/sums.h"
#include "ops/rules/require.h"

namespace metronome {
namespace {

/// Throws unless both ops can take `index` as an index into `x` along the axis.
void require_index(const Type& x, const Type& index, std::int64_t axis) {
  const std::int64_t along = normalized_axis(axis, x.rank());
  require_integer(index);
  if (index.rank() != x.rank()) {
    throw Requirement{fmt::format("an index of {} dimensions as the operand has, but {}", x.rank(),
                                  to_string(index.shape))};
  }
  for (std::int64_t d = 0; d < x.rank(); ++d) {
    if (d == along || index.shape[d] <= x.shape[d]) continue;
    throw Requirement{
        fmt::format("an index that along every axis but {} is at most as large as {}, "
                    "but {}",
                    along, to_string(x.shape), to_string(index.shape))};
  }
}

}  // namespace

std::string Gather::attributes() const { return std::to_string(axis); }

std::optional<Indexing> Gather::indexing(std::span<const Type> in) const {
  return Indexing{.operand = 1, .count = in[0].shape[axis]};
}

Types Gather::infer(std::span<const Type> in) const {
  require_index(in[0], in[1], axis);
  return {{in[0].element, in[1].shape}};
}

Values Gather::vjp(const Vjp& v) const {
  if (!v.grad().present()) return Values(2);
  const auto scattered = [&](Value g) {
    const Value zeros = make_constant(g.emitter(), 0, {g.element(), v.in(0).shape()}, {});
    return apply(ScatterAdd{axis}, {zeros, v.in(1), g}, {});
  };
  return {in_f32(v.grad(), scattered), {}};
}

std::string ScatterAdd::attributes() const { return std::to_string(axis); }

std::optional<Indexing> ScatterAdd::indexing(std::span<const Type> in) const {
  return Indexing{.operand = 1, .count = in[0].shape[axis]};
}

Types ScatterAdd::infer(std::span<const Type> in) const {
  require_number(in[0]);
  require_index(in[0], in[1], axis);
  const Type source{in[0].element, in[1].shape};
  if (in[2] != source) {
    throw Requirement{fmt::format("a source {}, but {}", to_string(source), to_string(in[2]))};
  }
  return {in[0]};
}

Values ScatterAdd::vjp(const Vjp& v) const {
  if (!v.grad().present()) return Values(3);
  return {v.grad(), {}, apply(Gather{axis}, {v.grad(), v.in(1)}, {})};
}

namespace {

CaseInput make_case_input(Element element, Shape shape) {
  CaseInput input{{element, std::move(shape)}};
  if (element == i32 || element == i64) {
    input.fill = {.kind = Fillings::Kind::integers, .low = -50, .high = 50};
    input.fill.differentiable = false;
  }
  if (element == bool_) input.fill = {.kind = Fillings::Kind::booleans, .differentiable = false};
  return input;
}

/// A form of operands that both ops are tried on.
struct Form {
  std::string name;
  std::int64_t axis;
  Shape x, index;
  Element index_element = i64;
};

std::vector<Form> forms() {
  return {{"rows", 1, {7, 5}, {7, 5}},
          {"columns", 0, {9, 37}, {6, 37}},
          {"i32, middle axis", 1, {3, 4, 5}, {3, 7, 5}, i32},
          {"a smaller index", 1, {4, 3, 6, 5}, {2, 8, 3, 4}},
          {"one of each row", 1, {8, 11}, {8, 1}},
          {"one dimension", 0, {13}, {29}},
          {"one element", 0, {1}, {1}},
          {"all to one", 0, {1, 3}, {40, 3}},
          {"no index", 1, {3, 4}, {3, 0}},
          {"no line", 1, {3, 4}, {0, 4}},
          {"of nothing", 0, {0, 4}, {0, 4}},
          {"long rows", 0, {70}, {500}},
          {"rows, for threads", 1, {120, 67}, {120, 90}},
          {"columns, for threads", 0, {50, 600}, {40, 600}}};
}

}  // namespace

std::vector<Case> Gather::cases() {
  std::vector<Case> cases;
  for (const Form& form : forms()) {
    cases.push_back({.name = form.name,
                     .op = make_op(Gather{form.axis}),
                     .inputs = {make_case_input(f32, form.x),
                                indices(form.index, form.x[form.axis], form.index_element)},
                     .sums = true});
  }
  for (const Element element : {bf16, f16, i32, i64, bool_}) {
    cases.push_back({.name = std::string(name_of(element)),
                     .op = make_op(Gather{1}),
                     .inputs = {make_case_input(element, {5, 4}), indices({5, 3}, 4)},
                     .gradient = false});
  }
  return cases;
}

std::vector<Case> ScatterAdd::cases() {
  std::vector<Case> cases;
  const auto add = [&](const Form& form, Element element) {
    cases.push_back({.name = form.name,
                     .op = make_op(ScatterAdd{form.axis}),
                     .inputs = {make_case_input(element, form.x),
                                indices(form.index, form.x[form.axis], form.index_element),
                                make_case_input(element, form.index)},
                     .sums = true,
                     .gradient = element == f32});
  };
  for (const Form& form : forms()) add(form, f32);
  add({"i32 numbers", 1, {5, 4}, {5, 9}}, i32);
  add({"i64 numbers", 0, {5, 4}, {9, 4}}, i64);
  return cases;
}

}  // namespace metronome
