// The graphs of evaluations: of some outputs alone, and with averages in the place of parameters.
#pragma once

#include <string>
#include <vector>

#include "graph/ir/graph.h"

namespace metronome::executor::compile {

/// The graph whose evaluation computes `outputs` alone, as far as it has them: other readables are
/// absent, and so is a loss that is none of them. It computes all if `outputs` is empty.
ir::Graph limit_outputs(const ir::Graph& graph, const std::vector<std::string>& outputs);

/// The averages that a graph keeps, by name, in the order of declaration.
std::vector<std::string> averages_in(const ir::Graph& graph);

/// The graph with the storages of `keeps`' averages of that name where it has the parameters that
/// they are of; a parameter without one stays. Nothing else changes: a plan of it touches other
/// memory.
ir::Graph with_averages(ir::Graph graph, const std::string& name, const ir::Graph& keeps);

}  // namespace metronome::executor::compile
