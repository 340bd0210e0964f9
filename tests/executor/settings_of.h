// The settings that a target gives passes and the planner, and targets that give others.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "executor/compile/make_plan.h"
#include "executor/compile/targets.h"
#include "executor/engine/backend.h"

namespace metronome {

inline std::unique_ptr<executor::Backend> opened(const Target& target,
                                                 const CompileOptions& options = {}) {
  return target.open(target, options, "opened");
}

inline Settings settings_of(const Target& target, Mode mode) {
  return executor::compile::settings_of(*opened(target), mode);
}

/// A back end whose settings are changed.
class ChangedSettings final : public executor::Backend {
 public:
  ChangedSettings(std::unique_ptr<executor::Backend> base, void (*change)(Settings&))
      : base_(std::move(base)), change_(change) {}

  std::string name() const override { return base_->name(); }
  void require(const ir::Graph& declared, std::span<const Mode> modes) const override {
    base_->require(declared, modes);
  }
  const executor::Kernels& kernels() const override { return base_->kernels(); }
  Settings settings(Mode mode) const override {
    Settings settings = base_->settings(mode);
    change_(settings);
    return settings;
  }
  std::size_t choose(std::span<const std::size_t> arenas,
                     std::optional<std::size_t> budget) const override {
    return base_->choose(arenas, budget);
  }
  executor::Needs host_needs(std::span<const executor::Plan> plans,
                             std::size_t inputs) const override {
    return base_->host_needs(plans, inputs);
  }
  int slots() const override { return base_->slots(); }
  std::unique_ptr<executor::Engine> engine(executor::EngineInput planned,
                                           const executor::Memory& memory,
                                           Report& report) override {
    return base_->engine(std::move(planned), memory, report);
  }

 private:
  std::unique_ptr<executor::Backend> base_;
  void (*change_)(Settings&);
};

/// The target with its settings changed.
template <auto kBase, void (*kChange)(Settings&)>
Target changed() {
  Target target = kBase();
  target.open = [](const Target& opened, const CompileOptions& options,
                   const std::string& graph) -> std::unique_ptr<executor::Backend> {
    return std::make_unique<ChangedSettings>(kBase().open(opened, options, graph), kChange);
  };
  return target;
}

}  // namespace metronome
