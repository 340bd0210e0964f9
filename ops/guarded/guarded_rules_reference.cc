#include <ATen/TensorOperators.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>

#include "ops/guarded/guarded_rules.h"

namespace metronome {
namespace {

bool is_true(const at::Tensor& guard) { return guard.item<bool>(); }

}  // namespace

Tensors reference(const Guard& op, const Tensors& in) {
  bool runs = !op.nested || is_true(in[1]);
  if (runs) {  // else the decider was not computed
    const auto outcome = in[0].item<std::int64_t>();
    runs = std::clamp<std::int64_t>(outcome, 0, op.cases - 1) == op.when;
  }
  return {at::full({}, runs, at::TensorOptions(at::kBool).device(in[op.nested ? 1 : 0].device()))};
}

Tensors reference(const Merge& op, const Tensors& in) {
  for (int k = 0; k < op.branches; ++k) {
    if (is_true(in[2 * k])) return {in[2 * k + 1]};
  }
  return {op.otherwise ? in.back() : at::zeros_like(in[1])};
}

Tensors reference(const AccumulateIf&, const Tensors& in) {
  return {is_true(in[2]) ? in[0] + in[1] : in[0]};
}

}  // namespace metronome
