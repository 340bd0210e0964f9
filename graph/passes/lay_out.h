#pragma once

#include "graph/ir/graph.h"
#include "graph/ir/settings.h"

namespace metronome::passes {

/// Stores tensors as ops want them (`LayoutSettings::wants`). Before: all are plain. After it a
/// tensor in a layout is the plain tensor that stores it, ops over it are ops over that
/// (`LayoutRule`), and `relayout` nodes stand where one layout meets another:
///
///   x f32[8, 20]                    x f32[8, 20]
///   a = gelu(x)   wants 1/16        x' = relayout(x)   f32[8, 2, 16]     a copy
///   b = tanh(a)                     a = gelu(x'), b = tanh(a)            both f32[8, 2, 16]
///   y = matmul(b, w)                b' = relayout(b), y = matmul(b', w)  a copy
///
/// An op that wants nothing takes the layout of its operands where it can and at least half of
/// their bytes are stored so. A parameter that an op wants in a layout is kept in it from step to
/// step, with its moments and averages, so that no step copies it: in the plan that is made first;
/// later ones of the executable keep to that (`Settings::kept`). Readable values are plain.
ir::Graph lay_out(ir::Graph graph, const Settings& settings);

}  // namespace metronome::passes
