#pragma once

#include "graph/ir/graph.h"
#include "graph/ir/settings.h"

namespace metronome::passes {

/// Before: objectives have their gradients. After it, where `Settings::packs_gradients` says so, an
/// objective's gradients of one element type are views of one vector:
///
///   dw f32[3, 5]  dv f32[16]      g = pack(dw, dv), dw' = unpack(g, 0), dv' = unpack(g, 16)
///
/// The planner makes a gradient in its place of the vector where nothing else keeps it elsewhere,
/// so that nothing is copied. Unchanged in evaluation.
///
/// With `Settings::averages` the loss joins them, vectors are averaged before they are unpacked,
/// and what reads the loss or a parameter's gradient reads the means. There may be several
/// ("buckets"), of gradients in the order in which the reverse walk makes them; each is on its way
/// while the next one is made:
///
///   b0 = begin(pack(dw, dv)), b1 = begin(pack(du)), m0 = finish(b0), ..., m1 = finish(b1)
ir::Graph pack_gradients(ir::Graph graph, const Settings& settings);

}  // namespace metronome::passes
