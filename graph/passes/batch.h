#pragma once

#include "graph/ir/graph.h"
#include "graph/ir/settings.h"

namespace metronome::passes {

/// Puts independent nodes of one op (equal attributes and guards; its `batches` rule) into
/// `settings.buckets` `Batch` nodes of about equal bytes, in the order in which their operands
/// become ready. 0: leaves them as they are. Few buckets are few launches; more let gradients die
/// early. A batch waits for what its members waited for, and who waited for a member waits for the
/// batch; no two nodes of which one comes after the other, by reading or waiting, join.
ir::Graph batch(ir::Graph graph, const Settings& settings);

}  // namespace metronome::passes
