#include "executor/select.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>

#include "executor/log.h"
#include "executor/plan.h"
#include "executor/tuning.h"
#include "graph/error.h"
#include "graph/hash.h"

namespace metronome {

std::string describe(const Node& node, std::span<const Type> inputs) {
  std::vector<std::string> texts;
  for (const Type& t : inputs) texts.push_back(to_string(t));
  const std::string attributes = node.op->attributes();
  return fmt::format("{}{} {}", node.op->name(),
                     attributes.empty() ? "" : fmt::format(" {{{}}}", attributes),
                     fmt::join(texts, " x "));
}

namespace {

/// What timing the candidates takes: operands, results and each candidate's scratch.
std::size_t bench_bytes(std::span<const Type> inputs, const Node& node,
                        std::span<const Candidate> candidates) {
  std::size_t bytes = 0;
  for (const Type& type : inputs) bytes += type.bytes();
  for (const Type& type : node.types) bytes += type.bytes();
  for (const Candidate& candidate : candidates) bytes += candidate.scratch_bytes;
  return bytes;
}

}  // namespace

std::vector<Candidate> select(const Graph& graph, const Kernels& kernels,
                              const SelectOptions& options, Report& report) {
  std::optional<TuningFile> file;
  if (options.tune != Tune::off) file.emplace(options.tuning_file);
  const std::string machine = kernels.machine();

  std::vector<Candidate> choices(graph.nodes().size());
  std::map<std::string, Candidate> decided;
  for (std::size_t i = 0; i < graph.nodes().size(); ++i) {
    const Node& node = graph.nodes()[i];
    if (!has_kernel(graph, node)) continue;
    Types inputs;
    for (const ValueId id : node.inputs) inputs.push_back(graph.type(id));
    const std::string what = describe(node, inputs);
    if (const auto known = decided.find(what); known != decided.end()) {
      choices[i] = known->second;
      continue;
    }
    const std::vector<Candidate> candidates = kernels.candidates(node, inputs);
    std::size_t chosen = 0;
    if (candidates.size() > 1) {
      const std::string key = fmt::format("{} | {}", machine, what);
      const auto kept = file ? file->find(key) : std::nullopt;
      const auto named = std::find_if(candidates.begin(), candidates.end(),
                                      [&](const auto& c) { return kept && c.name == *kept; });
      std::string_view how = "fixed rule";
      if (named != candidates.end()) {
        chosen = static_cast<std::size_t>(named - candidates.begin());
        how = "tuning file";
      } else if (options.tune == Tune::measure &&
                 (!options.room || bench_bytes(inputs, node, candidates) <= options.room->bytes)) {
        chosen = kernels.fastest(node, inputs, candidates);
        file->add(key, candidates[chosen].name);
        how = "timed";
      }
      report.choices.push_back(fmt::format("{} -> {} ({})", what, candidates[chosen].name, how));
    }
    choices[i] = decided[what] = candidates[chosen];
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
        hash_of(fmt::format("{} -> {} on {}", what, candidate.name, candidate.threads));
  }
  return choices;
}

}  // namespace metronome
