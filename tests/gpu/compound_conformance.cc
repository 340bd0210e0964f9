#include "tests/gpu/compound_conformance.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <exception>
#include <utility>

#include "graph/check/verify.h"
#include "graph/compounds/batch.h"
#include "graph/compounds/group.h"
#include "graph/passes/batch.h"
#include "graph/passes/fuse.h"
#include "graph/passes/lower.h"
#include "graph/passes/prune.h"
#include "graph/passes/training/differentiate.h"
#include "graph/passes/training/update.h"
#include "graph/rules/fusion.h"
#include "ops/ops.h"
#include "ops/optimizers/optimizers.h"
#include "tests/executor/settings_of.h"
#include "tests/gpu/device_runs.h"
#include "tests/ops/structural_cases.h"

namespace metronome {
namespace {

template <class Compound>
std::ptrdiff_t count(const ir::Graph& graph) {
  return std::ranges::count_if(graph.nodes(),
                               [](const Node& node) { return node.op->as<Compound>() != nullptr; });
}

/// Adds what `check()` finds, or throws, to the troubles.
template <class Check>
void add_case(OpConformance& result, const std::string& name, const Check& check) {
  ++result.cases;
  Trouble trouble;
  try {
    trouble = check();
  } catch (const std::exception& error) {
    trouble = error.what();
  }
  if (trouble) result.troubles.push_back(fmt::format("{}: {}", name, *trouble));
}

// ---- batches -------------------------------------------------------------------------------

/// Updates of parameters whose gradients are given. Large enough for several blocks, some of a few
/// elements, one of none; addresses are at odd elements where they are views.
ir::Graph updates(const Optimizer& optimizer) {
  Graph g("updates");
  const Shape shapes[] = {{}, {7}, {33, 65}, {0, 3}, {1024}, {4099}, {1}};
  Value loss;
  for (const Shape& shape : shapes) {
    for (const Element element : {f32, f64}) {
      const std::string name = fmt::format("{}_{}", name_of(element), fmt::join(shape, "x"));
      const Value parameter = g.parameter("p_" + name, {element, shape}, {});
      const Value gradient = g.input("g_" + name, element, shape);
      const Value part = sum(parameter * gradient).cast(f64);
      loss = loss.present() ? loss + part : part;
    }
  }
  g.minimize(loss, optimizer);
  g.validate();
  ir::Graph step = g.data();
  for (const auto pass : {passes::lower, passes::differentiate, passes::update, passes::prune})
    step = pass(step, {});
  return step;
}

Trouble check_batch(DevicePools pools, const Optimizer& optimizer) {
  const ir::Graph before = updates(optimizer);
  Settings settings;
  settings.buckets = 1;
  const ir::Graph after = passes::batch(before, settings);
  check::verify(after, "batch");
  if (count<Batch>(after) != 1) return fmt::format("{} batches were made", count<Batch>(after));
  Feeds feeds = numbers_for(before);
  for (auto& [name, tensor] : feeds) tensor = tensor.abs();  // second moments are squares
  return other_bits(pools, before, after, feeds);
}

// ---- groups --------------------------------------------------------------------------------

Value mapped(Value x) { return x * x - x; }

/// The case's op between maps. With `keeps`, mapped operands are read afterwards too.
Graph between_maps(const Case& c, Element element, bool keeps) {
  Graph g("group");
  Types types;
  for (const CaseInput& input : c.inputs) {
    types.push_back(input.type);
    if (types.back().element == f32) types.back().element = element;
  }
  const Fusion fusion = *c.op->ask<FusionRule>(types);
  Values operands;
  for (std::size_t i = 0; i < types.size(); ++i) {
    Value x = g.input("x" + std::to_string(i), types[i].element, types[i].shape);
    if (std::ranges::find(fusion.streamed_inputs, static_cast<int>(i)) !=
        fusion.streamed_inputs.end()) {
      x = mapped(x);
      if (keeps) g.output("m" + std::to_string(i), x);
    }
    operands.push_back(x);
  }
  const std::size_t outputs = c.op->infer(types).size();
  const Values results = apply(c.op, operands, Line::here(), outputs);
  for (std::size_t k = 0; k < outputs - c.op->saved(); ++k) {
    const bool streamed = std::ranges::find(fusion.streamed_outputs, static_cast<int>(k)) !=
                          fusion.streamed_outputs.end();
    g.output("y" + std::to_string(k), streamed ? mapped(results[k]) : results[k]);
  }
  g.validate();
  return g;
}

Trouble check_group(DevicePools pools, const Case& c, Element element, bool keeps) {
  const Graph before = between_maps(c, element, keeps);
  const ir::Graph after = passes::fuse(before, settings_of(null(), train));
  check::verify(after, "fuse");
  const bool empty = before.data().nodes()[0].types[0].numel() == 0;
  if (!empty && count<Group>(after) != 1) {
    return fmt::format("{} groups were made", count<Group>(after));
  }
  Feeds feeds;
  Numbers numbers;
  for (std::size_t i = 0; i < c.inputs.size(); ++i) {
    const Type& type = before.data().nodes()[i].types[0];
    feeds["x" + std::to_string(i)] = filled(type, c.inputs[i].fill, numbers);
  }
  return other_bits(pools, before, after, feeds);
}

/// Sums stand for all of `Reduce`, whose other kinds differ in one line of the same kernels.
bool stands_for_others(const Case& c) {
  const Reduce* reduce = c.op->as<Reduce>();
  return reduce == nullptr || reduce->kind == Reduce::Kind::sum;
}

template <class Op>
void check_op(DevicePools pools, const CaseLimits& limits, OpConformance& result) {
  for (const Case& c : CasesOf<Op>::cases()) {
    if (!limits.hold(c)) continue;
    Types types;
    for (const CaseInput& input : c.inputs) types.push_back(input.type);
    const auto fusion = c.op->ask<FusionRule>(types);
    if (!fusion || fusion->kind != Fusion::Kind::reduction || !stands_for_others(c)) continue;
    // Both types, and values that stay inside of the kernel or leave it, by turns: each case is a
    // source to compile.
    const Element element = result.cases % 2 == 0 ? f32 : f64;
    const bool keeps = result.cases / 2 % 2 == 0;
    add_case(
        result,
        fmt::format("{}({}) \"{}\" {}", c.op->name(), c.op->attributes(), c.name, name_of(element)),
        [&] { return check_group(pools, c, element, keeps); });
  }
}

template <class... Ops>
void check_list(OpList<Ops...>, DevicePools pools, const CaseLimits& limits,
                OpConformance& result) {
  (check_op<Ops>(pools, limits, result), ...);
}

}  // namespace

OpConformance check_batches(DevicePools pools) {
  OpConformance result;
  const std::pair<const char*, Optimizer> optimizers[] = {
      {"adam", Adam{}},
      {"adam, decay", Adam{.weight_decay = 0.1}},
      {"adamw", AdamW{}},
      {"sgd", Sgd{.weight_decay = 0.1}},
      {"sgd, momentum", Sgd{.momentum = 0.9, .dampening = 0.1}},
      {"sgd, nesterov", Sgd{.momentum = 0.9, .nesterov = true}},
  };
  for (const auto& [name, optimizer] : optimizers) {
    add_case(result, name, [&] { return check_batch(pools, optimizer); });
  }
  return result;
}

OpConformance check_groups(DevicePools pools, const CaseLimits& limits) {
  OpConformance result;
  check_list(KernelOps{}, pools, limits, result);
  return result;
}

}  // namespace metronome
