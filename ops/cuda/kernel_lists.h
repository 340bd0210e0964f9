// The kernels of all ops, as types: what .cu files compile for devices, and tests for the host.
#pragma once

#include "ops/batch_norm_kernels.h"
#include "ops/concat_kernels.h"
#include "ops/cuda/kernel.h"
#include "ops/embedding_kernels.h"
#include "ops/guarded_kernels.h"
#include "ops/layer_norm_kernels.h"
#include "ops/matmul_kernels.h"
#include "ops/optimizer_updates_kernels.h"
#include "ops/pick_kernels.h"
#include "ops/reduce_kernels.h"
#include "ops/route_kernels.h"
#include "ops/slice_kernels.h"
#include "ops/softmax_kernels.h"
#include "ops/structural_kernels.h"
#include "ops/transpose_kernels.h"

namespace metronome::cuda {

template <class... Lists>
struct Joined;
template <class... Kernels>
struct Joined<KernelList<Kernels...>> {
  using type = KernelList<Kernels...>;
};
template <class... First, class... Second, class... Rest>
struct Joined<KernelList<First...>, KernelList<Second...>, Rest...> {
  using type = typename Joined<KernelList<First..., Second...>, Rest...>::type;
};

using AllKernels =
    typename Joined<BatchNormKernels, ConcatKernels, EmbeddingKernels, GuardedKernels,
                    LayerNormKernels, MatmulKernels, OptimizerUpdatesKernels, PickKernels,
                    ReduceKernels, RouteKernels, SliceKernels, SoftmaxKernels, StructuralKernels,
                    TransposeKernels>::type;

}  // namespace metronome::cuda
