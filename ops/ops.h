// The one list of all ops. Every back end's table is made from it; a rule that an op lacks is a
// compile error there.
#pragma once

#include "graph/structural.h"
#include "ops/batch_norm.h"
#include "ops/cast.h"
#include "ops/chunk.h"
#include "ops/concat.h"
#include "ops/dropout.h"
#include "ops/elementwise.h"
#include "ops/embedding.h"
#include "ops/expand.h"
#include "ops/group.h"
#include "ops/guarded_rules.h"
#include "ops/layer_norm.h"
#include "ops/losses.h"
#include "ops/matmul.h"
#include "ops/optimizer_updates.h"
#include "ops/pick.h"
#include "ops/reduce.h"
#include "ops/reshape.h"
#include "ops/route.h"
#include "ops/slice.h"
#include "ops/softmax.h"
#include "ops/structural_rules.h"
#include "ops/transpose.h"

namespace metronome {

template <class... Ops>
struct OpList {};

/// Ops with kernels.
using KernelOps = OpList<
    // graph/structural.h
    Fill, Constant, Accumulate, Increment, Copy,
    // graph/guarded.h
    Guard, Merge, AccumulateIf,
    // elementwise
    Elementwise, Cast, Dropout,
    // linear algebra
    Matmul, Linear,
    // norms and softmax
    LayerNorm, LayerNormGrad, BatchNorm, BatchNormGrad, BatchNormEvaluate, Softmax, SoftmaxGrad,
    // reductions, shapes, indexing
    Reduce, ArgMax, Expand, Transpose, Slice, SliceGrad, Concat, Embedding, EmbeddingGrad, Pick,
    PickGrad, Route,
    // optimizers
    AdamUpdate, SgdUpdate>;

/// Of those, ops of one element each: CUDA runs one on its own as a group of one (ops/cuda/map.h).
using MapOps = OpList<Accumulate, Elementwise, Cast, Dropout, Expand>;

/// Several ops as one node, made by passes for targets that run them so.
using CompoundOps = OpList<Group, Batch>;

/// Ops that are views of their input: no kernel.
using ViewOps = OpList<StopGradient, Reshape>;

/// Ops that `lower` expands: no kernel.
using CompositeOps =
    OpList<Chunk, MseLoss, L1Loss, SmoothL1Loss, CrossEntropyLoss, BceWithLogitsLoss>;

}  // namespace metronome
