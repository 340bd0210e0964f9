#include "distributed/ops/sync_batch_norm.h"

#include <utility>
#include <vector>

#include "distributed/ops/all_reduce.h"
#include "distributed/ops/reduced.h"
#include "graph/emit/scope.h"
#include "graph/ir/op_model.h"
#include "ops/batch_norm/batch_norm.h"
#include "ops/expr/functions.h"

namespace metronome {
namespace {

BatchNorm plain_batch_norm(const SyncBatchNorm& op) { return {op.eps, op.momentum}; }

}  // namespace

Layer sync_batch_norm(BatchNormOptions options) {
  return batch_norm_by(make_op(SyncBatchNorm{options.eps, options.momentum}), 3,
                       std::move(options));
}

std::string SyncBatchNorm::attributes() const {
  return plain_batch_norm(*this).attributes() + distributed::ranks_attribute(ranks);
}

Types SyncBatchNorm::infer(std::span<const Type> in) const {
  Types all = plain_batch_norm(*this).infer(in);
  all.resize(3);  // nothing is saved for a gradient: lower's ops have their own
  return all;
}

void SyncBatchNorm::require_training(std::span<const Type> in) const {
  plain_batch_norm(*this).require_training(in);
}

Values SyncBatchNorm::evaluate(std::span<const Value> in) const {
  return plain_batch_norm(*this).evaluate(in);
}

/// The mean first, then the squares of what differs from it: one pass would lose what a mean far
/// from zero leaves.
Values SyncBatchNorm::lower(std::span<const Value> in) const {
  const Value &x = in[0], &gamma = in[1], &beta = in[2];
  const std::int64_t channels = x.size(1);
  std::vector<std::int64_t> others;
  Shape along(static_cast<std::size_t>(x.rank()), 1);
  along[1] = channels;
  for (std::int64_t d = 0; d < x.rank(); ++d) {
    if (d != 1) others.push_back(d);
  }
  const auto over_ranks = [&](const Value& own) {
    return apply(AllReduce{ReduceOp::mean, ranks}, {own}, Line::here());
  };
  const auto of_channels = [&](const Value& v) { return v.reshape(along); };
  const Value average = over_ranks(mean(x, Axes(others)));
  const Value centered = x - of_channels(average);
  const Value variance = over_ranks(mean(square(centered), Axes(others)));
  const Value y = centered * of_channels(gamma * rsqrt(variance + eps)) + of_channels(beta);
  const double each = static_cast<double>(x.type().numel() / channels) *
                      static_cast<double>(ranks == nullptr ? 1 : ranks->size());
  const auto moved = [&](const Value& running, const Value& now) {
    return running * (1 - momentum) + now * momentum;
  };
  return {y, moved(in[3], average), moved(in[4], variance * (each / (each - 1)))};
}

}  // namespace metronome
