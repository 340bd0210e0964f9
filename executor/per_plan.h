// An engine made of one runner for each plan.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "executor/engine.h"
#include "graph/error.h"

namespace metronome {

/// `Runner` has run(), fault(), readable(index) (bytes) and readable_type(index).
template <class Runner>
class PerPlan : public Engine {
 public:
  explicit PerPlan(const Memory& memory) : memory_(memory) {}

  void run(PlanId plan) override {
    of(plan).run();
    ++steps_;
  }
  std::int64_t steps() const override { return steps_; }
  std::byte* feed(std::size_t index) override { return memory_.inputs[index].block.data(); }
  at::Tensor readable(PlanId plan, std::size_t index) const override {
    return tensor_over(of(plan).readable(index), of(plan).readable_type(index));
  }
  std::optional<std::string> fault() const override {
    for (const auto& runner : runners_) {
      if (auto found = runner->fault()) return found;
    }
    return std::nullopt;
  }
  double scalar(PlanId plan, std::size_t index) const override {
    return number_at(of(plan).readable(index), of(plan).readable_type(index).element);
  }

 protected:
  /// In the order of the plans.
  void add(std::unique_ptr<Runner> runner) { runners_.push_back(std::move(runner)); }
  const Runner& of(PlanId plan) const { return *runners_[plan.index]; }

  std::int64_t steps_ = 0;

 private:
  const Memory& memory_;
  std::vector<std::unique_ptr<Runner>> runners_;
};

}  // namespace metronome
