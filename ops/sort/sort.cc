#include "ops/sort/sort.h"

#include <fmt/format.h>

#include <utility>

#include "graph/emit/scope.h"
#include "graph/ir/error.h"
#include "ops/expr/sums.h"
#include "ops/gather/gather.h"
#include "ops/rules/require.h"

namespace metronome {

std::string Sort::attributes() const {
  const std::string text = fmt::format("{}{}", axis, descending ? ", descending" : "");
  return top ? fmt::format("{}, first {}", text, *top) : text;
}

Types Sort::infer(std::span<const Type> in) const {
  if (!is_half(in[0].element)) require_number(in[0]);
  const std::int64_t along = normalized_axis(axis, in[0].rank()), size = in[0].shape[along];
  if (top && (*top < 0 || *top > size)) {
    throw Requirement{
        fmt::format("a k from 0 to the {} elements along axis {}, but {}", size, along, *top)};
  }
  Shape shape = in[0].shape;
  shape[along] = top.value_or(size);
  return {{in[0].element, shape}, {i64, shape}};
}

Values Sort::vjp(const Vjp& v) const {
  if (!v.grad().present()) return {Value()};
  return {in_f32(v.grad(), [&](Value g) {
    const Value zeros = make_constant(g.emitter(), 0, {g.element(), v.in(0).shape()}, {});
    return apply(ScatterAdd{axis}, {zeros, v.out(1), g}, {});
  })};
}

std::vector<Case> Sort::cases() {
  struct Form {
    std::string name;
    std::int64_t axis;
    Shape shape;
    std::int64_t top;
  };
  const std::vector<Form> forms = {{"rows", 1, {5, 7}, 3},
                                   {"columns", 0, {9, 37}, 1},
                                   {"middle axis", 1, {3, 6, 5}, 5},
                                   {"one element", 0, {1}, 1},
                                   {"one of each", 1, {4, 1, 3}, 0},
                                   {"no element", 1, {3, 0}, 0},
                                   {"no row", 1, {0, 3}, 2},
                                   {"all", 1, {2, 12}, 12},
                                   {"a long row", 0, {1300}, 40},
                                   {"long columns", 0, {2100, 2}, 600},
                                   {"rows, for threads", 1, {90, 257}, 30}};
  std::vector<Case> cases;
  const auto add = [&](std::string name, Sort op, Type type, Fillings fill = {}) {
    fill.differentiable = fill.kind == Fillings::Kind::uniform;
    cases.push_back({.name = std::move(name),
                     .op = make_op(op),
                     .inputs = {{type, fill}},
                     .gradient = type.element == f32 && fill.differentiable});
  };
  const Fillings few = {.kind = Fillings::Kind::integers, .low = -1, .high = 2};
  const Fillings integers = {.kind = Fillings::Kind::integers, .low = -50, .high = 50};
  for (const bool descending : {false, true}) {
    for (const Form& form : forms) {
      add(form.name, {form.axis, descending}, {f32, form.shape});
      add(form.name + ", the first", {form.axis, descending, form.top}, {f32, form.shape});
    }
    add("ties", {1, descending}, {f32, {6, 41}}, few);
    add("ties, long", {0, descending}, {f32, {1700}}, few);
    add("ties, the first", {1, descending, 9}, {f32, {6, 41}}, few);
    add("i32", {0, descending}, {i32, {33, 3}}, integers);
    add("i64", {1, descending, 5}, {i64, {3, 33}}, integers);
    add("bf16", {1, descending}, {bf16, {3, 33}});
    add("f16", {1, descending, 5}, {f16, {3, 33}});
  }
  return cases;
}

}  // namespace metronome
