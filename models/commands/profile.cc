#include "models/commands/profile.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

namespace metronome::commands {
namespace {

constexpr int kWarmUp = 3, kSteps = 20;
constexpr int kDeviceSteps = 5;  // each kernel runs hundreds of times in each
constexpr std::size_t kLongest = 10;

using Kernel = Profile::Kernel;

void add(std::vector<Kernel>& kernels, const Kernel& more) {
  const auto found = std::ranges::find(kernels, more.name, &Kernel::name);
  if (found == kernels.end()) {
    kernels.push_back(more);
    return;
  }
  found->microseconds += more.microseconds;
  found->runs += more.runs;
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

/// "the host's clock"; "copies in a graph (40), launches (2)" where kernels were timed in several
/// ways.
std::string ways_of(const Profile& profile) {
  std::vector<std::pair<TimedBy, int>> ways;
  for (const Kernel& kernel : profile.kernels) {
    const auto found = std::ranges::find(ways, kernel.by, &std::pair<TimedBy, int>::first);
    if (found == ways.end()) {
      ways.emplace_back(kernel.by, 1);
    } else {
      ++found->second;
    }
  }
  std::vector<std::string> texts;
  for (const auto& [by, count] : ways) {
    texts.push_back(ways.size() == 1 ? std::string(name_of(by))
                                     : fmt::format("{} ({})", name_of(by), count));
  }
  return fmt::format("{}", fmt::join(texts, ", "));
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
  const Report& report = executable.report();
  Profile profile{place_of(report), report.device.empty() ? kSteps : kDeviceSteps, {}};
  for (int step = 0; step < profile.steps; ++step) {
    for (const KernelTime& time : executable.profile()) {
      add(profile.kernels, {time.kernel, time.microseconds, 1, time.by});
    }
  }
  return profile;
}

std::string to_string(const Profile& profile) {
  const double total = total_of(profile);
  std::string text =
      fmt::format("profile of {} steps on {}: {:.1f} us a step in kernels, by {}\n", profile.steps,
                  profile.where, total / profile.steps, ways_of(profile));
  text += fmt::format("{:>12} {:>8} {:>8}  kernel\n", "us a step", "share", "runs");
  std::vector<Kernel> kinds;
  for (const Kernel& kernel : profile.kernels) {
    Kernel kind = kernel;
    kind.name = kernel.name.substr(0, kernel.name.find(" \""));  // before its path
    add(kinds, kind);
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
                       {"runs", static_cast<double>(kernel.runs) / profile.steps},
                       {"timed_by", name_of(kernel.by)}});
  }
  const nlohmann::ordered_json json = {{"steps", profile.steps}, {"kernels", kernels}};
  return json.dump(1) + "\n";
}

}  // namespace metronome::commands
