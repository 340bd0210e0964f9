#include <algorithm>
#include <cstdint>

#include "ops/convolution/convolution.h"
#include "ops/convolution/convolution_kernels.h"
#include "ops/convolution/sizes.h"
#include "ops/cuda/launch.h"
#include "ops/cuda/row_plan.h"

namespace metronome {
namespace {

cuda::ConvolutionPlan plan_of(const ConvolutionSizes& s) {
  cuda::ConvolutionPlan plan{.groups = s.groups, .in = s.in, .out = s.out};
  std::ranges::copy(s.input, plan.input);
  std::ranges::copy(s.kernel, plan.kernel);
  std::ranges::copy(s.output, plan.output);
  std::ranges::copy(s.stride, plan.stride);
  std::ranges::copy(s.dilation, plan.dilation);
  std::ranges::copy(s.low, plan.low);
  return plan;
}

template <class T>
const T* bias_of(const CudaLaunch& l) {
  return l.inputs.size() > 2 ? l.in<T>(2) : nullptr;
}

template <class T>
void record_forward(const ConvolutionSizes& sizes, const CudaLaunch& l) {
  const std::int64_t count = l.outputs[0].numel();
  l.commands.launch(cuda::Convolution<T>{l.in<T>(0), l.in<T>(1), bias_of<T>(l), l.out<T>(0),
                                         plan_of(sizes), count, l.watch},
                    spread(count, 128, l.device));
}

template <class T>
void record_transposed(const ConvolutionSizes& sizes, const CudaLaunch& l) {
  const std::int64_t count = l.outputs[0].numel();
  l.commands.launch(cuda::TransposedConvolution<T>{l.in<T>(0), l.in<T>(1), bias_of<T>(l),
                                                   l.out<T>(0), plan_of(sizes), count, l.watch},
                    spread(count, 128, l.device));
}

template <class T>
void record_weight_grad(const ConvolutionSizes& sizes, const CudaLaunch& l) {
  const std::int64_t count = l.outputs[0].numel();
  const int team = team_for(sizes.images * sizes.places());
  const int threads = block_for(count, team), teams = threads / team;
  l.commands.launch(
      cuda::ConvolutionWeightGrad<T>{l.in<T>(0), l.in<T>(1), l.out<T>(0), plan_of(sizes),
                                     sizes.images, count, team, l.watch},
      {.blocks = std::min(ceil_div(count, teams), kMostBlocks),
       .threads = threads,
       .shared_bytes = cuda::team_bytes(1, sizeof(T))});
}

}  // namespace

void record(const Convolution& op, const CudaLaunch& l) {
  if (l.outputs[0].numel() == 0) return;
  const ConvolutionSizes sizes =
      sizes_of(op.window, l.inputs[0].shape, l.inputs[1].shape, l.outputs[0].shape);
  l.outputs[0].element == f64 ? record_forward<double>(sizes, l) : record_forward<float>(sizes, l);
}

void record(const TransposedConvolution& op, const CudaLaunch& l) {
  if (l.outputs[0].numel() == 0) return;
  const ConvolutionSizes sizes =
      sizes_of(op.window, l.outputs[0].shape, l.inputs[1].shape, l.inputs[0].shape);
  l.outputs[0].element == f64 ? record_transposed<double>(sizes, l)
                              : record_transposed<float>(sizes, l);
}

void record(const ConvolutionWeightGrad& op, const CudaLaunch& l) {
  if (l.inputs[0].numel() == 0) return l.commands.zero(l.output_data[0], l.outputs[0].bytes());
  const ConvolutionSizes sizes =
      sizes_of(op.window, l.inputs[0].shape, l.outputs[0].shape, l.inputs[1].shape);
  l.outputs[0].element == f64 ? record_weight_grad<double>(sizes, l)
                              : record_weight_grad<float>(sizes, l);
}

}  // namespace metronome
