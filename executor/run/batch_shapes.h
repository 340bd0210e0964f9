// Several graphs of one model, each for other shapes of its inputs: whether they go together, and
// which of them a feed means.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "graph/ir/graph.h"

namespace metronome::executor {

struct DeclaredInput {
  std::string name;
  Type type;
  ValueId value;
  Line line;
};

/// In the order of declaration.
std::vector<DeclaredInput> inputs_of(const ir::Graph& graph);

/// Throws GraphError that names the first difference, with both lines, unless all graphs have
/// inputs and readables of equal names and element types, equal storages and optimizers, and no two
/// of them the same shapes of inputs.
void check_agreement(std::span<const ir::Graph* const> graphs);

/// The shapes of inputs that graphs were declared for, as far as they tell the graphs apart.
class BatchShapes {
 public:
  /// Graphs that agree.
  explicit BatchShapes(std::span<const ir::Graph* const> graphs);

  /// "x [256, 64], target [256, 64]": of the graph's inputs those that tell the graphs apart; empty
  /// if there is one graph.
  std::string describe(std::size_t graph) const;

  /// What was fed to one input.
  struct Fed {
    std::string name;
    Shape shape;
  };
  /// What to say if no graph takes all of these: the shapes that there are, and the nearest of
  /// them: the smallest that holds what was fed, else the one of least distance.
  std::string refusal(std::span<const Fed> fed) const;

 private:
  const Shape* find(std::size_t graph, const std::string& name) const;
  std::string nearest(std::span<const Fed> fed) const;

  std::vector<std::vector<DeclaredInput>> inputs_;  // [graph], those that tell graphs apart
};

}  // namespace metronome::executor
