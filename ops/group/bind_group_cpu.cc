// A group's kernel, from its ops: the rest of its kernel knows none.
#include <cstddef>
#include <cstdint>
#include <vector>

#include "ops/cpu/parallel.h"
#include "ops/group/group.h"
#include "ops/group/strip_plan_cpu.h"
#include "ops/group/strip_program.h"

namespace metronome::METRONOME_ISA {
namespace {

/// Elements times members from which threads pay.
constexpr std::int64_t kParallelWork = kParallelFrom / 2;

}  // namespace

std::vector<Candidate> candidates(const Group& group, const CpuQuery& query) {
  const auto members = static_cast<std::int64_t>(group.members.size());
  const int threads = numel(group.domain) * members < kParallelWork ? 1 : query.threads;
  const StripProgram program = strip_program(group);
  return {
      {.scratch_bytes = plan_strips(program, nullptr).bytes() * static_cast<std::size_t>(threads),
       .threads = threads}};
}

CpuKernel bind(const Group& group, const CpuLaunch& launch) {
  return bind(strip_program(group), launch);
}

}  // namespace metronome::METRONOME_ISA
