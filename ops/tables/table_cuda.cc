// CUDA's rules, from the one list of ops.
#include <concepts>
#include <type_traits>

#include "ops/cuda/table.h"
#include "ops/ops.h"

namespace metronome {
namespace {

template <class T>
concept HasRecord = requires(const T& op, const CudaLaunch& launch) {
  { record(op, launch) } -> std::same_as<void>;
};

template <class T>
concept HasCandidates = requires(const T& op, const CudaQuery& query) {
  { candidates(op, query) } -> std::same_as<std::vector<Candidate>>;
};

template <class T>
concept HasMapSource = requires(const T& op, const MapSource& source) {
  { map_source(op, source) } -> std::same_as<std::string>;
};

using Entry = std::pair<std::type_index, CudaTable::Rules>;

template <class T>
CudaTable::Rules choices_and_source() {
  CudaTable::Rules rules;
  rules.candidates = [](const Op&, const CudaQuery&) {
    return std::vector<Candidate>{Candidate{}};
  };
  if constexpr (HasCandidates<T>) {
    rules.candidates = [](const Op& op, const CudaQuery& query) {
      return candidates(*op.as<T>(), query);
    };
  }
  if constexpr (HasMapSource<T>) {
    rules.map_source = [](const Op& op, const MapSource& source) {
      return map_source(*op.as<T>(), source);
    };
  }
  return rules;
}

template <HasRecord T>
Entry kernel_of() {
  CudaTable::Rules rules = choices_and_source<T>();
  rules.record = [](const Op& op, const CudaLaunch& launch) { record(*op.as<T>(), launch); };
  return {typeid(T), rules};
}

template <HasMapSource T>
Entry map_of() {
  CudaTable::Rules rules = choices_and_source<T>();
  rules.record = record_map;
  return {typeid(T), rules};
}

template <class T, class... Ops>
constexpr bool is_one_of(OpList<Ops...>) {
  return (std::is_same_v<T, Ops> || ...);
}

template <class T>
Entry rules_of() {
  if constexpr (is_one_of<T>(MapOps())) {
    return map_of<T>();
  } else {
    return kernel_of<T>();
  }
}

template <class... Ops, class... OfDevices, class... Compounds>
CudaTable table_of(OpList<Ops...>, OpList<OfDevices...>, OpList<Compounds...>) {
  return CudaTable({rules_of<Ops>()..., rules_of<OfDevices>()..., rules_of<Compounds>()...});
}

}  // namespace

const CudaTable& cuda_table() {
  static const CudaTable table = table_of(KernelOps(), DeviceOps(), CompoundOps());
  return table;
}

}  // namespace metronome
