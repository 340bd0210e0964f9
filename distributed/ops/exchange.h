// Rows that go from rank to rank, in a graph: their first dimension is dealt out, or grows.
#pragma once

#include <cstdint>
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

// Shapes are static, so the count of ranks is part of the declaration: `world.size()`. x has one
// type and shape on all ranks. Gradients are those of the sum of all ranks' losses.

/// [n d, ...] of x [d, ...]: rank 0's rows, then rank 1's, to rank n - 1's. x may be of any type.
/// The gradient of a rank's x is the sum of all ranks' gradients of its rows.
Value all_gather(Value x, int ranks, Line line = Line::here());

/// [d, ...] of x [n d, ...], an f32, f64 or i64: rank r gets the sum, mean, maximum or minimum,
/// over all ranks and in their order, of their r-th d rows. The gradient goes back to the ranks
/// that it came from; that of a maximum or minimum is shared out evenly among the elements that are
/// it.
Value reduce_scatter(Value x, int ranks, ReduceOp op = ReduceOp::sum, Line line = Line::here());

/// [n d, ...] of x [n d, ...], of any type: the r-th d rows go to rank r, and become the rows there
/// whose place is this rank's number. The gradient goes the same way back.
Value all_to_all(Value x, int ranks, Line line = Line::here());

struct AllGather {
  static constexpr std::string_view name = "all_gather";
  static constexpr bool effects = true;
  int size = 1;
  /// Null until the graph is compiled for ranks.
  std::shared_ptr<distributed::Communicator> ranks = {};

  bool operator==(const AllGather&) const = default;
  std::string attributes() const;
  Types infer(std::span<const Type> in) const;
  bool moves() const { return true; }
  Values vjp(const Vjp& v) const;
};

CpuKernel bind(const AllGather& op, const CpuLaunch& launch);
void record(const AllGather& op, const CudaLaunch& launch);
Tensors reference(const AllGather& op, const Tensors& inputs);

struct ReduceScatter {
  static constexpr std::string_view name = "reduce_scatter";
  static constexpr bool effects = true;
  ReduceOp op = ReduceOp::sum;
  int size = 1;
  std::shared_ptr<distributed::Communicator> ranks = {};

  bool operator==(const ReduceScatter&) const = default;
  std::string attributes() const;
  Types infer(std::span<const Type> in) const;
  Values vjp(const Vjp& v) const;
};

CpuKernel bind(const ReduceScatter& op, const CpuLaunch& launch);
void record(const ReduceScatter& op, const CudaLaunch& launch);
std::vector<Candidate> candidates(const ReduceScatter& op, const CpuQuery& query);
Tensors reference(const ReduceScatter& op, const Tensors& inputs);

struct AllToAll {
  static constexpr std::string_view name = "all_to_all";
  static constexpr bool effects = true;
  int size = 1;
  std::shared_ptr<distributed::Communicator> ranks = {};

  bool operator==(const AllToAll&) const = default;
  std::string attributes() const;
  Types infer(std::span<const Type> in) const;
  bool moves() const { return true; }
  Values vjp(const Vjp& v) const;
};

CpuKernel bind(const AllToAll& op, const CpuLaunch& launch);
void record(const AllToAll& op, const CudaLaunch& launch);
Tensors reference(const AllToAll& op, const Tensors& inputs);

}  // namespace metronome
