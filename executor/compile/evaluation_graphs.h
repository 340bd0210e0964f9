// The graphs of evaluations: of some outputs alone, and with averages in the place of parameters.
#pragma once

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "graph/ir/graph.h"

namespace metronome::executor::compile {

/// The graph whose evaluation computes `outputs` alone, as far as it has them: other readables are
/// absent, and so is a loss that is none of them. It computes all if `outputs` is empty.
ir::Graph limit_outputs(const ir::Graph& graph, const std::vector<std::string>& outputs);

/// The storages of averages that `graphs` have: name, then path. Names come in their order.
using AveragePaths = std::vector<std::pair<std::string, std::set<std::string>>>;
void add_averages(const ir::Graph& graph, AveragePaths& averages);

/// The graph with the averages of that name where it has the parameters that they are of; a
/// parameter without one stays. Nothing else changes: a plan of it touches other memory.
ir::Graph with_averages(ir::Graph graph, const std::string& name,
                        const std::set<std::string>& paths);

}  // namespace metronome::executor::compile
