// The kernels on a CPU: copies, and what a Communicator does.
#include <cstring>

#include "distributed/collectives/all_reduce.h"
#include "distributed/ops/all_reduce.h"
#include "distributed/ops/broadcast.h"
#include "distributed/ops/exchange.h"
#include "distributed/ops/reduced.h"

namespace metronome {
namespace {

std::span<const std::byte> operand_of(const CpuLaunch& launch) {
  return {static_cast<const std::byte*>(launch.input_data[0]), launch.inputs[0].bytes()};
}

std::span<std::byte> result_of(const CpuLaunch& launch) {
  return {static_cast<std::byte*>(launch.output_data[0]), launch.outputs[0].bytes()};
}

}  // namespace

std::vector<Candidate> candidates(const AllReduce& op, const CpuQuery& query) {
  return distributed::reduce_candidates(op.ranks, query);
}

CpuKernel bind(const AllReduce& op, const CpuLaunch& launch) {
  return distributed::reduce(op.ranks, op.op, launch);
}

std::vector<Candidate> candidates(const ReduceTo& op, const CpuQuery& query) {
  return distributed::reduce_candidates(op.ranks, query);
}

CpuKernel bind(const ReduceTo& op, const CpuLaunch& launch) {
  if (op.ranks->rank() == op.root) return distributed::reduce(op.ranks, ReduceOp::sum, launch);
  return distributed::reduce(op.ranks, ReduceOp::sum, launch, [](std::span<std::byte> result) {
    if (!result.empty()) std::memset(result.data(), 0, result.size());
  });
}

CpuKernel bind(const Broadcast& op, const CpuLaunch& launch) {
  const auto from = operand_of(launch);
  const auto to = result_of(launch);
  return CpuKernel([=, ranks = op.ranks, root = op.root] {
    if (to.data() != from.data() && !to.empty()) std::memcpy(to.data(), from.data(), to.size());
    ranks->broadcast(to, root);
  });
}

CpuKernel bind(const AllGather& op, const CpuLaunch& launch) {
  const auto from = operand_of(launch);
  const auto to = result_of(launch);
  return CpuKernel([=, ranks = op.ranks] { ranks->all_gather(from, to); });
}

std::vector<Candidate> candidates(const ReduceScatter&, const CpuQuery& query) {
  return {{.scratch_bytes = distributed::reduce_scatter_scratch(query.inputs[0].bytes())}};
}

CpuKernel bind(const ReduceScatter& op, const CpuLaunch& launch) {
  const auto from = operand_of(launch);
  const auto to = result_of(launch);
  const std::span scratch(static_cast<std::byte*>(launch.scratch), launch.choice.scratch_bytes);
  return CpuKernel([=, ranks = op.ranks, with = op.op, element = launch.inputs[0].element] {
    distributed::reduce_scatter(*ranks, with, element, from, to, scratch);
  });
}

CpuKernel bind(const AllToAll& op, const CpuLaunch& launch) {
  const auto from = operand_of(launch);
  const auto to = result_of(launch);
  return CpuKernel([=, ranks = op.ranks] { ranks->all_to_all(from, to); });
}

}  // namespace metronome
