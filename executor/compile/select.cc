#include "executor/compile/select.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <typeindex>
#include <utility>

#include "executor/engine/plan.h"
#include "executor/engine/plan_nodes.h"
#include "executor/engine/tuning.h"
#include "executor/support/log.h"
#include "graph/emit/hash.h"
#include "graph/ir/error.h"

namespace metronome::executor::compile {

namespace {

/// Returns the bytes that timing the candidates takes: operands, results and each candidate's
/// scratch.
std::size_t bench_bytes(std::span<const Type> inputs, const Node& node,
                        std::span<const Candidate> candidates) {
  std::size_t bytes = 0;
  for (const Type& type : inputs) bytes += type.bytes();
  for (const Type& type : node.types) bytes += type.bytes();
  for (const Candidate& candidate : candidates) bytes += candidate.scratch_bytes;
  return bytes;
}

/// " | own 1, own 3", as a key's end: an older program's choice does not hold if it did not know
/// one of our own kernels. Libraries' versions are part of the machine's key.
std::string own_names(std::span<const Candidate> candidates) {
  std::string names;
  for (const Candidate& candidate : candidates) {
    if (candidate.maker != Maker::own) continue;
    names += (names.empty() ? " | " : ", ") + name_of(candidate);
  }
  return names;
}

}  // namespace

std::vector<Candidate> select(const ir::Graph& graph, const Kernels& kernels,
                              const CompileOptions& options, PlanReport& plan, Report& report) {
  std::optional<TuningFile> file;
  if (options.tune != Tune::off) file.emplace(options.tuning_file);
  const std::string machine = kernels.machine();
  const std::optional<FreeMemory> free = kernels.free_memory();

  std::vector<Candidate> choices(graph.nodes().size());
  // Ops of users' own may have the names of others.
  std::map<std::pair<std::string, std::type_index>, Candidate> decided;
  for (std::size_t i = 0; i < graph.nodes().size(); ++i) {
    const Node& node = graph.nodes()[i];
    if (!has_kernel(graph, node)) continue;
    const Types inputs = graph.operands(node);
    const std::string what = describe(node, inputs);
    const auto decision = std::pair(what, node.op->kind());
    if (const auto known = decided.find(decision); known != decided.end()) {
      choices[i] = known->second;
      continue;
    }
    const std::vector<Candidate> candidates = kernels.candidates(node, inputs);
    std::size_t chosen = 0;
    if (candidates.size() > 1) {
      const auto index_of = [&](const auto& wanted, const auto& property) {
        if (!wanted) return candidates.size();
        const auto found = std::ranges::find(candidates, *wanted, property);
        return static_cast<std::size_t>(found - candidates.begin());
      };
      const std::string key = fmt::format("{} | {}{}", machine, what, own_names(candidates));
      const auto kept = file ? file->find(key, options.tune == Tune::measure) : std::nullopt;
      const std::size_t preferred = index_of(kernels.preferred(), &Candidate::maker);
      const std::size_t of_file =
          index_of(kept, [](const Candidate& candidate) { return name_of(candidate); });
      std::string_view how = "fixed rule";
      KernelChoice choice{.what = what};
      for (const Candidate& candidate : candidates) {
        choice.candidates.push_back({.name = name_of(candidate)});
      }
      if (preferred < candidates.size()) {
        chosen = preferred;
        how = "asked for";
      } else if (of_file < candidates.size()) {
        chosen = of_file;
        how = "tuning file";
      } else if (options.tune == Tune::measure &&
                 (!free || bench_bytes(inputs, node, candidates) <= free->bytes)) {
        const LoadWatch watch;
        const Kernels::FastestCandidate fastest = kernels.fastest(node, inputs, candidates);
        chosen = fastest.index;
        for (std::size_t k = 0; k < fastest.of_each.size(); ++k) {
          choice.candidates[k].microseconds = fastest.of_each[k] * 1e6;
        }
        how = fastest.by == TimedBy::launches ? "timed by launches" : "timed";
        // On a device the host's cores say nothing of a kernel.
        const bool loaded = fastest.by == TimedBy::host_clock &&
                            timed_under_load(watch, fastest.steady, report.timed_under_load);
        if (loaded) how = "timed under load";
        file->add(key, name_of(candidates[chosen]), loaded);
      }
      choice.chosen = name_of(candidates[chosen]);
      choice.how = how;
      report.choices.push_back(choice);
      plan.choices.push_back(std::move(choice));
    }
    choices[i] = decided[decision] = candidates[chosen];
  }
  try {
    if (file) file->save();
  } catch (const RunError& error) {
    // The choices hold for this executable all the same; the next compile times again.
    logger().warn("kernel choices are not kept: {}", error.what());
  }
  for (const auto& [what, candidate] : decided) {
    report.choices_hash =
        report.choices_hash * 31 +
        hash_of(fmt::format("{} -> {} on {}", what.first, name_of(candidate), candidate.threads));
  }
  return choices;
}

}  // namespace metronome::executor::compile
