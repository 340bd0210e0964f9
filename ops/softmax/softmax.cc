#include "ops/softmax/softmax.h"

#include <fmt/format.h>

#include <utility>

#include "graph/emit/scope.h"
#include "graph/ir/error.h"
#include "ops/rules/require.h"

namespace metronome {
namespace {

std::string text(std::int64_t axis, bool log) {
  return fmt::format("axis={}{}", axis, log ? ", log" : "");
}

}  // namespace

std::string Softmax::attributes() const { return text(axis, log); }

Types Softmax::infer(std::span<const Type> in) const {
  require_floating(in[0]);
  const std::int64_t along = normalized_axis(axis, in[0].rank());
  if (in[0].shape[static_cast<std::size_t>(along)] == 0) {
    throw Requirement{"one element or more along the axis, but 0"};
  }
  return {in[0]};
}

Values Softmax::vjp(const Vjp& v) const {
  if (!v.grad().present()) return Values(1);
  return {apply(SoftmaxGrad{axis, log}, {v.grad(), v.out(0)}, Line::here())};
}

std::vector<Case> Softmax::cases() {
  std::vector<Case> cases;
  const auto add = [&](std::string name, Shape shape, std::int64_t axis = -1) {
    for (const bool log : {false, true}) {
      cases.push_back({.name = name + (log ? ", log" : ""),
                       .op = make_op(Softmax{axis, log}),
                       .inputs = {{{f32, shape}}},
                       .sums = true});
    }
  };
  add("small", {4, 16});
  add("odd", {5, 19});
  add("experts", {4, 8});
  add("one class", {3, 1});
  add("vector", {35});
  add("wide", {3, 2051});
  add("first axis", {9, 21}, 0);
  add("middle axis", {2, 7, 18}, 1);
  add("middle axis, wide", {2, 3, 35}, -2);
  add("empty", {0, 8});
  add("threads", {130, 515});
  add("middle axis, threads", {40, 30, 40}, 1);
  cases.push_back({.name = "far apart",
                   .op = make_op(Softmax{}),
                   .inputs = {{{f32, {3, 40}}, {.low = -200, .high = 200}}},
                   .sums = true,
                   .gradient = false});
  return cases;
}

std::string SoftmaxGrad::attributes() const { return text(axis, log); }

Types SoftmaxGrad::infer(std::span<const Type> in) const {
  require_floating(in[0]);
  normalized_axis(axis, in[0].rank());
  if (in[0] != in[1]) throw Requirement{"a gradient of the result's type"};
  return {in[0]};
}

std::vector<Case> SoftmaxGrad::cases() {
  std::vector<Case> cases;
  const auto add = [&](std::string name, Shape shape, std::int64_t axis = -1) {
    for (const bool log : {false, true}) {
      const Fillings of_y = log ? Fillings{.low = -4, .high = 0} : Fillings{.low = 0, .high = 1};
      cases.push_back({.name = name + (log ? ", log" : ""),
                       .op = make_op(SoftmaxGrad{axis, log}),
                       .inputs = {{{f32, shape}}, {{f32, shape}, of_y}},
                       .sums = true,
                       .gradient = false});
    }
  };
  add("small", {4, 16});
  add("odd", {5, 19});
  add("experts", {4, 8});
  add("wide", {3, 2051});
  add("first axis", {9, 21}, 0);
  add("middle axis", {2, 7, 18}, 1);
  add("empty", {0, 8});
  add("threads", {130, 515});
  return cases;
}

std::string PickedSoftmaxGrad::attributes() const {
  return ignored ? fmt::format("ignored={}", *ignored) : "";
}

Types PickedSoftmaxGrad::infer(std::span<const Type> in) const {
  const Type& y = in[2];
  require_floating(y);
  require_integer(in[1]);
  const Shape rows(y.shape.begin(), y.shape.empty() ? y.shape.end() : y.shape.end() - 1);
  if (y.shape.empty() || in[0] != Type{y.element, rows} || in[1].shape != rows) {
    throw Requirement{"a gradient and an index for each row"};
  }
  return {y};
}

std::vector<Case> PickedSoftmaxGrad::cases() {
  std::vector<Case> cases;
  const auto add = [&](std::string name, Shape rows, std::int64_t size, CaseInput index,
                       std::optional<std::int64_t> ignored = {}) {
    Shape shape = rows;
    shape.push_back(size);
    cases.push_back(
        {.name = std::move(name),
         .op = make_op(PickedSoftmaxGrad{ignored}),
         .inputs = {{{f32, rows}}, std::move(index), {{f32, shape}, {.low = -4, .high = 0}}},
         .sums = true,
         .gradient = false});
  };
  add("small", {4}, 16, indices({4}, 16));
  add("odd, i32", {5}, 19, indices({5}, 19, i32));
  add("two leading", {3, 2}, 9, indices({3, 2}, 9));
  add("one class", {3}, 1, indices({3}, 1));
  add("one row", {}, 35, indices({}, 35));
  add("wide", {3}, 2051, indices({3}, 2051));
  add("empty", {0}, 8, indices({0}, 8));
  add("threads", {130}, 515, indices({130}, 515));
  add("one in range ignored", {19}, 4, indices({19}, 4), 2);
  CaseInput or_minus_one = indices({19}, 4);
  or_minus_one.fill.low = -1;
  add("one out of range ignored", {19}, 4, std::move(or_minus_one), -1);
  return cases;
}

}  // namespace metronome
