#include <algorithm>
#include <cstddef>
#include <initializer_list>
#include <type_traits>
#include <vector>

#include "ops/batch_norm/batch_norm.h"
#include "ops/batch_norm/batch_norm_kernels.h"
#include "ops/cuda/launch.h"
#include "ops/cuda/row_plan.h"
#include "ops/cuda/units.h"

namespace metronome {
namespace {

using cuda::Index;

// Elements for each thread: fewer leave threads idle, more leave the device idle.
constexpr Index kEach = 8;

// Rows of [N, C] that a slice of channels may have: those of 1024 threads, 32 channels wide.
constexpr Index kRowsOfSlice = 32 * kEach;

struct ChannelPlan {
  cuda::Channels channels;
  KernelShape shape;
};

// The largest pack: slices are whole ones.
constexpr Index kMostPacked = 4;

// Channels are cut into slices where there are too few of them for the device: into as many as run
// at once, but two at least. Each place is an image of one element if channels lie last.
ChannelPlan plan_channels(const Type& x, bool channels_last) {
  ChannelPlan plan;
  cuda::Channels& e = plan.channels;
  e.images = x.shape[0];
  e.channels = x.shape[1];
  Index& places = channels_last ? e.images : e.plane;
  for (std::size_t d = 2; d < x.shape.size(); ++d) places *= x.shape[d];
  plan.shape.blocks = 0;
  if (e.channels == 0) return plan;

  if (e.plane == 1) {
    // Slices fill the device where there are many rows, so that tiles need not be narrow for it.
    const Index parts = std::max<Index>(e.images / kRowsOfSlice, 1);
    e.width = tile_for(parts, e.channels, static_cast<Index>(size_of(x.element)));
  }
  const Index tile = e.each() * e.width;
  plan.shape.threads = power_of_two(ceil_div(tile, kEach), 32, cuda::kMostThreads);
  const Index most = tile / (plan.shape.threads * kEach);
  if (most >= 2) {
    const Index tiles = e.tiles(), together = 2 * kFullDevice;
    const Index wanted = tiles < together ? std::max<Index>(together / tiles, 2) : 1;
    e.slice = ceil_div(ceil_div(e.each(), std::min(most, wanted)), kMostPacked) * kMostPacked;
    e.slices = ceil_div(e.each(), e.slice);
  } else {
    e.slice = e.each();
  }
  plan.shape.blocks = std::min(e.tiles() * e.slices, kMostBlocks);
  plan.shape.shared_bytes =
      cuda::tile_bytes(plan.shape.threads, e.width, cuda::kBatchNormSums, sizeof(double));
  return plan;
}

/// f(null pointer of a pack's type): as many elements as 16 bytes hold, where they divide planes.
template <class T, class F>
void with_pack(const cuda::Channels& channels, std::initializer_list<const void*> tensors, F f) {
  constexpr int kPack = 16 / sizeof(T);
  if (channels.plane % kPack != 0) return f(static_cast<cuda::Pack<T, 1>*>(nullptr));
  const auto aligned = [](const void* p) { return address(p) % 16 == 0; };
  if (std::ranges::all_of(tensors, aligned)) return f(static_cast<cuda::Pack<T, kPack>*>(nullptr));
  f(static_cast<cuda::LoosePack<T, kPack>*>(nullptr));
}

/// The channels counted in packs.
cuda::Channels in_packs(const ChannelPlan& plan, std::size_t pack) {
  cuda::Channels e = plan.channels;
  e.plane /= static_cast<Index>(pack);
  e.slice = ceil_div(e.slice, static_cast<Index>(pack));
  const Index plane = std::max<Index>(e.plane, 1);  // of no elements as well
  e.strided = cuda::make_strided(plan.shape.threads / e.width, plane, e.channels * plane, 1);
  return e;
}

std::size_t scratch_for(const Type& x, bool channels_last) {
  const cuda::Channels e = plan_channels(x, channels_last).channels;
  if (e.slices <= 1) return 0;
  return static_cast<std::size_t>(cuda::kBatchNormSums * e.slices * e.channels) * sizeof(double);
}

/// Launches one kernel, or two where channels are cut into slices.
template <class Tensors>
void launch_parts(const CudaLaunch& l, const Tensors& tensors, const cuda::Channels& channels,
                  const KernelShape& shape) {
  using cuda::BatchNormKernel, cuda::BatchNormPart;
  if (channels.slices == 1) {
    l.commands.launch(BatchNormKernel<Tensors, BatchNormPart::whole>{tensors, channels}, shape);
    return;
  }
  const cuda::ChannelPartials partials{static_cast<double*>(l.scratch)};
  l.commands.launch(BatchNormKernel<Tensors, BatchNormPart::sums>{tensors, channels, partials},
                    shape);
  l.commands.launch(BatchNormKernel<Tensors, BatchNormPart::apply>{tensors, channels, partials},
                    shape);
}

template <class T>
void record_forward(const BatchNorm& op, const CudaLaunch& l) {
  const ChannelPlan plan = plan_channels(l.inputs[0], l.channels_last);
  if (plan.shape.blocks == 0) return;
  with_pack<T>(plan.channels, {l.input_data[0], l.output_data[0]}, [&]<class Elements>(Elements*) {
    const cuda::Channels channels = in_packs(plan, sizeof(Elements) / sizeof(T));
    const cuda::BatchNormTensors<T, Elements> tensors{
        l.in<Elements>(0), l.in<T>(1),  l.in<T>(2),  l.in<T>(3),  l.in<T>(4), l.out<Elements>(0),
        l.out<T>(1),       l.out<T>(2), l.out<T>(3), l.out<T>(4), l.watch,    op.eps,
        op.momentum};
    launch_parts(l, tensors, channels, plan.shape);
  });
}

template <class T>
void record_batch_norm_backward(const CudaLaunch& l) {
  const ChannelPlan plan = plan_channels(l.inputs[1], l.channels_last);
  if (plan.shape.blocks == 0) return;
  const auto of_pack = [&]<class Elements>(Elements*) {
    const cuda::Channels channels = in_packs(plan, sizeof(Elements) / sizeof(T));
    const cuda::BatchNormGradTensors<T, Elements> tensors{
        l.in<Elements>(0),  l.in<Elements>(1), l.in<T>(2),  l.in<T>(3), l.in<T>(4),
        l.out<Elements>(0), l.out<T>(1),       l.out<T>(2), l.watch};
    launch_parts(l, tensors, channels, plan.shape);
  };
  with_pack<T>(plan.channels, {l.input_data[0], l.input_data[1], l.output_data[0]}, of_pack);
}

template <class T>
void record_evaluate(const BatchNormEvaluate& op, const CudaLaunch& l) {
  if (l.inputs[0].numel() == 0) return;
  const ChannelPlan plan = plan_channels(l.inputs[0], l.channels_last);
  with_pack<T>(plan.channels, {l.input_data[0], l.output_data[0]}, [&]<class Elements>(Elements*) {
    const cuda::Channels channels = in_packs(plan, sizeof(Elements) / sizeof(T));
    l.commands.launch(cuda::BatchNormFixed<T, Elements>{l.in<Elements>(0), l.in<T>(1), l.in<T>(2),
                                                        l.in<T>(3), l.in<T>(4), l.out<Elements>(0),
                                                        l.watch, channels, static_cast<T>(op.eps)},
                      plan.shape);
  });
}

}  // namespace

std::vector<Candidate> candidates(const BatchNorm&, const CudaQuery& q) {
  return {{.scratch_bytes = scratch_for(q.inputs[0], q.channels_last)}};
}

void record(const BatchNorm& op, const CudaLaunch& l) {
  with_floating(l.inputs[0].element, [&](auto x) { record_forward<decltype(x)>(op, l); });
}

std::vector<Candidate> candidates(const BatchNormGrad&, const CudaQuery& q) {
  return {{.scratch_bytes = scratch_for(q.inputs[1], q.channels_last)}};
}

void record(const BatchNormGrad&, const CudaLaunch& l) {
  with_floating(l.inputs[0].element, [&](auto x) { record_batch_norm_backward<decltype(x)>(l); });
}

void record(const BatchNormEvaluate& op, const CudaLaunch& l) {
  with_floating(l.inputs[0].element, [&](auto x) { record_evaluate<decltype(x)>(op, l); });
}

}  // namespace metronome
