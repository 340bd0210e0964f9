#include "executor/compile/select.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <typeindex>
#include <utility>

#include "executor/engine/plan.h"
#include "executor/engine/plan_nodes.h"
#include "executor/engine/tuning.h"
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

/// Decides which kernel runs a node. Each distinct (op, types) is decided once: chosen among its
/// candidates, which are timed if need be, and recorded in the reports.
class KernelChooser {
 public:
  KernelChooser(const Kernels& kernels, const CompileOptions& options, PlanReport& plan,
                Report& report)
      : kernels_(kernels),
        tune_(options.tune),
        machine_(kernels.machine()),
        free_(kernels.free_memory()),
        plan_(plan),
        report_(report) {
    if (tune_ != Tune::off) file_.emplace(options.tuning_file);
  }

  const Candidate& decide(const ir::Graph& graph, const Node& node, SteadyOperands steady) {
    const Types inputs = graph.operands(node);
    const std::string what = describe(node, inputs);
    const std::tuple key(what, node.op->kind(), steady);
    if (const auto known = decided_.find(key); known != decided_.end()) return known->second;
    const std::vector<Candidate> candidates = kernels_.candidates(node, inputs, steady);
    Decision decision;
    if (candidates.size() > 1) {
      decision = choose(node, inputs, steady, what, candidates);
      record(what, candidates, decision);
    }
    return decided_[key] = candidates[decision.chosen];
  }

  /// When all are decided: keeps what was timed, and adds to the hash of choices.
  void finish() {
    if (file_) file_->save_or_warn();
    for (const auto& [what, candidate] : decided_) {
      report_.choices_hash = report_.choices_hash * 31 +
                             hash_of(fmt::format("{} -> {} on {}", std::get<std::string>(what),
                                                 name_of(candidate), candidate.threads));
    }
  }

 private:
  struct Decision {
    std::size_t chosen = 0;  ///< the fixed rule's, unless something else decides
    std::string_view how = "fixed rule";
    std::vector<double> seconds = {};  ///< [candidate], if they were timed
  };

  Decision choose(const Node& node, std::span<const Type> inputs, SteadyOperands steady,
                  const std::string& what, std::span<const Candidate> candidates) {
    const auto index_of = [&](const auto& wanted, const auto& property) {
      if (!wanted) return candidates.size();
      const auto found = std::ranges::find(candidates, *wanted, property);
      return static_cast<std::size_t>(found - candidates.begin());
    };
    const bool measures = tune_ == Tune::measure;
    const std::string key = fmt::format("{} | {}{}", machine_, what, own_names(candidates));
    const auto kept = file_ ? file_->find(key, measures) : std::nullopt;
    const std::size_t preferred = index_of(kernels_.preferred_maker(), &Candidate::maker);
    const std::size_t of_file =
        index_of(kept, [](const Candidate& candidate) { return name_of(candidate); });
    if (preferred < candidates.size()) return {preferred, "asked for"};
    if (of_file < candidates.size()) return {of_file, "tuning file"};
    const bool has_room = !free_ || bench_bytes(inputs, node, candidates) <= free_->bytes;
    return measures && has_room ? time(node, inputs, steady, key, candidates) : Decision{};
  }

  Decision time(const Node& node, std::span<const Type> inputs, SteadyOperands steady,
                const std::string& key, std::span<const Candidate> candidates) {
    const LoadWatch watch;
    const Kernels::FastestCandidate fastest = kernels_.fastest(node, inputs, steady, candidates);
    // On a device the host's cores say nothing of a kernel.
    const bool loaded = fastest.by == TimingMethod::host_clock &&
                        timed_under_load(watch, fastest.steady, report_.timed_under_load);
    file_->add(key, name_of(candidates[fastest.index]), loaded);
    const std::string_view how = loaded                                 ? "timed under load"
                                 : fastest.by == TimingMethod::launches ? "timed by launches"
                                                                        : "timed";
    return {fastest.index, how, fastest.of_each};
  }

  void record(const std::string& what, std::span<const Candidate> candidates,
              const Decision& decision) {
    KernelChoice choice{.what = what,
                        .chosen = name_of(candidates[decision.chosen]),
                        .how = std::string(decision.how)};
    for (const Candidate& candidate : candidates) {
      choice.candidates.push_back({.name = name_of(candidate)});
    }
    for (std::size_t k = 0; k < decision.seconds.size(); ++k) {
      choice.candidates[k].microseconds = decision.seconds[k] * 1e6;
    }
    report_.choices.push_back(choice);
    plan_.choices.push_back(std::move(choice));
  }

  const Kernels& kernels_;
  const Tune tune_;
  const std::string machine_;
  const std::optional<FreeMemory> free_;
  PlanReport& plan_;
  Report& report_;
  std::optional<TuningFile> file_;  ///< present if anything is looked up
  /// By what it is of, the op's type, as ops of users' own may have the names of others, and the
  /// operands that are steady.
  std::map<std::tuple<std::string, std::type_index, SteadyOperands>, Candidate> decided_;
};

}  // namespace

std::vector<Candidate> select(const ir::Graph& graph, const Kernels& kernels,
                              const CompileOptions& options, bool parameters_stay, PlanReport& plan,
                              Report& report) {
  KernelChooser chooser(kernels, options, plan, report);
  std::vector<Candidate> choices;
  for (const Node& node : graph.nodes()) {
    if (!has_kernel(graph, node)) {
      choices.emplace_back();
      continue;
    }
    const SteadyOperands steady = parameters_stay ? parameters_of(graph, node) : SteadyOperands();
    choices.push_back(chooser.decide(graph, node, steady));
  }
  chooser.finish();
  return choices;
}

void require_kernels(const ir::Graph& graph, const Kernels& kernels, const OwnOps& ops,
                     const std::string& target) {
  for (const Node& node : graph.nodes()) {
    if (!has_kernel(graph, node) || kernels.has(*node.op)) continue;
    const std::string_view way_out =
        node.op->effects() ? "what ranks do together needs CompileOptions::world"
        : ops.find(*node.op) == nullptr
            ? "name it in CompileOptions::ops, as own_ops<...>(), with a kernel, or give it the "
              "rule `lower`"
            : "give it the rule `record` or `portable`, or `lower`";
    throw RunError(fmt::format("graph \"{}\": {} has no kernel for {}; {}", graph.name(), target,
                               describe(node), way_out));
  }
}

}  // namespace metronome::executor::compile
