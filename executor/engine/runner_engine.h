// An engine made of one runner for each plan.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "executor/engine/engine.h"
#include "executor/engine/faults.h"
#include "graph/ir/error.h"

namespace metronome::executor {

/// `Runner` has run(), plan(), readable(index) (a BlockPlace) and readable_type(index); its kernels
/// report to `faults()`, from `next_place()` on.
template <class Runner>
class RunnerEngine : public Engine {
 public:
  explicit RunnerEngine(const Memory& memory) : memory_(memory) {}

  void run(PlanId plan) override {
    of(plan).run();
    end_step();
  }
  const Plan* plan(PlanId plan) const override { return &of(plan).plan(); }
  std::int64_t steps() const override { return steps_; }
  std::byte* feed(std::size_t index) override { return memory_.inputs[index].block.data(); }
  Tensor readable(PlanId plan, std::size_t index) const override {
    return tensor_in(of(plan).readable(index), of(plan).readable_type(index));
  }
  bool has_fault() const override { return faults_.any(); }
  std::optional<std::string> fault() const override {
    const auto found = faults_.fault();
    if (!found) return std::nullopt;
    std::vector<const Plan*> plans;
    for (const auto& runner : runners_) plans.push_back(&runner->plan());
    return describe(*found, plans, memory_);
  }
  double scalar(PlanId plan, std::size_t index) const override {
    return number_at(of(plan).readable(index).data(), of(plan).readable_type(index).element);
  }

 protected:
  FaultSlot& faults() { return faults_; }
  /// From where on the nodes of the plan that is added next count.
  std::size_t next_place() const { return next_place_; }
  /// In the order of the plans.
  void add(std::unique_ptr<Runner> runner) {
    next_place_ += runner->plan().graph.nodes().size();
    runners_.push_back(std::move(runner));
  }
  const Runner& of(PlanId plan) const { return *runners_[plan.index]; }
  void end_step() {
    faults_.end_step();
    ++steps_;
  }

 private:
  const Memory& memory_;
  FaultSlot faults_;
  std::vector<std::unique_ptr<Runner>> runners_;
  std::size_t next_place_ = 0;
  std::int64_t steps_ = 0;
};

}  // namespace metronome::executor
