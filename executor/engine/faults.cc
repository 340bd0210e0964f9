// faults.h says what a fault is; here are the words, and two searches:
//
//   Makers    follows floating operands back, through views and ops that only move numbers, to the
//             nodes and sources that made the numbers; each node is asked once
//   examine   looks for numbers whose exponent's bits are all 1. Adding 1 to the exponent carries
//             into the sign's bit, so one OR over 64 sums tells whether such a number is there
#include "executor/engine/faults.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "executor/engine/plan_nodes.h"
#include "graph/ir/error.h"
#include "graph/ir/guarded.h"
#include "graph/ir/structural.h"
#include "graph/rules/indexing.h"
#include "graph/rules/limits.h"
#include "ops/kernel/blame.h"
#include "ops/kernel/kernel.h"
#include "ops/rules/by_element.h"

namespace metronome::executor {
namespace {

/// The walk behind `makers_of`: through views and ops that only move numbers.
class Makers {
 public:
  Makers(const ir::Graph& graph, const Memory& memory)
      : graph_(graph),
        memory_(memory),
        storages_(memory.storages_of(graph)),
        behind_(graph.nodes().size()) {}

  /// Whose numbers a node reads.
  std::vector<int> read_by(std::int32_t node) {
    std::vector<int> all;
    for (const ValueId id : graph_.nodes()[node].inputs) {
      if (!is_floating(graph_.type(id).element)) continue;
      const std::vector<int>& more = of(id);
      all.insert(all.end(), more.begin(), more.end());
    }
    std::sort(all.begin(), all.end());
    all.erase(std::unique(all.begin(), all.end()), all.end());
    return all;
  }

  /// Whose numbers a floating value holds.
  const std::vector<int>& of(ValueId id) {
    auto& known = behind_[id.node];
    if (!known) known = find(id);
    return *known;
  }

 private:
  std::vector<int> find(ValueId id) {
    const Node& node = graph_.node(id);
    if (const Input* input = node.op->as<Input>()) {
      return {-1 - source_of_input(memory_.find(*input))};
    }
    if (const Read* read = node.op->as<Read>()) {
      return {-1 - source_of_storage(storages_[read->storage.index], memory_)};
    }
    if (node.inputs.empty()) return constant(node);
    if (makes_numbers(graph_, id.node)) return {id.node};
    return read_by(id.node);
  }

  static std::vector<int> constant(const Node& node) {
    NonFiniteKinds holds;
    if (const Fill* fill = node.op->as<Fill>()) {
      const double number = with_element(node.types[0].element, [&](auto element) {
        return static_cast<double>(static_cast<decltype(element)>(fill->number));
      });
      holds = {std::isnan(number), std::isinf(number)};
    } else if (const Constant* constant = node.op->as<Constant>()) {
      holds = non_finite_in(constant->bytes.data(), node.types[0]);
    }
    std::vector<int> sources;
    if (holds.nan) sources.push_back(-1 - kNanConstant);
    if (holds.infinity) sources.push_back(-1 - kInfiniteConstant);
    return sources;
  }

  const ir::Graph& graph_;
  const Memory& memory_;
  std::vector<std::size_t> storages_;
  std::vector<std::optional<std::vector<int>>> behind_;  // [node]
};

/// The exponent's bits are all set in what is not finite: adding one to the exponent then carries
/// into the sign's place, which all other bits are cleared for. Blocks of a constant size let the
/// compiler take vectors.
template <class Bits, Bits kExponent, Bits kLowest>
NonFiniteKinds examine(const std::byte* data, std::int64_t count) {
  constexpr std::int64_t kBlock = 64;
  constexpr Bits kSign = kExponent + kLowest;
  NonFiniteKinds found;
  for (std::int64_t begin = 0; begin < count; begin += kBlock) {
    Bits block[kBlock] = {};
    const auto here = static_cast<std::size_t>(std::min(kBlock, count - begin));
    std::memcpy(block, data + static_cast<std::size_t>(begin) * sizeof(Bits), here * sizeof(Bits));
    Bits any = 0;
    for (std::int64_t i = 0; i < kBlock; ++i)
      any |= static_cast<Bits>((block[i] & kExponent) + kLowest);
    if ((any & kSign) == 0) continue;
    for (const Bits bits : block) {
      if ((bits & kExponent) != kExponent) continue;
      const bool infinity = (bits & ~(kExponent | kSign)) == 0;
      (infinity ? found.infinity : found.nan) = true;
    }
    if (found.nan) return found;  // an infinity beside it changes nothing
  }
  return found;
}

}  // namespace

std::string describe(const Indexing& lookup, std::int64_t index) {
  std::string text = fmt::format("{} {} is out of range", lookup.what, index);
  text += lookup.count > 0 ? fmt::format(" 0 to {}", lookup.count - 1) : ", as there is nothing";
  if (lookup.ignored) text += fmt::format(" ({} is ignored)", *lookup.ignored);
  return text;
}

std::string describe(const Node& node, const Indexing& lookup, std::int64_t index) {
  std::string text = describe(node);
  if (!lookup.by.empty()) text.replace(0, node.op->name().size(), lookup.by);
  return fmt::format("{}: {}", text, describe(lookup, index));
}

std::string describe(const Node& node, const NumberLimits& limits, std::int64_t order) {
  return fmt::format("{}: {}", describe(node), limits.words(cuda::number_of(order)));
}

std::string describe_number(std::int64_t value, const Memory& memory) {
  if (value == blame::kMadeNan) return "made a NaN";
  if (value == blame::kMadeInfinity) return "made an infinity";
  const std::int64_t source = value - blame::kReadNan;
  if (source < kFirstInput) return "read a NaN from a constant";
  auto place = static_cast<std::size_t>(source - kFirstInput);
  if (place < memory.inputs.size()) {
    return fmt::format("read a NaN from input \"{}\"", memory.inputs[place].name);
  }
  place -= memory.inputs.size();
  return fmt::format("read a NaN from \"{}\"", memory.storages.at(place).path);
}

std::string describe(const FaultSlot::Fault& fault, std::span<const Plan* const> plans,
                     const Memory& memory) {
  auto place = static_cast<std::size_t>(fault.place / kFaultKinds);
  for (const Plan* plan : plans) {
    const auto nodes = plan->graph.nodes();
    if (place >= nodes.size()) {
      place -= nodes.size();
      continue;
    }
    const Node& node = nodes[place];
    if (fault.place % kFaultKinds == static_cast<int>(FaultKind::number)) {
      const bool made = fault.value == blame::kMadeNan || fault.value == blame::kMadeInfinity;
      return fmt::format("{}: {}{}", describe(node), describe_number(fault.value, memory),
                         made && node.op->effects() ? ", of numbers of all ranks" : "");
    }
    if (const auto limits = node.op->ask<LimitsRule>()) {
      return describe(node, *limits, fault.value);
    }
    const Types types = plan->graph.operands(node);
    return describe(node, *node.op->ask<IndexingRule>(types), fault.value);
  }
  throw InternalError(fmt::format("a fault at {}, which is in no plan", fault.place));
}

std::size_t node_count(std::span<const Plan> plans) {
  std::size_t nodes = 0;
  for (const Plan& plan : plans) nodes += plan.graph.nodes().size();
  return nodes;
}

int source_of_input(std::size_t input) { return kFirstInput + static_cast<int>(input); }
int source_of_storage(std::size_t storage, const Memory& memory) {
  return kFirstInput + static_cast<int>(memory.inputs.size() + storage);
}
std::size_t source_count(const Memory& memory) {
  return kFirstInput + memory.inputs.size() + memory.storages.size();
}

bool makes_numbers(const ir::Graph& graph, std::int32_t index) {
  const Node& node = graph.nodes()[index];
  if (node.inputs.empty() || node.op->moves() || !has_kernel(graph, node)) return false;
  return std::ranges::any_of(node.types, [](const Type& t) { return is_floating(t.element); });
}

std::vector<std::vector<int>> makers_of(const ir::Graph& graph, const Memory& memory) {
  Makers walk(graph, memory);
  std::vector<std::vector<int>> all;
  for (std::int32_t i = 0; i < static_cast<std::int32_t>(graph.nodes().size()); ++i) {
    all.push_back(walk.read_by(i));
  }
  return all;
}

std::vector<int> makers_of(const ir::Graph& graph, ValueId value, const Memory& memory) {
  if (!is_floating(graph.type(value).element)) return {};
  return Makers(graph, memory).of(value);
}

NonFiniteKinds non_finite_in(const void* data, const Type& type) {
  const auto* bytes = static_cast<const std::byte*>(data);
  if (type.element == f32) {
    return examine<std::uint32_t, 0x7F800000u, 0x00800000u>(bytes, type.numel());
  }
  if (type.element == f64) {
    return examine<std::uint64_t, 0x7FF0000000000000u, 0x0010000000000000u>(bytes, type.numel());
  }
  if (type.element == bf16) {
    return examine<std::uint16_t, 0x7F80u, 0x0080u>(bytes, type.numel());
  }
  if (type.element == f16) {
    return examine<std::uint16_t, 0x7C00u, 0x0400u>(bytes, type.numel());
  }
  return {};
}

}  // namespace metronome::executor
