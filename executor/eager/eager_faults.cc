#include "executor/eager/eager_faults.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/isinf.h>
#include <ATen/ops/isnan.h>
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <span>

#include "executor/engine/plan_nodes.h"
#include "graph/rules/indexing.h"
#include "graph/rules/limits.h"
#include "ops/kernel/blame.h"
#include "ops/kernel/kernel.h"
#include "ops/reference/elements.h"

namespace metronome::executor::eager {
namespace {

bool has(const NonFiniteKinds& found, int k) { return k == 0 ? found.nan : found.infinity; }

}  // namespace

std::optional<std::string> stray_lookup(const Node& node, const Tensors& inputs) {
  Types types;
  for (const at::Tensor& tensor : inputs) {
    if (!tensor.defined()) return std::nullopt;  // of a region that was skipped
    types.push_back({from_torch(tensor.scalar_type()), tensor.sizes().vec()});
  }
  const auto lookup = node.op->ask<IndexingRule>(types);
  if (!lookup) return std::nullopt;
  const at::Tensor& index = inputs[lookup->operand];
  at::Tensor stray = index.lt(0).logical_or(index.ge(lookup->count));
  if (lookup->ignored) stray = stray.logical_and(index.ne(*lookup->ignored));
  const at::Tensor all = index.masked_select(stray);
  if (all.numel() == 0) return std::nullopt;
  return describe(node, *lookup, all.min().item<std::int64_t>());
}

std::optional<std::string> refused_number(const Node& node, const Tensors& inputs) {
  const auto limits = node.op->ask<LimitsRule>();
  if (!limits || !inputs[limits->operand].defined()) return std::nullopt;
  const at::Tensor numbers =
      inputs[limits->operand].detach().to(at::kCPU, at::kDouble).contiguous();
  const std::span<const double> all(numbers.const_data_ptr<double>(),
                                    static_cast<std::size_t>(numbers.numel()));
  constexpr std::int64_t kNone = std::numeric_limits<std::int64_t>::max();
  std::int64_t least = kNone;
  for (const double number : all) {
    if (!limits->hold(number)) least = std::min<std::int64_t>(least, cuda::order_of(number));
  }
  if (least == kNone) return std::nullopt;
  return describe(node, *limits, least);
}

NonFiniteKinds non_finite_in(const at::Tensor& tensor) {
  if (!tensor.defined() || !tensor.is_floating_point()) return {};
  const at::Tensor values = tensor.detach();
  if (at::isfinite(values).all().item<bool>()) return {};
  return {at::isnan(values).any().item<bool>(), at::isinf(values).any().item<bool>()};
}

EagerWatch::EagerWatch(const ir::Graph& graph, const Memory& memory)
    : graph_(graph),
      memory_(memory),
      makers_(makers_of(graph, memory)),
      met_(graph.nodes().size()),
      held_(source_count(memory)) {
  held_[kNanConstant].nan = held_[kInfiniteConstant].infinity = true;
}

void EagerWatch::begin(const Tensors& inputs, const Tensors& storages) {
  std::fill(met_.begin(), met_.end(), NonFiniteKinds{});
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    held_[source_of_input(i)] = non_finite_in(inputs[i]);
  }
  for (std::size_t i = 0; i < storages.size(); ++i) {
    held_[source_of_storage(i, memory_)] = non_finite_in(storages[i]);
  }
}

std::optional<std::string> EagerWatch::look(std::int32_t node, const Tensors& made) {
  if (!makes_numbers(graph_, node)) return std::nullopt;
  NonFiniteKinds& met = met_[node];
  for (const at::Tensor& tensor : made) {
    const NonFiniteKinds here = non_finite_in(tensor);
    met = {met.nan || here.nan, met.infinity || here.infinity};
  }
  if (met == NonFiniteKinds{}) return std::nullopt;
  const int value = blame::of(
      met.nan, makers_[node].data(), static_cast<int>(makers_[node].size()),
      [&](int maker, int k) { return has(met_[maker], k); },
      [&](int source, int k) { return has(held_[source], k); });
  if (value == blame::kBlameless) return std::nullopt;
  return fmt::format("{}: {}", describe(graph_.nodes()[node]), describe_number(value, memory_));
}

}  // namespace metronome::executor::eager
