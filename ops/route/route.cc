#include "ops/route/route.h"

#include <fmt/format.h>

#include "graph/ir/error.h"
#include "graph/ir/op_model.h"
#include "ops/rules/require.h"

namespace metronome {

std::string Route::attributes() const { return fmt::format("top={}, slots={}", top, slots); }

Types Route::infer(std::span<const Type> in) const {
  require_floating(in[0]);
  if (in[0].rank() != 2) {
    throw Requirement{fmt::format("weights [rows, experts], but {}", to_string(in[0]))};
  }
  const std::int64_t rows = in[0].shape[0], experts = in[0].shape[1];
  if (top < 1 || top > experts) {
    throw Requirement{fmt::format("a top from 1 to {}, but {}", experts, top)};
  }
  if (slots < 0) throw Requirement{fmt::format("0 slots or more, but {}", slots)};
  return {{i64, {top, rows}}, {i64, {top, rows}}, {i64, {experts * slots}}, {i64, {experts}}};
}

std::vector<Case> Route::cases() {
  std::vector<Case> cases;
  const auto add = [&](std::string name, Route op, Shape weights, Fillings fill = {}) {
    fill.differentiable = false;
    cases.push_back({.name = std::move(name),
                     .op = make_op(op),
                     .inputs = {{{f32, std::move(weights)}, fill}},
                     .gradient = false});
  };
  const Fillings few = {.kind = Fillings::Kind::integers, .low = 0, .high = 3};
  const Fillings equal = {.kind = Fillings::Kind::integers, .low = 1, .high = 2};
  add("two of eight", {2, 5}, {16, 8});
  add("one of three", {1, 40}, {37, 3});
  add("all, with room", {5, 7}, {7, 5});
  add("all, without room", {5, 3}, {7, 5});
  add("ties", {3, 4}, {33, 6}, few);
  add("all equal", {2, 9}, {67, 4}, equal);
  add("one expert", {1, 2}, {9, 1});
  add("one row", {2, 1}, {1, 4});
  add("one slot each", {2, 1}, {50, 7});
  add("no slot", {2, 0}, {5, 3});
  add("no row", {1, 0}, {0, 4});
  add("no row, but slots", {2, 3}, {0, 4});
  add("beyond a round of votes", {3, 200}, {517, 9});
  add("for threads", {2, 1500}, {6000, 8});
  return cases;
}

}  // namespace metronome
