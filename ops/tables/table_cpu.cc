// The rules of one instruction set's kernels, from the one list of ops.
#include <algorithm>
#include <concepts>

#include "ops/cpu/table.h"
#include "ops/ops.h"

namespace metronome::METRONOME_ISA {
namespace {

template <class T>
concept HasCpuKernel = requires(const T& op, const CpuLaunch& launch) {
  { bind(op, launch) } -> std::same_as<CpuKernel>;
};

template <class T>
concept HasCandidates = requires(const T& op, const CpuQuery& query) {
  { candidates(op, query) } -> std::same_as<std::vector<Candidate>>;
};

template <class T>
concept HasSample = requires(const T& op, std::span<const Type> inputs) {
  { sample(op, inputs, double()) } -> std::same_as<Types>;
};

/// From this many elements on a second thread pays for its start in a kernel that walks over
/// memory.
constexpr std::int64_t kParallelElements = 32768;

int threads_of(const CpuQuery& query) {
  std::int64_t elements = 0;
  for (const Type& type : query.inputs) elements = std::max(elements, type.numel());
  for (const Type& type : query.outputs) elements = std::max(elements, type.numel());
  return elements >= kParallelElements ? query.threads : 1;
}

template <HasCpuKernel T>
std::pair<std::type_index, CpuTable::Rules> rules_of() {
  CpuTable::Rules rules;
  rules.bind = [](const Op& op, const CpuLaunch& launch) { return bind(*op.as<T>(), launch); };
  if constexpr (HasCandidates<T>) {
    rules.candidates = [](const Op& op, const CpuQuery& query) {
      return candidates(*op.as<T>(), query);
    };
  } else {
    rules.candidates = [](const Op&, const CpuQuery& query) {
      return std::vector<Candidate>{{.threads = threads_of(query)}};
    };
  }
  if constexpr (HasSample<T>) {
    rules.sample = [](const Op& op, std::span<const Type> inputs, double share) {
      return sample(*op.as<T>(), inputs, share);
    };
  }
  return {typeid(T), rules};
}

template <class... Ops, class... OfCpu>
CpuTable table_of(std::string_view isa, OpList<Ops...>, OpList<OfCpu...>) {
  return CpuTable(isa, {rules_of<Ops>()..., rules_of<OfCpu>()..., rules_of<Group>()});
}

}  // namespace

CpuTable make_cpu_table(std::string_view isa) { return table_of(isa, KernelOps(), CpuOps()); }

}  // namespace metronome::METRONOME_ISA
