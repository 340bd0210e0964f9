#include <cstddef>
#include <span>
#include <vector>

#include "ops/cuda/launch.h"
#include "ops/cuda/norm_plan.h"
#include "ops/layer_norm/layer_norm.h"
#include "ops/layer_norm/layer_norm_kernels.h"

namespace metronome {
namespace {

using cuda::Index;

template <class T>
void record_forward(const LayerNorm& op, const CudaLaunch& l) {
  const NormPlan plan = norm_plan<T>(l.inputs[0], cuda::LayerNormForward<T>::kSums);
  l.commands.launch(cuda::LayerNormForward<T>{{l.in<T>(0)},
                                              {l.out<T>(0), l.watch},
                                              l.in<T>(1),
                                              l.in<T>(2),
                                              l.out<T>(1),
                                              l.out<T>(2),
                                              plan.rows,
                                              static_cast<T>(op.eps)},
                    plan.shape, fixed_text(plan.rows));
}

template <class T>
NormGradPlan plan_layer_norm_backward(const Type& x) {
  using Kernel = cuda::LayerNormBackward<T>;
  return norm_grad_plan<Kernel, T>(x, Kernel::kSums, 2);
}

template <class T>
void record_layer_norm_backward(const CudaLaunch& l) {
  const NormGradPlan plan = plan_layer_norm_backward<T>(l.inputs[1]);
  const Index width = plan.rows.width, blocks = plan.shape.blocks;
  if (blocks == 0) {
    l.commands.zero(l.out<T>(1), static_cast<std::size_t>(width) * sizeof(T));
    l.commands.zero(l.out<T>(2), static_cast<std::size_t>(width) * sizeof(T));
    return;
  }
  T* const partials = static_cast<T*>(l.scratch);
  l.commands.launch(cuda::LayerNormBackward<T>{{l.in<T>(0)},
                                               {l.in<T>(1)},
                                               {l.out<T>(0), l.watch},
                                               l.in<T>(2),
                                               l.in<T>(3),
                                               l.in<T>(4),
                                               blocks == 1 ? l.out<T>(1) : partials,
                                               blocks == 1 ? l.out<T>(2) : partials + width,
                                               2 * width,
                                               plan.rows,
                                               plan.rows_of_block,
                                               plan.sums_kept,
                                               l.watch},
                    plan.shape, fixed_text(plan));
  if (blocks == 1) return;
  const auto [tile, shape] = norm_sums_plan(plan, sizeof(T));
  l.commands.launch(
      cuda::LayerNormSums<T>{partials, l.out<T>(1), l.out<T>(2), blocks, width, tile, l.watch},
      shape);
}

}  // namespace

void record(const LayerNorm& op, const CudaLaunch& l) {
  with_floating(l.inputs[0].element, [&](auto x) { record_forward<decltype(x)>(op, l); });
}

std::vector<Candidate> candidates(const LayerNormGrad&, const CudaQuery& q) {
  const Type& x = q.inputs[1];
  return {{.scratch_bytes = x.element == f64
                                ? plan_layer_norm_backward<double>(x).scratch_bytes(sizeof(double))
                                : plan_layer_norm_backward<float>(x).scratch_bytes(sizeof(float))}};
}

void record(const LayerNormGrad&, const CudaLaunch& l) {
  with_floating(l.inputs[0].element, [&](auto x) { record_layer_norm_backward<decltype(x)>(l); });
}

}  // namespace metronome
