#pragma once

#include "graph/ir/graph.h"
#include "graph/ir/settings.h"

namespace metronome::passes {

/// Before: every other pass has run, as none looks into a group. After it values are the same to
/// the bit.
///
/// Puts ops that `settings.fuse.takes` and that have a `fusion` rule into `Group` nodes, so that
/// what one makes and the next reads stays in registers, and ranges of tensors are read and written
/// where they lie. A group has one domain, one guard and at most one reduction; no value leaves a
/// group and comes back into it, and none of its nodes waits for another of them, or for what
/// follows one. A group waits for what its nodes waited for, and who waited for one of them waits
/// for the group. Groups of one are left as they are. Does nothing where nodes are to stay apart
/// (`settings.fuse.apart`).
ir::Graph fuse(ir::Graph graph, const Settings& settings);

}  // namespace metronome::passes
