#include "executor/engine/profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <utility>

#include "graph/ir/node.h"

namespace metronome {
namespace {

constexpr std::size_t kLongestKernels = 10;
constexpr std::size_t kLongestParts = 20;  // of lines, of ops

void add(ProfilePart& part, const ProfilePart& more) {
  part.microseconds += more.microseconds;
  part.runs += more.runs;
  part.bytes += more.bytes;
  part.flops += more.flops;
}

template <class Name>
std::vector<ProfilePart> group_kernels(const Profile& profile, const Name& name_of_kernel) {
  std::vector<ProfilePart> parts;
  for (const KernelTime& kernel : profile.kernels) {
    const std::string name(name_of_kernel(kernel));
    auto found = std::ranges::find(parts, name, &ProfilePart::name);
    if (found == parts.end()) found = parts.insert(parts.end(), ProfilePart{name});
    add(*found, {.name = name,
                 .microseconds = kernel.microseconds,
                 .runs = kernel.runs,
                 .bytes = kernel.runs * kernel.bytes,
                 .flops = kernel.runs * kernel.flops});
  }
  std::ranges::stable_sort(parts, std::greater<>(), &ProfilePart::microseconds);
  return parts;
}

/// Returns the scope in the forward pass: "tower/3/linear" of
/// "optimizer/tower/3/linear/weight/adam_update" and of "tower/3/linear.grad/matmul". At most
/// `depth` parts.
std::string scope_of(const KernelTime& kernel, int depth) {
  if (kernel.path.empty()) return kernel.phase == Phase::executor ? "" : kernel.op;
  std::string_view path = kernel.path;
  const std::string root = fmt::format("{}/", kMomentsRoot);
  if (path.starts_with(root)) {
    path.remove_prefix(root.size());
    // Work for all parameters together: rates, clipping, counters.
    if (path.find('/') == path.npos) return std::string(kMomentsRoot);
  }
  constexpr std::string_view kGradient = ".grad";
  std::string scope;
  for (int part = 0; part < depth && !path.empty(); ++part) {
    const std::size_t slash = path.find('/');
    std::string_view name = path.substr(0, slash);
    path.remove_prefix(slash == path.npos ? path.size() : slash + 1);
    const bool ends = name.ends_with(kGradient);
    if (ends) name.remove_suffix(kGradient.size());
    scope += scope.empty() ? std::string(name) : "/" + std::string(name);
    if (ends) break;
  }
  return scope.empty() ? kernel.op : scope;
}

/// The others as one part: "12 others".
std::vector<ProfilePart> longest(std::vector<ProfilePart> parts, std::size_t most) {
  if (parts.size() <= most) return parts;
  ProfilePart others{.name = fmt::format("{} others", parts.size() - most)};
  for (std::size_t i = most; i < parts.size(); ++i) add(others, parts[i]);
  parts.resize(most);
  parts.push_back(std::move(others));
  return parts;
}

/// 1e9 a second; one a microsecond is a thousandth of it.
double giga_a_second(double count, double microseconds) {
  return microseconds > 0 ? count * 1e-3 / microseconds : 0;
}

std::string line_of(const ProfilePart& part, double total) {
  return fmt::format("{:12.1f} {:6.1f} % {:8.1f} {:8.1f} {:8.1f}  {}\n", part.microseconds,
                     total > 0 ? 100 * part.microseconds / total : 0, part.runs,
                     giga_a_second(part.bytes, part.microseconds),
                     giga_a_second(part.flops, part.microseconds),
                     part.name.empty() ? "(the executor's own)" : part.name);
}

std::string table(const std::string& heading, const std::vector<ProfilePart>& parts, double total) {
  std::string text = fmt::format("{:>12} {:>8} {:>8} {:>8} {:>8}  {}\n", "us a step", "share",
                                 "runs", "GB/s", "GFLOP/s", heading);
  for (const ProfilePart& part : parts) text += line_of(part, total);
  return text;
}

/// "the host's clock"; "copies in a graph (40), launches (2)" where kernels were timed in several
/// ways.
std::string ways_of(const Profile& profile) {
  std::vector<std::pair<TimingMethod, int>> ways;
  for (const KernelTime& kernel : profile.kernels) {
    const auto found = std::ranges::find(ways, kernel.by, &std::pair<TimingMethod, int>::first);
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

/// ": 45.0 us from the first to the last, of which none runs for 3.0 us; they overlap for 1.2 us".
std::string gaps_text(const Profile& profile) {
  const auto captured = [](const KernelTime& kernel) {
    return kernel.by == TimingMethod::captured;
  };
  if (std::ranges::none_of(profile.kernels, captured)) return "";
  return fmt::format(
      ": {:.1f} us from the first to the last, of which none runs for {:.1f} us; they overlap for "
      "{:.1f} us",
      profile.step_microseconds(), profile.idle_microseconds, profile.overlap_microseconds);
}

}  // namespace

std::string_view name_of(Phase phase) {
  switch (phase) {
    case Phase::forward:
      return "forward";
    case Phase::backward:
      return "backward";
    case Phase::update:
      return "update";
    case Phase::executor:
      break;
  }
  return "executor";
}

double Profile::microseconds() const {
  double total = 0;
  for (const KernelTime& kernel : kernels) total += kernel.microseconds;
  return total;
}

std::vector<ProfilePart> by_op(const Profile& profile) {
  return group_kernels(profile, [](const KernelTime& kernel) {
    return kernel.members.empty() ? kernel.op : fmt::format("group of {}", kernel.members);
  });
}
std::vector<ProfilePart> by_line(const Profile& profile) {
  return group_kernels(profile, [](const KernelTime& kernel) {
    return kernel.line.empty() ? std::string("(no line)") : kernel.line;
  });
}
std::vector<ProfilePart> by_phase(const Profile& profile) {
  return group_kernels(profile, [](const KernelTime& kernel) { return name_of(kernel.phase); });
}
std::vector<ProfilePart> by_scope(const Profile& profile, int depth) {
  return group_kernels(
      profile, [&](const KernelTime& kernel) { return scope_of(kernel, std::max(depth, 1)); });
}

std::string to_string(const Profile& profile) {
  const double total = profile.microseconds();
  std::string text = fmt::format(
      "graph \"{}\", {} step{} to {} on {}: {:.1f} us a step in kernels, each the "
      "median of its runs, by {}{}{}\n",
      profile.graph, profile.steps, profile.steps == 1 ? "" : "s", name_of(profile.mode),
      profile.where, total, ways_of(profile), gaps_text(profile),
      profile.under_load ? ", under load" : "");
  text += table("part of the step", by_phase(profile), total);
  text += table("scope", by_scope(profile), total);
  text += table("line", longest(by_line(profile), kLongestParts), total);
  text += table("op", longest(by_op(profile), kLongestParts), total);
  std::vector<ProfilePart> kernels =
      group_kernels(profile, [](const KernelTime& kernel) { return kernel.kernel; });
  if (kernels.size() > kLongestKernels) kernels.resize(kLongestKernels);
  text += table("the longest kernels", kernels, total);
  return text;
}

}  // namespace metronome
