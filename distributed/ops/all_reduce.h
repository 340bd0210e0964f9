// Numbers of all ranks as one, in a graph.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "distributed/collectives/communicator.h"
#include "graph/ir/line.h"
#include "graph/ir/op.h"
#include "graph/ir/type.h"
#include "graph/ir/value.h"
#include "ops/rules/reduce_op.h"
#include "ops/rules/rules.h"

namespace metronome {

/// For each element of x, an f32, f64 or i64 of one shape on all ranks: the sum, mean, maximum or
/// minimum over the ranks, in the order of the ranks, so that each of them has the same bits
/// (distributed/collectives/all_reduce.h). Integers have no mean.
///
/// Gradients are those of the sum of all ranks' losses: of a sum or mean the sum or mean of the
/// ranks' gradients; of a maximum or minimum their sum, shared out evenly among the elements that
/// are it. The graph is compiled with `CompileOptions::world`, on all ranks alike.
Value all_reduce(Value x, ReduceOp op = ReduceOp::sum, Line line = Line::here());

struct AllReduce {
  static constexpr std::string_view name = "all_reduce";
  static constexpr bool effects = true;
  ReduceOp op = ReduceOp::sum;
  /// Null until the graph is compiled for ranks.
  std::shared_ptr<distributed::Communicator> ranks = {};

  bool operator==(const AllReduce&) const = default;
  std::string attributes() const;
  Types infer(std::span<const Type> in) const;
  Values vjp(const Vjp& v) const;
  std::vector<InPlace> in_place() const { return {{0, 0}}; }
};

CpuKernel bind(const AllReduce& op, const CpuLaunch& launch);
void record(const AllReduce& op, const CudaLaunch& launch);
std::vector<Candidate> candidates(const AllReduce& op, const CpuQuery& query);
Tensors reference(const AllReduce& op, const Tensors& inputs);

}  // namespace metronome
