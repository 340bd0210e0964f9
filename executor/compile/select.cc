#include "executor/compile/select.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <map>
#include <optional>

#include "executor/engine/plan.h"
#include "executor/engine/plan_nodes.h"
#include "executor/engine/tuning.h"
#include "executor/support/log.h"
#include "graph/ir/error.h"
#include "graph/ir/hash.h"

namespace metronome::executor::compile {

namespace {

struct FamilyName {
  Family family;
  std::string_view name;       ///< for users
  std::string_view candidate;  ///< of its kernels
};
constexpr FamilyName kFamilies[] = {
    {Family::own, "own", "direct"},
    {Family::mkl, "mkl", "mkl"},
    {Family::onednn, "onednn", "onednn"},
};

/// The name of its candidates; empty for `usual`.
std::string_view candidate_of(Family family) {
  const auto* found = std::ranges::find(kFamilies, family, &FamilyName::family);
  return found == std::end(kFamilies) ? "" : found->candidate;
}

}  // namespace

Family family_of_environment() {
  const char* wanted = std::getenv("METRONOME_KERNELS");
  if (wanted == nullptr || *wanted == '\0') return Family::usual;
  const auto* found = std::ranges::find(kFamilies, wanted, &FamilyName::name);
  if (found != std::end(kFamilies)) return found->family;
  throw RunError(fmt::format(
      "METRONOME_KERNELS={}: no such family of kernels; it is own, mkl or onednn", wanted));
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

std::vector<Candidate> select(const ir::Graph& graph, const Kernels& kernels,
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
      const auto index_of = [&](std::string_view name) {
        const auto found = std::ranges::find(candidates, name, &Candidate::name);
        return static_cast<std::size_t>(found - candidates.begin());
      };
      const std::string key = fmt::format("{} | {}", machine, what);
      const auto kept = file ? file->find(key) : std::nullopt;
      const std::size_t of_family = index_of(candidate_of(options.family));
      const std::size_t of_file = kept ? index_of(*kept) : candidates.size();
      std::string_view how = "fixed rule";
      if (of_family < candidates.size()) {
        chosen = of_family;
        how = "asked for";
      } else if (of_file < candidates.size()) {
        chosen = of_file;
        how = "tuning file";
      } else if (options.tune == Tune::measure &&
                 (!options.room || bench_bytes(inputs, node, candidates) <= options.room->bytes)) {
        const Kernels::Fastest fastest = kernels.fastest(node, inputs, candidates);
        chosen = fastest.index;
        file->add(key, candidates[chosen].name);
        how = fastest.by == TimedBy::launches ? "timed by launches" : "timed";
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

}  // namespace metronome::executor::compile
