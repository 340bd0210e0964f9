// The declaration that a Graph owns. Internal to graph/builder.
#pragma once

#include <utility>
#include <vector>

#include "graph/builder/graph.h"
#include "graph/builder/objectives.h"
#include "graph/emit/emitter.h"
#include "graph/ir/graph.h"

namespace metronome {

struct Graph::Declaration {
  explicit Declaration(ir::Graph declared) : graph(std::move(declared)) {}

  ir::Graph graph;
  Emitter emitter{graph};
  std::vector<MinimizeCall> minimized = {};  ///< [objective]
};

}  // namespace metronome
