// The kernels on a CPU: copies, and what a Communicator does.
#include <cstring>

#include "distributed/ops/all_reduce.h"
#include "distributed/ops/broadcast.h"
#include "distributed/ops/reduced.h"

namespace metronome {

std::vector<Candidate> candidates(const AllReduce& op, const CpuQuery& query) {
  return distributed::reducing(op.ranks, query);
}

CpuKernel bind(const AllReduce& op, const CpuLaunch& launch) {
  return distributed::reduce(op.ranks, op.op, launch);
}

std::vector<Candidate> candidates(const ReduceTo& op, const CpuQuery& query) {
  return distributed::reducing(op.ranks, query);
}

CpuKernel bind(const ReduceTo& op, const CpuLaunch& launch) {
  if (op.ranks->rank() == op.root) return distributed::reduce(op.ranks, ReduceOp::sum, launch);
  return distributed::reduce(op.ranks, ReduceOp::sum, launch, [](std::span<std::byte> result) {
    if (!result.empty()) std::memset(result.data(), 0, result.size());
  });
}

CpuKernel bind(const Broadcast& op, const CpuLaunch& launch) {
  const auto* from = static_cast<const std::byte*>(launch.input_data[0]);
  const std::span to(static_cast<std::byte*>(launch.output_data[0]), launch.outputs[0].bytes());
  return CpuKernel([=, ranks = op.ranks, root = op.root] {
    if (to.data() != from && !to.empty()) std::memcpy(to.data(), from, to.size());
    ranks->broadcast(to, root);
  });
}

}  // namespace metronome
