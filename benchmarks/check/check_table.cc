#include "benchmarks/check/check_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace metronome::benchmarks {

std::string check_head() {
  return fmt::format("{:<18}{:>7}{:>12}{:>10}{:>10}{:>10}{:>9}{:>14}{:>14}", "model", "right",
                     "gradients", "of f64", "forward", "arena", "bound", "flips planned",
                     "flips eager");
}

std::string check_row(const Check& check) {
  constexpr double kMiB = 1 << 20;
  std::int64_t planned = 0, eager = 0;
  for (const NodeFlips& f : check.flips) planned += f.planned, eager += f.eager;
  std::string text = fmt::format(
      "{:<18}{:>7}{:>12.1e}{:>10.1e}{:>10.1e}{:>6.1f} MiB{:>9.3f}{:>14}{:>14}   {:.1f} s",
      check.model, check.wrong.empty() ? "yes" : "NO", check.gradient_error, check.exact_error,
      check.forward_error, static_cast<double>(check.arena_bytes) / kMiB,
      static_cast<double>(check.arena_bytes) / static_cast<double>(check.lower_bound_bytes),
      planned, eager, check.seconds);
  for (const std::string& line : check.wrong) text += "\n  " + line;
  return text;
}

std::string check_report(std::span<const Check> checks) {
  std::string text = fmt::format("{:<52}{:>12}{:>9}{:>9}{:>10}\n", "decisions that are not f64's",
                                 "decisions", "planned", "eager", "farthest");
  std::map<std::string, NodeError> worst;
  for (const Check& check : checks) {
    for (const NodeFlips& f : check.flips) {
      if (f.planned == 0 && f.eager == 0) continue;
      text += fmt::format("{:<52}{:>12}{:>9}{:>9}{:>10.1f}\n",
                          fmt::format("{}: {}", check.model, f.node), f.decisions, f.planned,
                          f.eager, f.farthest);
    }
    for (const auto& [op, error] : check.nodes) {
      NodeError& all = worst[op];
      const int nodes = all.nodes + error.nodes;
      if (error.planned >= all.planned) all = error, all.node = check.model + ": " + error.node;
      all.nodes = nodes;
    }
  }
  text += fmt::format("\n{:<24}{:>7}{:>11}{:>11}   worst node\n", "error from f64", "nodes",
                      "planned", "libtorch");
  for (const auto& [op, error] : worst) {
    text += fmt::format("{:<24}{:>7}{:>11.1e}{:>11.1e}   {}\n", op, error.nodes, error.planned,
                        error.libtorch, error.node);
  }
  return text;
}

}  // namespace metronome::benchmarks
