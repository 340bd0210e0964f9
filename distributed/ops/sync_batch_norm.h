// Batch normalisation over the batches of all ranks.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "distributed/collectives/communicator.h"
#include "graph/ir/op.h"
#include "graph/ir/type.h"
#include "graph/ir/value.h"
#include "ops/language/layers.h"

namespace metronome {

/// `batch_norm` whose means and variances in training are those of all ranks' batches together, so
/// that n ranks of a batch each are as one process with all of it. Its parameters and buffers are
/// those of `batch_norm`, under the same names. The graph is compiled with `CompileOptions::world`,
/// on all ranks alike.
Layer sync_batch_norm(BatchNormOptions options = {});

/// Made of all_reduce: operands and visible results as of `BatchNorm`.
struct SyncBatchNorm {
  static constexpr std::string_view name = "sync_batch_norm";
  double eps = 1e-5;
  double momentum = 0.1;
  /// Null until the graph is compiled for ranks.
  std::shared_ptr<distributed::Communicator> ranks = {};

  bool operator==(const SyncBatchNorm&) const = default;
  std::string attributes() const;
  Types infer(std::span<const Type> in) const;
  void require_training(std::span<const Type> in) const;
  Values lower(std::span<const Value> in) const;
  Values evaluate(std::span<const Value> in) const;
};

}  // namespace metronome
