// A graph after a pass.
#pragma once

#include <string>

#include "graph/check/verify.h"
#include "graph/ir/graph.h"
#include "graph/ir/settings.h"

namespace metronome::testing {

using Pass = ir::Graph (*)(ir::Graph, const Settings&);

/// The graph after a pass, which is valid.
inline ir::Graph graph_after(Pass pass, const ir::Graph& graph, const Settings& settings = {}) {
  ir::Graph result = pass(graph, settings);
  check::verify(result, "under test");
  return result;
}
/// The graph after a pass, as text.
inline std::string after(Pass pass, const ir::Graph& graph, const Settings& settings = {}) {
  return graph_after(pass, graph, settings).print();
}

}  // namespace metronome::testing
