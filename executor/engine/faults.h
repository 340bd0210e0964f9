// Faults that steps met and went on with, in words; and the rule that finds the maker of a number
// that is not finite.
//
// A fault has a place: nodes are counted through the graphs of an executable's plans, one plan
// after the other, and each has a place of either kind. The least place of a step is kept, so that
// the message names the node that was declared first, in whatever order a target runs them; and it
// tells of the first step that met any fault.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "executor/engine/memory.h"
#include "executor/engine/plan.h"
#include "graph/rules/indexing.h"
#include "graph/rules/limits.h"
#include "ops/rules/fault.h"

namespace metronome::executor {

enum class FaultKind : std::uint8_t {
  /// An index of something that is not there (IndexingRule), which is its value; or a number that
  /// an op refuses (LimitsRule), of which the value is the order (ops/kernel/kernel.h).
  lookup,
  number,  ///< a number that is not finite; its value says how (`blame`)
};
constexpr int kFaultKinds = 2;
/// The place of a fault of node number `node`, counted through all plans' graphs.
constexpr int fault_place(std::size_t node, FaultKind kind) {
  return kFaultKinds * static_cast<int>(node) + static_cast<int>(kind);
}

/// "target 10 is out of range 0 to 9 (-100 is ignored)".
std::string describe(const Indexing& lookup, std::int64_t index);
/// `pick "loss/pick" (train.cc:12): target 10 is out of range 0 to 9`.
std::string describe(const Node& node, const Indexing& lookup, std::int64_t index);
/// `random {gumbel of logits} "categorical/action/random" (train.cc:12): largest logit -inf is not
/// finite`.
std::string describe(const Node& node, const NumberLimits& limits, std::int64_t order);
/// A fault in words: a lookup as above, or `log "log" (train.cc:9): made a NaN`. Plans in the
/// order in which their places count.
std::string describe(const FaultSlot::Fault& fault, std::span<const Plan* const> plans,
                     const Memory& memory);
/// Nodes of all plans' graphs.
std::size_t node_count(std::span<const Plan> plans);
/// "made a NaN", "made an infinity", "read a NaN from input "x"".
std::string describe_number(std::int64_t value, const Memory& memory);

// ---- Who made a number that is not finite ----------------------------------------------------
//
// A node makes a NaN where its results hold one and what it reads holds none. It makes an infinity
// where its results hold one and what it reads holds neither: masks of -inf pass. Numbers from
// outside of the graph (inputs, storages, constants) have no maker: a NaN there is the fault of the
// first node that reads it, an infinity is nobody's fault. Ops that only move numbers (Op::moves)
// are never at fault: a node that reads them counts as reading what they moved.

/// Numbers from outside: two kinds of constants, then inputs and storages as `Memory` counts them.
constexpr int kNanConstant = 0, kInfiniteConstant = 1, kFirstInput = 2;
int source_of_input(std::size_t input);
int source_of_storage(std::size_t storage, const Memory& memory);
std::size_t source_count(const Memory& memory);

/// [node]: whose floating numbers it reads: nodes, and -1 - s for source s.
std::vector<std::vector<int>> makers_of(const ir::Graph& graph, const Memory& memory);
/// True for a node that may make a number that is not finite.
bool makes_numbers(const ir::Graph& graph, std::int32_t node);
/// The makers of one value: itself where its node makes numbers.
std::vector<int> makers_of(const ir::Graph& graph, ValueId value, const Memory& memory);

/// Tells whether a tensor holds a NaN, and whether an infinity.
struct NonFiniteKinds {
  bool nan = false;
  bool infinity = false;
  bool operator==(const NonFiniteKinds&) const = default;
};
/// Looks through host memory; finds nothing for types that are not floating.
NonFiniteKinds non_finite_in(const void* data, const Type& type);

}  // namespace metronome::executor
