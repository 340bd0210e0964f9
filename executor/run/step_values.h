// The values that steps left to be read. Internal to executor/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "executor/engine/engine.h"
#include "executor/run/declared_graphs.h"
#include "executor/run/nan_lookout.h"

namespace metronome::executor {

/// The plan that computed each readable last, and reads of it. Steps tell it of their ends; users
/// read.
class StepValues {
 public:
  /// Both outlive it. `slots`: steps whose numbers can be read. `step_bytes`: see `NanLookout`;
  /// absent if none is to look.
  StepValues(const DeclaredGraphs& declared, const Engine& engine, int slots,
             std::optional<std::size_t> step_bytes);

  /// Step `number`, counted as `Engine::steps` does, ended.
  void note_step(std::int64_t number, PlanId plan);
  /// The plan's values are half made; those of other plans lie elsewhere.
  void note_broken_step(PlanId plan);
  /// The last step's.
  PlanId last_plan() const;

  /// Each throws RunError for a value that no step has computed.
  Tensor read(std::size_t readable);
  /// Throws RunError besides for a tensor of another type, or that lies elsewhere.
  void read_into(std::size_t readable, const CallerTensor& to);
  double read_scalar(std::size_t readable);
  double read_scalar(std::size_t readable, std::int64_t step);
  /// Throws RunError for a value of more than one element.
  void require_scalars(std::size_t readable) const;
  /// The number of steps whose numbers can be read.
  std::int64_t slots() const { return static_cast<std::int64_t>(recent_.size()); }
  /// Tells of a fault, once. Waits for nothing.
  void warn_of_fault();
  /// Says besides by which step it was seen.
  void warn_of_fault(std::int64_t step);

 private:
  /// In `computed_by_`: of a readable whose last step broke off.
  static constexpr PlanId kBrokenOff{-2};

  /// The plan that computed a readable last.
  PlanId plan_of(std::size_t readable) const;
  /// Says why no plan has computed it.
  [[noreturn]] void refuse(std::size_t readable) const;
  void require_scalar(PlanId plan, std::size_t readable) const;

  const DeclaredGraphs& declared_;
  const Engine& engine_;
  std::vector<PlanId> computed_by_;    ///< [readable]: the plan whose step left it last
  std::vector<PlanId> recent_;         ///< of step n: [n % size]
  std::optional<NanLookout> lookout_;  ///< by a readable's number
  bool warned_ = false;                ///< of a fault
};

}  // namespace metronome::executor
