#pragma once

#include "graph/ir/graph.h"
#include "graph/ir/settings.h"

namespace metronome::passes {

/// Before: every node reaches an output (`prune`), as each reader counts, needed or not.
///
/// If a target could fuse a part of an op with one of the op's readers, the op becomes the ops of
/// its `loosen` rule: a linear layer's bias joins the activation behind it, and the matrix product
/// stays. The ops of the rule all wait for what the op waited for; nodes that waited for it wait
/// for the one that makes its result.
///
/// A map of which only slices are read, each element at most once, becomes maps of its operands'
/// slices, which can be read where they lie:
///   slice(a + b) {1, 0:4}, slice(a + b) {1, 4:8}
///   slice(a) {1, 0:4} + slice(b) {1, 0:4}, slice(a) {1, 4:8} + slice(b) {1, 4:8}
ir::Graph loosen(ir::Graph graph, const Settings& settings);

}  // namespace metronome::passes
