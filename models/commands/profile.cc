#include "models/commands/profile.h"

#include <nlohmann/json.hpp>

namespace metronome::commands {
namespace {

constexpr int kWarmUp = 3, kSteps = 20;
constexpr int kDeviceSteps = 5;  // each kernel runs hundreds of times in each

void fill(Executable& executable, const Value& input) {
  at::Tensor tensor = executable.input(input);
  tensor.is_floating_point() ? tensor.normal_() : tensor.zero_();
}

}  // namespace

Profile profile_of(Executable& executable, std::span<const Value> inputs) {
  for (const Value& input : inputs) fill(executable, input);
  for (int step = 0; step < kWarmUp; ++step) executable.run();
  return executable.profile({},
                            {.steps = executable.report().device.empty() ? kSteps : kDeviceSteps});
}

std::string to_json(const Profile& profile) {
  nlohmann::ordered_json kernels = nlohmann::ordered_json::array();
  for (const KernelTime& kernel : profile.kernels) {
    kernels.push_back({{"kernel", kernel.kernel},
                       {"op", kernel.op},
                       {"path", kernel.path},
                       {"phase", name_of(kernel.phase)},
                       {"us", kernel.microseconds},
                       {"runs", kernel.runs},
                       {"bytes", kernel.bytes},
                       {"flops", kernel.flops},
                       {"timed_by", name_of(kernel.by)}});
  }
  const nlohmann::ordered_json json = {{"steps", profile.steps}, {"kernels", kernels}};
  return json.dump(1) + "\n";
}

}  // namespace metronome::commands
