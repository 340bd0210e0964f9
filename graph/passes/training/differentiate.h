#pragma once

#include "graph/ir/graph.h"
#include "graph/ir/settings.h"

namespace metronome::passes {

/// Before: no composite without a vjp is left. After it the graph also computes the gradient of the
/// loss for every trainable parameter that the loss reaches (`ir::MinimizedLoss::gradients`) and
/// for every declared `gradient(value)`, the operand of the node that stands for it; gradients
/// carry the line of the node they belong to. Nodes made of gradients, or of the update, come last.
/// Unchanged where there is no loss or in evaluation.
ir::Graph differentiate(ir::Graph graph, const Settings& settings);

}  // namespace metronome::passes
