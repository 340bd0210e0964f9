// An engine made of one runner for each mode that was compiled.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "executor/engine.h"
#include "graph/error.h"

namespace metronome {

/// `Runner` has mode(), run(), readable(index) (bytes) and readable_type(index).
template <class Runner>
class PerMode : public Engine {
 public:
  explicit PerMode(const Memory& memory) : memory_(memory) {}

  void run(Mode mode) override {
    of(mode).run();
    ++steps_;
  }
  std::int64_t steps() const override { return steps_; }
  std::byte* feed(std::size_t index) override { return memory_.inputs[index].block.data(); }
  at::Tensor readable(Mode mode, std::size_t index) const override {
    return tensor_over(of(mode).readable(index), of(mode).readable_type(index));
  }
  double scalar(Mode mode, std::size_t index) const override {
    return number_at(of(mode).readable(index), of(mode).readable_type(index).element);
  }

 protected:
  void add(std::unique_ptr<Runner> runner) { runners_.push_back(std::move(runner)); }

 private:
  const Runner& of(Mode mode) const {
    for (const auto& runner : runners_) {
      if (runner->mode() == mode) return *runner;
    }
    throw InternalError("a mode without a plan was run");
  }

  const Memory& memory_;
  std::vector<std::unique_ptr<Runner>> runners_;
  std::int64_t steps_ = 0;
};

}  // namespace metronome
