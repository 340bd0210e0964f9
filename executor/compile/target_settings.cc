#include "executor/compile/target_settings.h"

#include "executor/compile/fold_constants.h"
#include "executor/cuda/program/device_state.h"
#include "ops/cuda/table.h"

namespace metronome::executor::compile {

bool plans_for_device(const Target& target) {
  return target.kind != Target::Kind::eager && target.device.kind == Device::Kind::cuda;
}

Settings settings_for(const Target& target, Mode mode) {
  Settings settings;
  settings.mode = mode;
  settings.evaluate = evaluate_constants;
  if (!plans_for_device(target)) {
    settings.skips = true;
    return settings;
  }
  settings.alignment = program::kDeviceAlignment;
  if (target.cuda.fuse) {
    settings.fuses = [](const Op& op) { return cuda_table().has(op); };
  }
  return settings;
}

}  // namespace metronome::executor::compile
