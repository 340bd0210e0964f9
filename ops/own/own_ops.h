// Ops that a program brings along. An op is a struct with the rules of graph/rules; one
// that has `lower` runs everywhere as it is. One with kernels of its own has these rules beside it,
// in its namespace, and is named when a graph is compiled:
//
//   the CPU's kernel:
//     CpuKernel bind(const MyOp& op, const CpuLaunch& launch);
//   a device's commands; optional:
//     void record(const MyOp& op, const CudaLaunch& launch);
//   scratch and, on a CPU, threads; optional:
//     std::vector<Candidate> candidates(const MyOp& op, const CpuQuery& query);
//     std::vector<Candidate> candidates(const MyOp& op, const CudaQuery& query);
//   libtorch's calls, for eager:
//     Tensors reference(const MyOp& op, const Tensors& inputs);
//
//   compile(graph, target, {.ops = own_ops<MyOp, MyOpGrad>()});
//
// `portable` (ops/own/portable.h) stands for `bind` and `record` both. On a target that it has
// no rule for the op runs by its `lower`; without `lower` `compile` refuses it there.
#pragma once

#include <ATen/core/Tensor.h>

#include <concepts>
#include <type_traits>
#include <utility>
#include <vector>

#include "graph/ir/op_model.h"
#include "ops/cpu/launch.h"
#include "ops/cuda/launch.h"
#include "ops/own/portable.h"
#include "ops/rules/own_rules.h"

namespace metronome {
namespace own {

template <class T>
concept HasBind = requires(const T& op, const CpuLaunch& launch) {
  { bind(op, launch) } -> std::same_as<CpuKernel>;
};
template <class T>
concept HasRecord = requires(const T& op, const CudaLaunch& launch) {
  { record(op, launch) } -> std::same_as<void>;
};
template <class T>
concept HasPortable = requires(const T& op, const CpuLaunch& cpu, const CudaLaunch& cuda) {
  { portable(op, cpu, std::declval<CpuPlay&>()) } -> std::same_as<void>;
  { portable(op, cuda, std::declval<CudaPlay&>()) } -> std::same_as<void>;
};
template <class T, class Query>
concept HasCandidates = requires(const T& op, const Query& query) {
  { candidates(op, query) } -> std::same_as<std::vector<Candidate>>;
};
template <class T>
concept HasReference = requires(const T& op, const Tensors& inputs) {
  { reference(op, inputs) } -> std::same_as<Tensors>;
};

template <class T>
CpuRules cpu_rules() {
  CpuRules rules;
  if constexpr (HasBind<T>) {
    rules.bind = [](const Op& op, const CpuLaunch& launch) { return bind(*op.as<T>(), launch); };
    rules.candidates = [](const Op&, const CpuQuery&) { return std::vector<Candidate>{{}}; };
  } else {
    rules.bind = [](const Op& op, const CpuLaunch& launch) {
      CpuPlay play(launch.choice.threads);
      portable(*op.as<T>(), launch, play);
      return std::move(play).kernel();
    };
    rules.candidates = [](const Op&, const CpuQuery& query) {
      return std::vector<Candidate>{{.threads = portable_threads(query)}};
    };
  }
  if constexpr (HasCandidates<T, CpuQuery>) {
    rules.candidates = [](const Op& op, const CpuQuery& query) {
      return candidates(*op.as<T>(), query);
    };
  }
  return rules;
}

template <class T>
CudaRules cuda_rules() {
  CudaRules rules;
  if constexpr (HasRecord<T>) {
    rules.record = [](const Op& op, const CudaLaunch& launch) { record(*op.as<T>(), launch); };
  } else if constexpr (HasPortable<T>) {
    rules.record = [](const Op& op, const CudaLaunch& launch) {
      CudaPlay play(launch);
      portable(*op.as<T>(), launch, play);
    };
  } else {
    return rules;
  }
  rules.candidates = [](const Op&, const CudaQuery&) { return std::vector<Candidate>{{}}; };
  if constexpr (HasCandidates<T, CudaQuery>) {
    rules.candidates = [](const Op& op, const CudaQuery& query) {
      return candidates(*op.as<T>(), query);
    };
  }
  return rules;
}

template <class T>
consteval bool complete() {
  constexpr bool kernel = HasBind<T> || HasPortable<T>;
  static_assert(
      kernel,
      "an op of own_ops needs, in its namespace: CpuKernel bind(const Op&, const "
      "CpuLaunch&), or void portable(const Op&, const auto& launch, auto& play); one that "
      "`lower` expands needs neither, and no own_ops");
  static_assert(HasReference<T>,
                "an op of own_ops needs, in its namespace: Tensors reference(const Op&, const "
                "Tensors&)");
  static_assert(!op_rules::has_batches<T>, "an op of own_ops may not have the rule `batches`");
  return kernel && HasReference<T>;
}

template <class T>
OwnOp rules_of() {
  if constexpr (complete<T>()) {
    return {typeid(T), cpu_rules<T>(), cuda_rules<T>(),
            [](const Op& op, const Tensors& inputs) { return reference(*op.as<T>(), inputs); }};
  } else {
    return {typeid(T)};  // an error has said why
  }
}

}  // namespace own

/// Returns the ops for `CompileOptions::ops`. A rule that an op lacks is a compile error.
template <class... Ops>
OwnOps own_ops() {
  return {own::rules_of<Ops>()...};
}

}  // namespace metronome
