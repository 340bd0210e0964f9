// One rank's numbers on all ranks, and all ranks' on one, in a graph.
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
#include "ops/rules/rules.h"

namespace metronome {

/// Rank `root`'s x on all ranks; of any type, and one shape on all ranks. To x of the root flows
/// the sum of all ranks' gradients, to the others' none. The graph is compiled with
/// `CompileOptions::world`, on all ranks alike.
Value broadcast(Value x, int root = 0, Line line = Line::here());

struct Broadcast {
  static constexpr std::string_view name = "broadcast";
  static constexpr bool effects = true;
  int root = 0;
  /// Null until the graph is compiled for ranks.
  std::shared_ptr<distributed::Communicator> ranks = {};

  bool operator==(const Broadcast&) const = default;
  std::string attributes() const;
  Types infer(std::span<const Type> in) const;
  bool moves() const { return true; }
  Values vjp(const Vjp& v) const;
  std::vector<InPlace> in_place() const { return {{0, 0}}; }
};

CpuKernel bind(const Broadcast& op, const CpuLaunch& launch);
void record(const Broadcast& op, const CudaLaunch& launch);
Tensors reference(const Broadcast& op, const Tensors& inputs);

/// The gradient of `Broadcast`: the sum of all ranks' numbers on rank `root`, zeros on the others.
struct ReduceTo {
  static constexpr std::string_view name = "reduce_to";
  static constexpr bool effects = true;
  int root = 0;
  std::shared_ptr<distributed::Communicator> ranks = {};

  bool operator==(const ReduceTo&) const = default;
  std::string attributes() const;
  Types infer(std::span<const Type> in) const;
  Values vjp(const Vjp& v) const;
  std::vector<InPlace> in_place() const { return {{0, 0}}; }
};

CpuKernel bind(const ReduceTo& op, const CpuLaunch& launch);
void record(const ReduceTo& op, const CudaLaunch& launch);
std::vector<Candidate> candidates(const ReduceTo& op, const CpuQuery& query);
Tensors reference(const ReduceTo& op, const Tensors& inputs);

}  // namespace metronome
