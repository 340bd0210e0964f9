#include <algorithm>
#include <cstddef>
#include <vector>

#include "ops/batch_norm/batch_norm.h"
#include "ops/batch_norm/batch_norm_kernels.h"
#include "ops/cuda/launch.h"
#include "ops/cuda/row_plan.h"

namespace metronome {
namespace {

using cuda::Index;

// Elements for each thread: fewer leave threads idle, more leave the device idle.
constexpr Index kEach = 8;

struct ChannelPlan {
  cuda::Channels channels;
  KernelShape shape;
};

// Channels are cut into slices where there are too few of them for the device.
ChannelPlan plan_channels(const Type& x) {
  ChannelPlan plan;
  cuda::Channels& e = plan.channels;
  e.images = x.shape[0];
  e.channels = x.shape[1];
  for (std::size_t d = 2; d < x.shape.size(); ++d) e.plane *= x.shape[d];
  plan.shape.blocks = 0;
  if (e.channels == 0) return plan;

  if (e.plane == 1) e.width = tile_for(1, e.channels, static_cast<Index>(size_of(x.element)));
  const Index tile = e.each() * e.width;
  plan.shape.threads = power_of_two(ceil_div(tile, kEach), 32, cuda::kMostThreads);
  const Index most = tile / (plan.shape.threads * kEach);
  if (most >= 2) {
    const Index slices = std::min(most, ceil_div(2 * kFullDevice, e.tiles()));
    e.slice = ceil_div(e.each(), slices);
    e.slices = ceil_div(e.each(), e.slice);
  } else {
    e.slice = e.each();
  }
  plan.shape.blocks = std::min(e.tiles() * e.slices, kMostBlocks);
  plan.shape.shared_bytes =
      cuda::tile_bytes(plan.shape.threads, e.width, cuda::kBatchNormSums, sizeof(double));
  return plan;
}

std::size_t scratch_for(const Type& x) {
  const cuda::Channels e = plan_channels(x).channels;
  if (e.slices <= 1) return 0;
  return static_cast<std::size_t>(cuda::kBatchNormSums * e.slices * e.channels) * sizeof(double);
}

template <class T>
void record_forward(const BatchNorm& op, const CudaLaunch& l) {
  const auto [channels, shape] = plan_channels(l.inputs[0]);
  const cuda::BatchNormTensors<T> tensors{
      l.in<T>(0),  l.in<T>(1),  l.in<T>(2),  l.in<T>(3), l.in<T>(4), l.out<T>(0), l.out<T>(1),
      l.out<T>(2), l.out<T>(3), l.out<T>(4), l.watch,    op.eps,     op.momentum};
  if (channels.slices == 1) {
    l.commands.launch(cuda::BatchNormForward<T>{tensors, channels}, shape);
    return;
  }
  const cuda::ChannelPartials partials{static_cast<double*>(l.scratch)};
  l.commands.launch(cuda::BatchNormStatistics<T>{tensors, channels, partials}, shape);
  l.commands.launch(cuda::BatchNormApply<T>{tensors, channels, partials}, shape);
}

template <class T>
void record_batch_norm_backward(const CudaLaunch& l) {
  const auto [channels, shape] = plan_channels(l.inputs[1]);
  const cuda::BatchNormGradTensors<T> tensors{l.in<T>(0),  l.in<T>(1),  l.in<T>(2),
                                              l.in<T>(3),  l.in<T>(4),  l.out<T>(0),
                                              l.out<T>(1), l.out<T>(2), l.watch};
  if (channels.slices == 1) {
    l.commands.launch(cuda::BatchNormBackward<T>{tensors, channels}, shape);
    return;
  }
  const cuda::ChannelPartials partials{static_cast<double*>(l.scratch)};
  l.commands.launch(cuda::BatchNormGradSums<T>{tensors, channels, partials}, shape);
  l.commands.launch(cuda::BatchNormGradApply<T>{tensors, channels, partials}, shape);
}

template <class T>
void record_evaluate(const BatchNormEvaluate& op, const CudaLaunch& l) {
  if (l.inputs[0].numel() == 0) return;
  const auto [channels, shape] = plan_channels(l.inputs[0]);
  l.commands.launch(
      cuda::BatchNormFixed<T>{l.in<T>(0), l.in<T>(1), l.in<T>(2), l.in<T>(3), l.in<T>(4),
                              l.out<T>(0), l.watch, channels, static_cast<T>(op.eps)},
      shape);
}

}  // namespace

std::vector<Candidate> candidates(const BatchNorm&, const CudaQuery& q) {
  return {{.scratch_bytes = scratch_for(q.inputs[0])}};
}

void record(const BatchNorm& op, const CudaLaunch& l) {
  l.inputs[0].element == f64 ? record_forward<double>(op, l) : record_forward<float>(op, l);
}

std::vector<Candidate> candidates(const BatchNormGrad&, const CudaQuery& q) {
  return {{.scratch_bytes = scratch_for(q.inputs[1])}};
}

void record(const BatchNormGrad&, const CudaLaunch& l) {
  l.inputs[0].element == f64 ? record_batch_norm_backward<double>(l)
                             : record_batch_norm_backward<float>(l);
}

void record(const BatchNormEvaluate& op, const CudaLaunch& l) {
  l.inputs[0].element == f64 ? record_evaluate<double>(op, l) : record_evaluate<float>(op, l);
}

}  // namespace metronome
