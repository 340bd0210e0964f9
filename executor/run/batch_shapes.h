// Several graphs of one model, each for other shapes of its inputs: whether they go together, and
// which of them a feed means.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "graph/ir/graph.h"
#include "graph/ir/mode.h"

namespace metronome::executor {

struct DeclaredInput {
  std::string name;
  Type type;
  ValueId value;
  Line line;
};

/// In the order of declaration.
std::vector<DeclaredInput> inputs_of(const ir::Graph& graph);
/// "x [8, 6], t [8, 3]", or "no inputs".
std::string list_inputs(std::span<const DeclaredInput> inputs);

/// A graph, and the modes for which it is compiled.
struct GraphInModes {
  const ir::Graph* graph = nullptr;
  std::vector<Mode> modes;

  bool in(Mode mode) const;
};

/// Throws GraphError that names the first difference, with both lines, unless
/// - inputs, and values to be read, of one name have one element type;
/// - parameters and buffers of one path are equal, and states but for their shapes;
/// - what only evaluates has no parameter that could be trained and is not, where others train;
/// - those that train have inputs, values to be read, storages and optimizers that are all equal;
/// - no two graphs of one mode have the same name and inputs.
void check_agreement(std::span<const GraphInModes> graphs);

/// The shapes of inputs that graphs were declared for, as far as they tell the graphs apart.
class BatchShapes {
 public:
  /// Graphs that agree.
  explicit BatchShapes(std::span<const ir::Graph* const> graphs);

  /// "x [256, 64], target [256, 64]": of the graph's inputs those that tell the graphs apart; empty
  /// if there are none, or one graph.
  std::string describe(std::size_t graph) const;

  /// The shape that was fed to one input.
  struct FeedShape {
    std::string name;
    Shape shape;
  };
  /// Returns the error text for feeds that none of `graphs` takes: the shapes that the graphs have,
  /// and the nearest of them, which is the smallest that holds the fed shapes, else the one of
  /// least distance.
  std::string refusal(std::span<const FeedShape> fed, std::span<const std::size_t> graphs) const;

 private:
  const Shape* find(std::size_t graph, const std::string& name) const;
  std::string nearest(std::span<const FeedShape> fed, std::span<const std::size_t> graphs) const;

  std::vector<std::vector<DeclaredInput>> inputs_;  // [graph], those that tell graphs apart
};

}  // namespace metronome::executor
