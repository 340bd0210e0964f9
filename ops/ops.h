// The one list of all ops. Every back end's table is made from it; a rule that an op lacks is a
// compile error there.
#pragma once

#include "graph/ir/structural.h"
#include "ops/attention/attention.h"
#include "ops/attention/flash_attention.h"
#include "ops/batch_norm/batch_norm.h"
#include "ops/cast/cast.h"
#include "ops/channels_last/channels_last_rules.h"
#include "ops/chunk/chunk.h"
#include "ops/concat/concat.h"
#include "ops/convolution/convolution.h"
#include "ops/cumsum/cumsum.h"
#include "ops/dropout/dropout.h"
#include "ops/elementwise/elementwise.h"
#include "ops/embedding/embedding.h"
#include "ops/expand/expand.h"
#include "ops/gather/gather.h"
#include "ops/group/group.h"
#include "ops/guarded/guarded_rules.h"
#include "ops/layer_norm/layer_norm.h"
#include "ops/matmul/matmul.h"
#include "ops/mean_losses/mean_losses.h"
#include "ops/optimizer_updates/optimizer_updates.h"
#include "ops/pad/pad.h"
#include "ops/pick/pick.h"
#include "ops/pool/avg_pool.h"
#include "ops/pool/max_pool.h"
#include "ops/random/random.h"
#include "ops/recurrent/recurrent.h"
#include "ops/recurrent/recurrent_scan.h"
#include "ops/reduce/reduce.h"
#include "ops/reshape/reshape.h"
#include "ops/rms_norm/rms_norm.h"
#include "ops/route/route.h"
#include "ops/row_updates/row_updates.h"
#include "ops/shuffle/shuffle.h"
#include "ops/slice/slice.h"
#include "ops/softmax/softmax.h"
#include "ops/sort/sort.h"
#include "ops/structural/structural_rules.h"
#include "ops/transpose/transpose.h"
#include "ops/upsample/upsample.h"

namespace metronome {

template <class... Ops>
struct OpList {};

/// Ops with kernels.
using KernelOps = OpList<
    // graph/ir/structural.h
    Fill, Constant, Accumulate, Increment, IsMultiple, IsFinite, MeanWeight, Copy, Pack, Relayout,
    // graph/ir/guarded.h
    Guard, Merge, AccumulateIf,
    // elementwise
    Elementwise, Cast, Dropout, Random, Shuffle,
    // linear algebra
    Matmul, Linear, Convolution, TransposedConvolution, ConvolutionWeightGrad,
    // recurrent layers
    RecurrentScan, RecurrentScanGrad,
    // norms and softmax
    LayerNorm, LayerNormGrad, RmsNorm, RmsNormGrad, BatchNorm, BatchNormGrad, BatchNormEvaluate,
    Softmax, SoftmaxGrad, PickedSoftmaxGrad,
    // reductions, shapes, indexing
    Reduce, ArgMax, Expand, Transpose, Slice, SliceGrad, Concat, Embedding, EmbeddingGrad, Pick,
    PickGrad, Gather, ScatterAdd, Cumsum, Sort, Route, Pad,
    // pooling, images of another size
    MaxPool, MaxPoolGrad, AvgPool, AvgPoolGrad, AdaptiveAvgPool, AdaptiveAvgPoolGrad, Upsample,
    UpsampleGrad,
    // optimizers
    AdamUpdate, AdamTableUpdate, SgdUpdate, AverageWeight, AverageUpdate, RunSum, IndexCopy>;

/// Ops with kernels on CPUs alone: `lower` expands them for other targets, and what their gradients
/// are made of is found nowhere else.
using CpuOps = OpList<FlashAttention, FlashAttentionGrad>;

/// Ops with kernels on devices alone: passes make them for those.
using DeviceOps = OpList<ChannelsLast>;

/// The kernel ops that map each element by itself: CUDA runs one of them as a group of one
/// (ops/group/group.h).
using MapOps = OpList<Accumulate, Elementwise, Cast, Dropout, Expand>;

/// Several ops as one node, made by passes for targets that run them so.
using CompoundOps = OpList<Group, Batch>;

/// Ops that are views of their input: no kernel.
using ViewOps = OpList<StopGradient, Unpack, Reshape>;

/// Ops that `lower` expands: no kernel.
using CompositeOps = OpList<Attention, Chunk, RecurrentSequence, MseLoss, L1Loss, SmoothL1Loss,
                            CrossEntropyLoss, BceWithLogitsLoss>;

}  // namespace metronome
