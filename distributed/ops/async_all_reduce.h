// The mean over ranks in two halves, between which a step goes on.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "distributed/collectives/communicator.h"
#include "graph/ir/op.h"
#include "graph/ir/type.h"
#include "ops/rules/rules.h"

namespace metronome {

/// Begins to make of x, an f32 or f64, its mean over the ranks (`AllReduce`, the same bits). Its
/// results are for `FinishMean` alone: the bytes that are on their way, and scratch.
struct BeginMean {
  static constexpr std::string_view name = "begin_mean";
  static constexpr bool differentiable = false;
  static constexpr bool effects = true;
  static constexpr bool prompt = true;
  std::shared_ptr<distributed::Communicator> ranks;

  bool operator==(const BeginMean&) const = default;
  bool moves() const { return true; }  // numbers are there when it is finished
  std::string attributes() const;
  Types infer(std::span<const Type> in) const;
  std::vector<InPlace> in_place() const { return {{0, 0}}; }
};

CpuKernel bind(const BeginMean& op, const CpuLaunch& launch);
void record(const BeginMean& op, const CudaLaunch& launch);
Tensors reference(const BeginMean& op, const Tensors& inputs);

/// The mean, once it is there: of the first `BeginMean` that is not finished, whose results it
/// takes.
struct FinishMean {
  static constexpr std::string_view name = "finish_mean";
  static constexpr bool differentiable = false;
  static constexpr bool effects = true;
  std::shared_ptr<distributed::Communicator> ranks;

  bool operator==(const FinishMean&) const = default;
  std::string attributes() const;
  Types infer(std::span<const Type> in) const { return {in[0]}; }
  std::vector<InPlace> in_place() const { return {{0, 0}}; }
};

CpuKernel bind(const FinishMean& op, const CpuLaunch& launch);
void record(const FinishMean& op, const CudaLaunch& launch);
Tensors reference(const FinishMean& op, const Tensors& inputs);

}  // namespace metronome
