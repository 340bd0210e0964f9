// Parts that the ops of ranks share.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "distributed/collectives/communicator.h"
#include "graph/ir/type.h"
#include "ops/cpu/launch.h"
#include "ops/rules/candidate.h"
#include "ops/rules/reduce_op.h"

namespace metronome::distributed {

/// ", ranks=4"; empty before the graph is compiled for ranks.
std::string ranks_attribute(const std::shared_ptr<Communicator>& ranks);

/// Throws Requirement for elements that `all_reduce` does not know, or of which it knows no such
/// reduction.
void require_reducible(ReduceOp op, const Type& type);
/// Throws Requirement for a rank that can be none.
void require_rank(int root);

/// The scratch of a kernel that reduces operand 0.
std::vector<Candidate> reduce_candidates(const std::shared_ptr<Communicator>& ranks,
                                         const CpuQuery& query);
/// Operand 0 over the ranks, into output 0; then `after`, for what is to be done to the result.
using ResultHook = void (*)(std::span<std::byte> result);
CpuKernel reduce(
    const std::shared_ptr<Communicator>& ranks, ReduceOp op, const CpuLaunch& launch,
    ResultHook after = [](std::span<std::byte>) {});

}  // namespace metronome::distributed
