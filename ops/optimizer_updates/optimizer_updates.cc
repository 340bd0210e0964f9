#include "ops/optimizer_updates/optimizer_updates.h"

#include <fmt/format.h>

#include "graph/ir/error.h"
#include "graph/ir/op_model.h"
#include "ops/rules/require.h"

namespace metronome {

namespace {

// The optimizers of this library always meet these; a hand-made node may not.
void check(std::span<const Type> in, std::size_t tensors, std::size_t arity) {
  if (in.size() != arity && in.size() != arity + 1) {
    throw Requirement{fmt::format("{} or {} operands, but {}", arity, arity + 1, in.size())};
  }
  if (!is_floating(in[0].element)) {
    throw Requirement{fmt::format("a parameter of f32 or f64, but {}", name_of(in[0].element))};
  }
  for (std::size_t i = 1; i < tensors; ++i) {
    if (in[i] != in[0]) {
      throw Requirement{fmt::format("a gradient and moments of the parameter's type, but {} and {}",
                                    to_string(in[i]), to_string(in[0]))};
    }
  }
  for (std::size_t i = tensors; i < in.size(); ++i) {
    if (in[i] != Type{f64, {}}) {
      throw Requirement{fmt::format("scalars of the type f64[], but {}", to_string(in[i]))};
    }
  }
}

constexpr Fillings kNonNegative{.low = 0, .high = 2, .differentiable = false};
constexpr Fillings kAny{.differentiable = false};

CaseInput tensor(const Shape& shape, const Fillings& fill) { return {Type{f32, shape}, fill}; }

CaseInput scalar(double low, double high) {
  return {Type{f64, {}}, {.low = low, .high = high, .differentiable = false}};
}

// Sizes that reach a kernel's parts: whole vectors, tails, one element, none, several threads.
const std::vector<std::pair<std::string, Shape>>& update_sizes() {
  static const std::vector<std::pair<std::string, Shape>> all = {{"whole vectors", {64}},
                                                                 {"odd sizes", {7, 13}},
                                                                 {"a scalar", {}},
                                                                 {"empty", {0, 4}},
                                                                 {"two threads", {257, 131}}};
  return all;
}

}  // namespace

std::string AdamUpdate::attributes() const {
  return fmt::format("beta1={} beta2={} eps={}{}", beta1, beta2, eps,
                     !decays     ? ""
                     : decoupled ? " decays decoupled"
                                 : " decays");
}

Types AdamUpdate::infer(std::span<const Type> in) const {
  check(in, 4, arity());
  return {in[0], in[0], in[0]};
}

/// The update over tensors that are stored in a layout; scalars stay as they are.
static LaidOutOp lay_out_update(OpPtr op, std::span<const Type> in, std::size_t results,
                                const Layout& layout) {
  LaidOutOp laid{std::move(op), {}, std::vector<Layout>(results, layout)};
  for (const Type& type : in) {
    laid.operands.push_back(type.shape == in[0].shape && type.rank() > 0 ? layout : Layout{});
  }
  return laid;
}

std::optional<LaidOutOp> AdamUpdate::lay_out(std::span<const Type> in, const Layout& layout) const {
  return lay_out_update(make_op(*this), in, 3, layout);
}

std::vector<Case> AdamUpdate::cases() {
  std::vector<Case> cases;
  const auto add = [&](std::string name, const AdamUpdate& op, const Shape& shape, bool factor) {
    std::vector<CaseInput> in = {
        tensor(shape, kAny), tensor(shape, kAny), tensor(shape, kAny), tensor(shape, kNonNegative),
        scalar(1e-4, 1e-1),  scalar(0.1, 1),      scalar(0.001, 1)};
    if (op.decays) in.push_back(scalar(0.01, 0.2));
    if (factor) in.push_back(scalar(0.1, 1));
    cases.push_back({std::move(name), make_op(op), std::move(in), false, false});
  };
  for (const auto& [name, shape] : update_sizes()) add(name, {}, shape, false);
  add("weight decay", {.decays = true}, {7, 13}, false);
  add("decoupled weight decay", {.decays = true, .decoupled = true}, {7, 13}, false);
  add("other betas", {.beta1 = 0.3, .beta2 = 0.9, .eps = 1e-3}, {7, 13}, false);
  add("a factor of the gradient", {}, {7, 13}, true);
  add("a factor and weight decay", {.decays = true}, {33}, true);
  return cases;
}

Types AdamTableUpdate::infer(std::span<const Type> in) const {
  if (in[0].rank() != 2) {
    throw Requirement{fmt::format("a table [rows, width], but {}", to_string(in[0]))};
  }
  require_integer(in[4]);
  const Type sums{in[0].element, {in[4].numel(), in[0].shape[1]}};
  if (in[4].rank() != 1 || in[3] != sums) {
    throw Requirement{fmt::format("an index [n] and sums {} for it, but {} and {}", to_string(sums),
                                  to_string(in[4]), to_string(in[3]))};
  }
  std::vector<Type> dense = {in[0], in[0], in[1], in[2]};
  dense.insert(dense.end(), in.begin() + 5, in.end());
  check(dense, 4, step.arity());
  return {in[0], in[0], in[0]};
}

std::vector<Case> AdamTableUpdate::cases() {
  std::vector<Case> cases;
  const auto add = [&](std::string name, const AdamUpdate& step, const Shape& table,
                       CaseInput index) {
    index.fill.kind = Fillings::Kind::ascending;
    const Shape sums = {index.type.shape[0], table[1]};
    std::vector<CaseInput> in = {
        tensor(table, kAny), tensor(table, kAny), tensor(table, kNonNegative),
        tensor(sums, kAny),  std::move(index),    scalar(1e-4, 1e-1),
        scalar(0.1, 1),      scalar(0.001, 1)};
    if (step.decays) in.push_back(scalar(0.01, 0.2));
    cases.push_back({std::move(name), make_op(AdamTableUpdate{step}), std::move(in), false, false});
  };
  add("some rows", {}, {11, 7}, indices({9}, 11));
  add("one row", {}, {4, 16}, indices({1}, 4));
  add("some out of range", {}, {3, 5}, indices({8}, 6));
  add("i32", {}, {5, 1}, indices({9}, 5, i32));
  add("no index", {}, {5, 3}, indices({0}, 5));
  add("no row", {}, {0, 3}, indices({4}, 5));
  add("weight decay", {.decays = true}, {11, 7}, indices({9}, 11));
  add("decoupled weight decay", {.decays = true, .decoupled = true}, {11, 7}, indices({9}, 11));
  add("two threads", {}, {700, 70}, indices({40}, 700));
  return cases;
}

std::string SgdUpdate::attributes() const {
  return fmt::format("momentum={}{}{}", momentum, decays ? " decays" : "",
                     nesterov ? " nesterov" : "");
}

Types SgdUpdate::infer(std::span<const Type> in) const {
  check(in, has_momentum() ? 3 : 2, arity());
  return has_momentum() ? Types{in[0], in[0]} : Types{in[0]};
}

std::vector<InPlace> SgdUpdate::in_place() const {
  return has_momentum() ? std::vector<InPlace>{{0, 0}, {1, 2}} : std::vector<InPlace>{{0, 0}};
}

std::optional<LaidOutOp> SgdUpdate::lay_out(std::span<const Type> in, const Layout& layout) const {
  return lay_out_update(make_op(*this), in, has_momentum() ? 2 : 1, layout);
}

std::vector<Case> SgdUpdate::cases() {
  std::vector<Case> cases;
  const auto add = [&](std::string name, const SgdUpdate& op, const Shape& shape, bool factor) {
    std::vector<CaseInput> in = {tensor(shape, kAny), tensor(shape, kAny)};
    if (op.has_momentum()) in.push_back(tensor(shape, kAny));
    in.push_back(scalar(1e-4, 1e-1));
    if (op.has_momentum()) in.push_back(scalar(0.5, 1));
    if (op.decays) in.push_back(scalar(0.01, 0.2));
    if (factor) in.push_back(scalar(0.1, 1));
    cases.push_back({std::move(name), make_op(op), std::move(in), false, false});
  };
  for (const auto& [name, shape] : update_sizes()) {
    add(name, {}, shape, false);
    add(name + ", momentum", {.momentum = 0.9}, shape, false);
  }
  add("weight decay", {.decays = true}, {7, 13}, false);
  add("momentum and weight decay", {.momentum = 0.9, .decays = true}, {7, 13}, false);
  add("nesterov", {.momentum = 0.9, .decays = true, .nesterov = true}, {7, 13}, false);
  add("a factor of the gradient", {.decays = true}, {33}, true);
  add("a factor and momentum", {.momentum = 0.9, .nesterov = true}, {33}, true);
  return cases;
}

}  // namespace metronome
