#include "distributed/ops/reduced.h"

#include <fmt/format.h>

#include <cstring>

#include "distributed/collectives/all_reduce.h"
#include "graph/ir/error.h"

namespace metronome::distributed {

std::string ranks_attribute(const std::shared_ptr<Communicator>& ranks) {
  return ranks == nullptr ? "" : fmt::format(", ranks={}", ranks->size());
}

void require_reducible(ReduceOp op, const Type& type) {
  if (reduces(op, type.element)) return;
  if (type.element == i64) {
    throw Requirement{"a sum, maximum or minimum of i64, which has no mean",
                      "take the sum, and divide where it is needed"};
  }
  throw Requirement{fmt::format("elements of f32, f64 or i64, but {}", name_of(type.element)),
                    "cast the operand: x.cast(mt::f32)"};
}

void require_rank(int root) {
  if (root < 0) throw Requirement{fmt::format("a rank of 0 or more, but root {}", root)};
}

std::vector<Candidate> reduce_candidates(const std::shared_ptr<Communicator>& ranks,
                                         const CpuQuery& query) {
  const Type& type = query.inputs[0];
  return {{.scratch_bytes = all_reduce_scratch(type.element, type.numel(), ranks->size())}};
}

CpuKernel reduce(const std::shared_ptr<Communicator>& ranks, ReduceOp op, const CpuLaunch& launch,
                 ResultHook after) {
  const Type& type = launch.inputs[0];
  const auto* from = static_cast<const std::byte*>(launch.input_data[0]);
  const std::span to(static_cast<std::byte*>(launch.output_data[0]), type.bytes());
  const std::span scratch(static_cast<std::byte*>(launch.scratch), launch.choice.scratch_bytes);
  return CpuKernel([=, element = type.element] {
    if (to.data() != from && !to.empty()) std::memcpy(to.data(), from, to.size());
    all_reduce(*ranks, op, element, to, scratch);
    after(to);
  });
}

}  // namespace metronome::distributed
