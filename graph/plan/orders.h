// Orders of a graph's running nodes, each found greedily by one idea.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "graph/ir/graph.h"
#include "graph/plan/precedence.h"
#include "graph/plan/uses.h"

namespace metronome::plan {

/// The data from which an order is found.
struct OrderProblem {
  const Uses& uses;
  const Precedence& precedence;
  std::vector<std::size_t> held;  ///< [value] aligned bytes that a root holds in the arena, or 0
  std::vector<bool> overwrites;   ///< [node] makes an assignment in place
};
OrderProblem order_problem(const ir::Graph& graph, const Uses& uses, const Precedence& precedence,
                           std::size_t alignment);

/// As declared, as far as storage made in place allows.
std::vector<std::int32_t> declared_order(const OrderProblem& problem);
/// As declared, but nodes that make an assignment in place run as soon as they can, and so does
/// what is no larger than `alignment`: updates wait for little scalars.
std::vector<std::int32_t> early_updates_order(const OrderProblem& problem, std::size_t alignment);
/// From the first node on: each time the ready node that adds the fewest bytes, less those that die
/// with it.
std::vector<std::int32_t> forward_greedy_order(const OrderProblem& problem);
/// From the last node back: the node that adds the fewest bytes before it.
std::vector<std::int32_t> backward_greedy_order(const OrderProblem& problem);
/// Each node just after what it needs, for the last nodes in declared order or from the end.
enum class SinkOrder : std::uint8_t { declared, reversed };
std::vector<std::int32_t> depth_first_order(const OrderProblem& problem, SinkOrder sinks);

/// The order, but nodes of one guard run together where they can: each region that is entered costs
/// a device two nodes of its graph. The order stays as it is if nothing is guarded.
std::vector<std::int32_t> regions_together(const OrderProblem& problem, const ir::Graph& graph,
                                           const std::vector<std::int32_t>& order);

/// The order, but what goes on beside the step (`PromptRule`) begins as early as it can, and with
/// it whatever only moves its operands together. The order stays as it is if nothing does.
std::vector<std::int32_t> begin_prompt_early(const OrderProblem& problem, const ir::Graph& graph,
                                             const std::vector<std::int32_t>& order);

/// An order of the same running nodes whose fullest moment holds fewer bytes, found from this one
/// by moving nodes behind or before that moment, with what needs them or what they need; or the
/// order itself. Values of branches that exclude each other count as if they were held together.
/// `work` bounds the nodes and values that are looked at, and is what is left of it afterwards; too
/// little for some moves: the order stays. Deterministic.
std::vector<std::int32_t> lower_peak(const OrderProblem& problem, const ir::Graph& graph,
                                     std::vector<std::int32_t> order, std::size_t& work);

/// The order with nodes that do not run put in as early as they can be.
std::vector<std::int32_t> with_still_nodes(const ir::Graph& graph, const Uses& uses,
                                           const std::vector<std::int32_t>& running);

}  // namespace metronome::plan
