#include <ATen/core/Tensor.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cummax.h>
#include <ATen/ops/zeros.h>

#include <tuple>

#include "ops/row_updates/row_updates.h"

namespace metronome {

namespace {

/// [n] For each place of the index the first place of its run.
at::Tensor begins(const at::Tensor& index) {
  const std::int64_t n = index.numel();
  const at::Tensor place = at::arange(n, index.options().dtype(at::kLong));
  if (n == 0) return place;
  at::Tensor begin = place.clone();
  begin.slice(0, 1).mul_(index.slice(0, 1).ne(index.slice(0, 0, n - 1)));
  return std::get<0>(begin.cummax(0));
}

}  // namespace

Tensors reference(const RunSum&, const Tensors& in) {
  const std::int64_t n = in[1].numel(), width = in[0].size(-1);
  const at::Tensor rows = in[0].reshape({n, width}).index_select(0, in[2]);
  return {at::zeros({n, width}, in[0].options()).index_add(0, begins(in[1]), rows)};
}

Tensors reference(const IndexCopy& op, const Tensors& in) {
  const std::int64_t n = in[1].numel();
  const at::Tensor place = at::arange(n, in[1].options().dtype(at::kLong));
  at::Tensor has_row = begins(in[1]).eq(place);
  // An index that is reported throws here.
  if (op.verb.empty())
    has_row = has_row.logical_and(in[1].ge(0)).logical_and(in[1].lt(in[0].size(0)));
  const at::Tensor chosen = has_row.nonzero().reshape({-1});
  return {in[0].index_copy(0, in[1].to(at::kLong).index_select(0, chosen),
                           in[2].index_select(0, chosen))};
}

}  // namespace metronome
