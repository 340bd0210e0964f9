// The graphs that were compiled together, and their plans, as tables. Internal to executor/.
//
//   train      x [256, 64], t [256, 64]    inputs 0 and 1
//   sample     x [1, 64], noise [1, 8]     inputs 0 and 2: a name has one number in all graphs
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "executor/engine/engine.h"
#include "executor/engine/memory.h"
#include "executor/engine/plan.h"
#include "executor/run/batch_shapes.h"
#include "executor/run/executable.h"

namespace metronome::executor {

/// Hashes names, so that one is looked up without a string being made.
struct NameHash {
  using is_transparent = void;
  std::size_t operator()(std::string_view name) const {
    return std::hash<std::string_view>()(name);
  }
};

/// The kind of a step.
struct StepKind {
  Mode mode;
  std::size_t average = 0;  ///< `DeclaredGraphs::average_of`: stands in the place of the parameters

  std::size_t index() const { return average * kModes + static_cast<std::size_t>(mode); }
};

/// One of the graphs, each for batch shapes or modes of its own.
struct DeclaredGraph {
  ir::Graph graph;                                   ///< the user's graph may be gone
  std::shared_ptr<const GraphIdentity> declared_by;  ///< tells its values from another graph's
  std::vector<std::int32_t> input_at;                ///< [node]: the input that it is, or -1
  std::vector<std::size_t> inputs;     ///< [input]: its memory, among those of `Memory`, or kNone
  std::vector<std::size_t> readables;  ///< [readable]: its number in this graph, or kNone
  std::vector<PlanId> plans;           ///< [kind]; absent if it was not compiled

  PlanId plan(StepKind kind) const { return plans[kind.index()]; }
};

/// The inputs and readables of a plan.
struct PlanInterface {
  Mode mode;
  std::size_t graph;            ///< of which declared graph it is
  std::vector<bool> inputs;     ///< it reads this input
  std::vector<bool> readables;  ///< it computes this readable
};

/// An input of one of the graphs.
struct InputPlace {
  std::size_t graph;
  std::size_t input;
};

/// The tables that say which input, readable, average and plan a name, a value or a choice means.
/// No step changes them; all other parts of an executable ask them.
class DeclaredGraphs {
 public:
  static constexpr std::size_t kNone = static_cast<std::size_t>(-1);

  /// `plans` are of these graphs, which `shapes` tells apart; `memory` has their inputs.
  DeclaredGraphs(std::span<const Graph* const> graphs, BatchShapes shapes,
                 std::span<const Plan> plans, const Memory& memory);

  std::size_t size() const { return graphs_.size(); }
  const DeclaredGraph& operator[](std::size_t graph) const { return graphs_[graph]; }
  const ir::Graph& first() const { return graphs_[0].graph; }
  /// How messages begin: "graph "net"".
  std::string prefix() const;
  const BatchShapes& shapes() const { return shapes_; }
  /// True if a graph reads its seed.
  bool draw() const;

  /// [input], [readable]: names.
  const std::vector<std::string>& inputs() const { return inputs_; }
  const std::vector<std::string>& readables() const { return readables_; }
  /// [kind]: how many kinds of steps there are.
  std::size_t kinds() const { return averages_.size() * kModes; }

  /// Each throws RunError, naming what there is, where nothing matches.
  InputPlace input_of(const Value& value) const;
  std::size_t input_of(std::string_view name) const;
  std::size_t readable_of(const Value& value) const;
  std::size_t readable_of(std::string_view name) const;
  std::size_t average_of(std::string_view name) const;

  bool has(InputPlace place) const { return memory_of(place) != kNone; }
  /// The input's memory, among those of `Memory`, or kNone.
  std::size_t memory_of(InputPlace place) const { return graphs_[place.graph].inputs[place.input]; }
  /// ""x", "t"", or "none".
  std::string input_names() const;

  /// [PlanId]
  const std::vector<PlanInterface>& plans() const { return plans_; }
  const PlanInterface& plan(PlanId plan) const { return plans_[plan.index]; }
  const ir::Graph& graph_of(PlanId plan) const { return graphs_[this->plan(plan).graph].graph; }
  /// A readable in the graph of a plan.
  std::size_t readable_in_graph(PlanId plan, std::size_t readable) const {
    return graphs_[this->plan(plan).graph].readables[readable];
  }
  /// A gradient, or a number of the update.
  bool is_of_training(std::size_t readable) const;

  /// Throws RunError for a kind of steps that no graph was compiled to.
  void require_compiled(StepKind kind) const;
  /// Throws RunError for a choice that is no graph of this executable, or none of this kind.
  void require_choice(StepKind kind, const GraphChoice& choice) const;
  /// True for a graph that has a plan of this kind, and may be the one chosen.
  bool may_run(StepKind kind, const GraphChoice& choice, std::size_t graph) const;
  /// All of these.
  std::vector<std::size_t> graphs_compiled_to(StepKind kind, const GraphChoice& choice) const;

 private:
  DeclaredGraph keep_graph(const Graph& declared);
  PlanInterface interface_of(const Plan& plan) const;
  bool may_be(const GraphChoice& choice, std::size_t graph) const;
  /// True for a value of one of the graphs that were compiled.
  bool is_own(const Value& value) const;
  /// For a message on a value that is not there: if the graph has no loss, it says so.
  std::string_view no_loss() const;
  std::string readable_names() const;

  std::vector<DeclaredGraph> graphs_;
  std::vector<std::string> inputs_;
  std::vector<std::string> readables_;
  std::vector<std::string> averages_;  ///< by name; the first, "", is none
  std::unordered_map<std::string, std::size_t, NameHash, std::equal_to<>> input_named_;
  std::vector<PlanInterface> plans_;
  BatchShapes shapes_;
};

/// "a", "b", each in quotes, or "none".
std::string list_names(std::span<const std::string> names);

}  // namespace metronome::executor
