// What a target tells passes and the planner.
#pragma once

#include <memory>

#include "executor/compile/make_plan.h"
#include "executor/compile/targets.h"
#include "executor/engine/backend.h"

namespace metronome {

inline std::unique_ptr<executor::Backend> opened(const Target& target,
                                                 const CompileOptions& options = {}) {
  return target.open(target, options, "opened");
}

/// In the first of its ways.
inline Settings settings_of(const Target& target, Mode mode) {
  return executor::compile::settings_of(*opened(target), mode)[0];
}

}  // namespace metronome
