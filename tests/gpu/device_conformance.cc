#include "tests/gpu/device_conformance.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <typeinfo>
#include <utility>

#include "graph/ir/error.h"
#include "graph/passes/lower.h"
#include "graph/passes/training/differentiate.h"
#include "graph/rules/gradient.h"
#include "ops/cuda/table.h"
#include "ops/ops.h"
#include "ops/reference/table.h"
#include "tests/gpu/compound_conformance.h"
#include "tests/ops/parameter_gradients.h"
#include "tests/ops/structural_cases.h"

namespace metronome {
namespace {

Feeds feeds_of(const CaseGraph& c) {
  Feeds feeds;
  for (std::size_t i = 0; i < c.names.size(); ++i) feeds[c.names[i]] = c.tensors[i];
  return feeds;
}

Trouble check_values(const Case& c, Element element, const Settings& form, DevicePools pools) {
  const CaseGraph declared(c, element, false);
  const ir::Graph graph = passes::lower(declared.graph, form);
  const Tensors operands(declared.tensors.begin(),
                         declared.tensors.begin() + static_cast<int>(declared.operands()));
  const Tensors expected = compute(pools) ? reference(declared.op(), operands) : Tensors{};
  const double allowed = tolerance(declared.op(), c.name, element, c.sums);
  DeviceRun run{.values = results_of(graph), .in_place = true};
  std::size_t kernels = 1, kernel = 0;
  std::string name;
  run.choose = [&](std::int32_t node, const std::vector<Candidate>& candidates) {
    if (graph.nodes()[node].op->kind() != declared.op().kind()) return std::size_t{0};
    kernels = candidates.size();
    name = name_of(candidates.at(kernel));
    return kernel;
  };
  for (const bool views : {false, true}) {
    run.views = views;
    for (kernel = 0; kernel < kernels; ++kernel) {
      Trouble trouble;
      try {
        const Tensors found = run_on(pools, graph, feeds_of(declared), run);
        if (compute(pools)) trouble = compare(found, expected, allowed);
      } catch (const std::exception& error) {
        trouble = error.what();
      }
      if (trouble) return fmt::format("{} (kernel {}{})", *trouble, name, views ? ", views" : "");
    }
  }
  return std::nullopt;
}

Trouble check_gradients(const Case& c, Element element, const Settings& form, DevicePools pools) {
  const CaseGraph declared(c, element, true);
  const ir::Graph graph = passes::differentiate(passes::lower(declared.graph, form), {});
  DeviceRun run;
  // By our own kernels where there are: libraries' are looked at one by one, with the values.
  run.choose = [](std::int32_t, const std::vector<Candidate>& candidates) {
    const auto own = std::ranges::find(candidates, Maker::own, &Candidate::maker);
    return own == candidates.end() ? 0 : static_cast<std::size_t>(own - candidates.begin());
  };
  for (const ParameterGradient& g : parameter_gradients(graph)) run.values.push_back(g.value);
  const Tensors found = run_on(pools, graph, feeds_of(declared), run);
  if (!compute(pools)) return std::nullopt;
  const Tensors expected = autograd(declared, graph);
  const double allowed = tolerance(declared.op(), c.name, element, c.sums);
  for (std::size_t k = 0; k < expected.size(); ++k) {
    if (auto trouble = difference(found[k], expected[k], allowed)) {
      const StorageId parameter = parameter_gradients(graph)[k].parameter;
      return fmt::format("gradient of {}: {}", graph.storage(parameter).path, *trouble);
    }
  }
  return std::nullopt;
}

OpConformance check_cases(const std::vector<Case>& cases, DevicePools pools,
                          const CaseLimits& limits) {
  OpConformance result;
  const DevicePools of_f64 = pools.first(std::min(pools.size(), limits.pools_of_f64));
  for (const Case& c : cases) {
    for (const Element element : {f32, f64}) {
      ++result.cases;
      if (const Trouble trouble = check_on_device(c, element, element == f64 ? of_f64 : pools)) {
        result.troubles.push_back(fmt::format("{}({}) \"{}\" {}: {}", c.op->name(),
                                              c.op->attributes(), c.name, name_of(element),
                                              *trouble));
      }
    }
  }
  return result;
}

std::int64_t largest_operand(const Case& c) {
  std::int64_t most = 0;
  for (const CaseInput& input : c.inputs) most = std::max(most, input.type.numel());
  return most;
}

void limit(std::vector<Case>& cases, const CaseLimits& limits) {
  const Case smallest = *std::ranges::min_element(cases, {}, largest_operand);
  std::erase_if(cases, [&](const Case& c) { return !limits.hold(c); });
  if (cases.empty()) cases.push_back(smallest);
}

/// A table's ops have names of their own.
template <class Op>
void add_checks_of(const CaseLimits& limits, std::vector<OpCheck>& checks) {
  std::map<std::string, std::vector<Case>> named;
  for (Case& c : CasesOf<Op>::cases()) named[std::string(c.op->name())].push_back(std::move(c));
  if (named.empty()) throw InternalError(fmt::format("{} has no cases", typeid(Op).name()));
  for (auto& [name, cases] : named) {
    limit(cases, limits);
    checks.push_back({name, [cases = std::move(cases), limits](DevicePools pools) {
                        return check_cases(cases, pools, limits);
                      }});
  }
}

template <class... Ops>
void add_checks(OpList<Ops...>, const CaseLimits& limits, std::vector<OpCheck>& checks) {
  (add_checks_of<Ops>(limits, checks), ...);
}

}  // namespace

Trouble check_on_device(const Case& c, Element element, DevicePools pools) {
  try {
    for (const Settings& form :
         forms_of(*c.op, [](const Op& op) { return cuda_table().has(op); })) {
      if (auto trouble = check_values(c, element, form, pools)) return trouble;
      const bool gradients = c.gradient && differentiable(*c.op);
      if (!gradients) continue;
      if (auto trouble = check_gradients(c, element, form, pools)) return trouble;
    }
    return std::nullopt;
  } catch (const std::exception& error) {
    return error.what();
  } catch (const Requirement& requirement) {
    return "the shape rule requires " + requirement.requires_;
  }
}

bool CaseLimits::hold(const Case& c) const { return largest_operand(c) <= elements; }

std::vector<OpCheck> all_op_checks(const CaseLimits& limits) {
  std::vector<OpCheck> checks;
  add_checks(KernelOps{}, limits, checks);
  add_checks(DeviceOps{}, limits, checks);
  add_checks(ViewOps{}, limits, checks);
  add_checks(CompositeOps{}, limits, checks);
  checks.push_back({"batch", check_batches});
  checks.push_back({"group", [limits](DevicePools pools) { return check_groups(pools, limits); }});
  return checks;
}

}  // namespace metronome
