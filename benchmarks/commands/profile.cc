#include "benchmarks/commands/profile.h"

#include <ATen/core/Tensor.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <vector>

namespace metronome::commands {
namespace {

constexpr int kWarmUp = 3, kSteps = 20;
constexpr int kTracedSteps = 5;
constexpr int kDeviceSteps = 5;  // each kernel runs hundreds of times in each

void fill(Executable& executable, const Value& input, std::int64_t vocabulary) {
  at::Tensor tensor = executable.input(input);
  tensor.is_floating_point() ? tensor.normal_() : tensor.random_(vocabulary);
}

/// Times replayed steps one by one, each until its loss is there.
double median_microseconds(Executable& executable, const Value& loss) {
  std::vector<double> times(kSteps);
  for (double& time : times) {
    const auto begin = std::chrono::steady_clock::now();
    executable.run();
    static_cast<void>(executable.read_scalar(loss));
    time =
        std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count();
  }
  const auto middle = times.begin() + kSteps / 2;
  std::ranges::nth_element(times, middle);
  return *middle;
}

}  // namespace

ProfiledStep profile_of(Executable& executable, const Value& loss, std::span<const Value> inputs,
                        std::int64_t vocabulary) {
  for (const Value& input : inputs) fill(executable, input, vocabulary);
  for (int step = 0; step < kWarmUp; ++step) executable.run();
  ProfiledStep step{.microseconds = median_microseconds(executable, loss), .kernels = {}};
  step.kernels =
      executable.profile({}, {.steps = executable.report().device.empty() ? kSteps : kDeviceSteps});
  return step;
}

Trace trace_of(Executable& executable) {
  executable.start_trace(kTracedSteps);
  for (int step = 0; step < kTracedSteps; ++step) executable.run();
  return executable.trace();
}

std::string to_string(const ProfiledStep& step) {
  const double more = step.microseconds - step.kernels.step_microseconds();
  const auto captured = [](const KernelTime& kernel) {
    return kernel.by == TimingMethod::captured;
  };
  const char* less = std::ranges::any_of(step.kernels.kernels, captured)
                         ? "less than the step that was recorded"
                         : "less than its kernels one by one";
  return metronome::to_string(step.kernels) +
         fmt::format(
             "a step whose loss is read takes {:.1f} us, {:.1f} us {}\n", step.microseconds,
             std::abs(more),
             more < 0 ? less : "more than its kernels: launches, waits, the host's own work");
}

}  // namespace metronome::commands
