#include "executor/cuda/program/kept_constants.h"

#include <cmath>
#include <cstring>
#include <type_traits>
#include <vector>

#include "executor/engine/plan_nodes.h"
#include "graph/ir/structural.h"

namespace metronome::executor::program {
namespace {

// Larger ones are not worth memory of their own: to write one takes a microsecond.
constexpr std::size_t kMostKeptBytes = std::size_t{1} << 20;

/// Nothing where it is no constant, a large one, or no number, which steps tell of.
std::vector<std::byte> bytes_of(const Node& node) {
  if (node.types.size() != 1 || node.types[0].bytes() > kMostKeptBytes) return {};
  if (const Constant* constant = node.op->as<Constant>()) return constant->bytes;
  const Fill* fill = node.op->as<Fill>();
  if (fill == nullptr || !std::isfinite(fill->number)) return {};
  std::vector<std::byte> bytes(fill->type.bytes());
  with_type(fill->type.element, [&](auto* element) {
    using T = std::remove_pointer_t<decltype(element)>;
    const T number = static_cast<T>(fill->number);
    for (std::size_t at = 0; at < bytes.size(); at += sizeof(T)) {
      std::memcpy(bytes.data() + at, &number, sizeof(T));
    }
  });
  return bytes;
}

/// [node] Whether somebody outside of the step's kernels reads it, or waits for it.
std::vector<bool> read_outside(const ir::Graph& graph) {
  std::vector<bool> asked(graph.nodes().size());
  const auto ask = [&](ValueId id) {
    if (!id.present()) return;
    while (const auto view = view_of(graph, id)) id = view->of;
    asked[id.node] = true;
  };
  for (const ir::MinimizedLoss& objective : graph.objectives()) {
    ask(objective.loss);
    for (const ParameterGradient& gradient : objective.gradients) ask(gradient.value);
  }
  for (const Readable& readable : graph.readables()) ask(readable.value);
  for (const Assignment& assignment : graph.assignments()) ask(assignment.value);
  for (const Node& node : graph.nodes()) {
    ask(node.guard);
    for (const std::int32_t before : node.waits_for) ask({before, 0});
  }
  return asked;
}

}  // namespace

KeptConstants::KeptConstants(const ir::Graph& graph, ConstantMemory& memory) : graph_(graph) {
  const std::vector<bool> asked = read_outside(graph);
  for (std::size_t i = 0; i < asked.size(); ++i) {
    const Node& node = graph.nodes()[i];
    if (asked[i] || node.guard.present() || !node.waits_for.empty()) continue;
    const std::vector<std::byte> bytes = bytes_of(node);
    if (bytes.empty()) continue;
    kept_[static_cast<std::int32_t>(i)] = static_cast<const std::byte*>(memory.keep(bytes));
  }
}

const std::byte* KeptConstants::find(ValueId id) const {
  if (kept_.empty()) return nullptr;
  std::size_t offset = 0;
  while (const auto view = view_of(graph_, id)) {
    offset += view->offset;
    id = view->of;
  }
  const auto found = kept_.find(id.node);
  return found == kept_.end() ? nullptr : found->second + offset;
}

}  // namespace metronome::executor::program
