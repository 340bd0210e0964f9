// One way to run steps, as `compile` sees it: what its passes are told, its kernels, how it plans,
// its engine. A target opens one for each executable.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "executor/engine/engine.h"
#include "executor/engine/kernels.h"
#include "executor/engine/memory.h"
#include "executor/engine/plan.h"
#include "executor/engine/report.h"
#include "executor/support/free_memory.h"
#include "graph/ir/graph.h"
#include "graph/ir/settings.h"

namespace metronome::executor {

/// The parts of which an engine is made, plan by plan.
struct EngineInput {
  std::vector<Plan> plans;
  /// [plan] The declaration from which it was made, limited to the results asked of its mode. Valid
  /// only while the engine is made.
  std::vector<const ir::Graph*> declared;
};

/// The layouts that a back end's ops want.
struct LayoutWishes {
  WantedLayout wants = {};  ///< empty: none wants any
  /// Floating-point operations of an op that wants one: where none has so many, it is not worth
  /// the time to find out.
  double least_flops = 0;
};

class Backend {
 public:
  virtual ~Backend() = default;

  /// As reports call it: "cpu_replay".
  virtual std::string name() const = 0;
  /// Throws RunError, which names the graph, if it cannot run what was declared.
  virtual void require(const ir::Graph& declared, std::span<const Mode> modes) const {
    static_cast<void>(declared), static_cast<void>(modes);
  }
  virtual const Kernels& kernels() const = 0;
  /// Whether its engine runs plans as they are, so that values may be computed again in them.
  virtual bool computes_again() const { return true; }
  /// Whether its engine shows steps to `CompileOptions::observer`.
  virtual bool observes() const { return false; }

  /// Returns the settings of passes and planner for a mode.
  virtual Settings settings(Mode mode) const = 0;
  /// A step is planned in these layouts where that is faster.
  virtual LayoutWishes layouts() const { return {}; }
  /// Returns what `Settings::buckets` is in turn: the step is planned with each, until one changes
  /// nothing or the first is sure to be kept, and `choose` says which plan is kept. At least one.
  virtual std::vector<std::size_t> buckets(Mode mode) const { return {settings(mode).buckets}; }
  /// The place of one of them; `arenas` are the bytes that each plan takes, `budget` what the user
  /// allows. A plan that is kept beside others is kept beside such as take more.
  virtual std::size_t choose(std::span<const std::size_t> arenas,
                             std::optional<std::size_t> budget) const {
    static_cast<void>(arenas), static_cast<void>(budget);
    return 0;
  }

  /// Returns the host memory that it takes for these plans beside storages and inputs, and the
  /// biggest values there; `inputs`: the bytes of all inputs.
  virtual Needs host_needs(std::span<const Plan> plans, std::size_t inputs) const = 0;
  /// Steps that may be in flight: a value can be read as each of these left it.
  virtual int slots() const { return 1; }
  /// `memory` outlives the engine. `report` gains what the engine measured.
  virtual std::unique_ptr<Engine> engine(EngineInput planned, const Memory& memory,
                                         Report& report) = 0;
};

}  // namespace metronome::executor
