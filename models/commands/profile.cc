#include "models/commands/profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace metronome::commands {
namespace {

constexpr int kWarmUp = 3, kSteps = 20;
constexpr std::size_t kLongest = 10;

using Kernel = Profile::Kernel;

void add(std::vector<Kernel>& kernels, const std::string& name, double microseconds, int runs) {
  const auto found = std::ranges::find(kernels, name, &Kernel::name);
  Kernel& kernel = found == kernels.end() ? kernels.emplace_back(Kernel{name}) : *found;
  kernel.microseconds += microseconds;
  kernel.runs += runs;
}

/// Longest first.
std::vector<Kernel> sorted(std::vector<Kernel> kernels) {
  std::ranges::stable_sort(kernels, std::greater<>(), &Kernel::microseconds);
  return kernels;
}

double total_of(const Profile& profile) {
  double total = 0;
  for (const Kernel& kernel : profile.kernels) total += kernel.microseconds;
  return total;
}

std::string line_of(const Kernel& kernel, int steps, double total) {
  return fmt::format("{:12.1f} {:6.1f} % {:8.1f}  {}\n", kernel.microseconds / steps,
                     total > 0 ? 100 * kernel.microseconds / total : 0,
                     static_cast<double>(kernel.runs) / steps, kernel.name);
}

void fill(Executable& executable, const Value& input) {
  at::Tensor tensor = executable.input(input);
  tensor.is_floating_point() ? tensor.normal_() : tensor.zero_();
}

std::string place_of(const Report& report) {
  if (!report.device.empty()) return report.device;
  return fmt::format("{} thread{}", report.threads, report.threads == 1 ? "" : "s");
}

}  // namespace

Profile profile_of(Executable& executable, std::span<const Value> inputs) {
  for (const Value& input : inputs) fill(executable, input);
  for (int step = 0; step < kWarmUp; ++step) executable.run();
  Profile profile{place_of(executable.report()), kSteps, {}};
  for (int step = 0; step < kSteps; ++step) {
    for (const KernelTime& time : executable.profile()) {
      add(profile.kernels, time.kernel, time.microseconds, 1);
    }
  }
  return profile;
}

std::string to_string(const Profile& profile) {
  const double total = total_of(profile);
  std::string text = fmt::format("profile of {} steps on {}: {:.1f} us a step in kernels\n",
                                 profile.steps, profile.where, total / profile.steps);
  text += fmt::format("{:>12} {:>8} {:>8}  kernel\n", "us a step", "share", "runs");
  std::vector<Kernel> kinds;
  for (const Kernel& kernel : profile.kernels) {
    const std::string kind = kernel.name.substr(0, kernel.name.find(" \""));  // before its path
    add(kinds, kind, kernel.microseconds, kernel.runs);
  }
  for (const Kernel& kind : sorted(kinds)) text += line_of(kind, profile.steps, total);
  text += "the longest\n";
  std::vector<Kernel> longest = sorted(profile.kernels);
  if (longest.size() > kLongest) longest.resize(kLongest);
  for (const Kernel& kernel : longest) text += line_of(kernel, profile.steps, total);
  return text;
}

std::string to_json(const Profile& profile) {
  nlohmann::ordered_json kernels = nlohmann::ordered_json::array();
  for (const Kernel& kernel : profile.kernels) {
    kernels.push_back({{"kernel", kernel.name},
                       {"us", kernel.microseconds / profile.steps},
                       {"runs", static_cast<double>(kernel.runs) / profile.steps}});
  }
  const nlohmann::ordered_json json = {{"steps", profile.steps}, {"kernels", kernels}};
  return json.dump(1) + "\n";
}

}  // namespace metronome::commands
