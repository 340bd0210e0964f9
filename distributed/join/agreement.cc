#include "distributed/join/agreement.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <sstream>
#include <vector>

#include "distributed/ops/collective_ops.h"
#include "graph/ir/error.h"

namespace metronome::distributed {
namespace {

std::string collective(const ir::Graph& graph, const Node& node) {
  std::string text =
      fmt::format("{}({}) of {}, {} bytes, \"{}\" {}", node.op->name(), node.op->attributes(),
                  to_string(node.types[0]), node.types[0].bytes(), node.path, to_string(node.line));
  if (node.guard.present()) {
    text += fmt::format(", in the region of \"{}\"", graph.node(node.guard).path);
  }
  return text;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::istringstream in(text);
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

/// "rank 0", "ranks 1, 3"
std::string ranks_text(const std::vector<int>& ranks) {
  return fmt::format("rank{} {}", ranks.size() == 1 ? "" : "s", fmt::join(ranks, ", "));
}

}  // namespace

std::string steps_of(std::span<const ir::Graph* const> declared,
                     std::span<const executor::Plan> plans) {
  std::string text;
  for (const ir::Graph* graph : declared) text += graph->print();
  for (const executor::Plan& plan : plans) {
    text += fmt::format("plan to {}\n", name_of(plan.report));
    for (const std::int32_t index : plan.schedule.order) {
      const Node& node = plan.graph.nodes()[index];
      if (is_collective(*node.op)) text += collective(plan.graph, node) + '\n';
    }
  }
  return text;
}

void require_same_steps(Communicator& ranks, const std::string& graph, const std::string& steps) {
  const std::vector<std::string> all = ranks.exchange(steps);
  if (std::ranges::all_of(all, [&](const std::string& of_rank) { return of_rank == all[0]; })) {
    return;
  }
  std::vector<std::vector<std::string>> lines;
  for (const std::string& text : all) lines.push_back(lines_of(text));
  const auto line_at = [&](std::size_t rank, std::size_t i) {
    return i < lines[rank].size() ? lines[rank][i] : "nothing more";
  };
  std::size_t first = 0;
  const auto equal_at = [&](std::size_t i) {
    for (std::size_t rank = 1; rank < lines.size(); ++rank) {
      if (line_at(rank, i) != line_at(0, i)) return false;
    }
    return true;
  };
  while (equal_at(first)) ++first;
  std::map<std::string, std::vector<int>> who;
  for (std::size_t rank = 0; rank < lines.size(); ++rank) {
    std::string line = line_at(rank, first);
    line.erase(0, line.find_first_not_of(' '));
    who[line].push_back(static_cast<int>(rank));
  }
  std::vector<std::pair<std::vector<int>, std::string>> by_rank;
  for (const auto& [line, who_says] : who) by_rank.emplace_back(who_says, line);
  std::ranges::sort(by_rank);
  std::string text = fmt::format("graph \"{}\": ranks are about to run different steps", graph);
  for (const auto& [who_says, line] : by_rank) {
    text += fmt::format("\n  {:<10} {}", ranks_text(who_says), line);
  }
  throw RunError(text +
                 "\n  way out    start the same program with the same arguments on each rank, and "
                 "branch on the rank in none of its graphs");
}

}  // namespace metronome::distributed
