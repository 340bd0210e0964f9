#include "models/commands/profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <vector>

namespace metronome::commands {
namespace {

constexpr int kWarmUp = 3, kSteps = 20;
constexpr std::size_t kLongest = 10;

struct Row {
  std::string name;
  double microseconds = 0;  ///< in all steps
  int runs = 0;
};

/// Longest first.
std::vector<Row> sorted(const std::map<std::string, Row>& rows) {
  std::vector<Row> all;
  for (const auto& [name, row] : rows) all.push_back(row);
  std::ranges::stable_sort(all, std::greater<>(), &Row::microseconds);
  return all;
}

void add(std::map<std::string, Row>& rows, const std::string& name, double microseconds) {
  Row& row = rows[name];
  row.name = name;
  row.microseconds += microseconds;
  ++row.runs;
}

std::string line_of(const Row& row, double total) {
  return fmt::format("{:12.1f} {:6.1f} % {:8.1f}  {}\n", row.microseconds / kSteps,
                     total > 0 ? 100 * row.microseconds / total : 0,
                     static_cast<double>(row.runs) / kSteps, row.name);
}

void fill(Executable& executable, const Value& input) {
  at::Tensor tensor = executable.input(input);
  tensor.is_floating_point() ? tensor.normal_() : tensor.zero_();
}

}  // namespace

std::string profile_of(Executable& executable, std::span<const Value> inputs) {
  for (const Value& input : inputs) fill(executable, input);
  for (int step = 0; step < kWarmUp; ++step) executable.run();
  std::map<std::string, Row> kinds, kernels;
  double total = 0;
  for (int step = 0; step < kSteps; ++step) {
    for (const auto& [kernel, microseconds] : executable.profile()) {
      add(kernels, kernel, microseconds);
      add(kinds, kernel.substr(0, kernel.find(" \"")), microseconds);  // before its path
      total += microseconds;
    }
  }
  const int threads = executable.report().threads;
  std::string text =
      fmt::format("profile of {} steps on {} thread{}: {:.1f} us a step in kernels\n", kSteps,
                  threads, threads == 1 ? "" : "s", total / kSteps);
  text += fmt::format("{:>12} {:>8} {:>8}  kernel\n", "us a step", "share", "runs");
  for (const Row& row : sorted(kinds)) text += line_of(row, total);
  text += "the longest\n";
  std::vector<Row> longest = sorted(kernels);
  if (longest.size() > kLongest) longest.resize(kLongest);
  for (const Row& row : longest) text += line_of(row, total);
  return text;
}

}  // namespace metronome::commands
