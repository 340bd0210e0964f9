// The limit by which values are chosen is one of a sketch, and the arena is what the planner makes
// of it. So the budget is aimed at in some attempts, each with the limit that the last one
// suggests:
//
//   attempt   rounds until the limit is kept to: choose, compute_again, place
//   round     one split of the order; the next round splits what it left
//   last      the lowest peak, where no attempt fits
//
// The tuning file keeps the rounds of what was chosen: "split:node.output node.output/split:...".
#include "executor/compile/fit_budget.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <sstream>
#include <string>
#include <tuple>
#include <typeindex>
#include <utility>
#include <vector>

#include "executor/compile/make_plan.h"
#include "executor/engine/plan_nodes.h"
#include "executor/engine/tuning.h"
#include "executor/support/load_watch.h"
#include "graph/check/verify.h"
#include "graph/emit/hash.h"
#include "graph/passes/compute_again.h"
#include "graph/plan/choose_recomputed.h"

namespace metronome::executor::compile {
namespace {

// ---- what kernels cost ---------------------------------------------------------------------

/// Operations, and bytes, that one core is taken to do in a second where nothing is timed.
constexpr double kRate = 1e10;

std::size_t bytes_of(const Node& node, std::span<const Type> inputs, const Candidate& choice) {
  std::size_t bytes = choice.scratch_bytes;
  for (const Type& type : inputs) bytes += type.bytes();
  for (const Type& type : node.types) bytes += type.bytes();
  return bytes;
}

/// The seconds of kernels, each op, types and kernel looked at once.
class KernelTimes {
 public:
  KernelTimes(const Kernels& kernels, const CompileOptions& options)
      : kernels_(kernels),
        free_(kernels.free_memory()),
        measures_(options.tune == Tune::measure && kernels.run()),
        threads_(options.threads) {}

  double of(const Plan& plan, std::int32_t index) {
    const Node& node = plan.graph.nodes()[index];
    const Types inputs = plan.graph.operands(node);
    const Candidate& choice = plan.choices[index];
    const auto [found, is_new] =
        known_.try_emplace({describe(node, inputs), node.op->kind(), name_of(choice)}, 0.0);
    if (!is_new) return found->second;
    const std::size_t bytes = bytes_of(node, inputs, choice);
    if (measures_ && (!free_ || bytes <= free_->bytes)) {
      return found->second = kernels_.fastest(node, inputs, {}, {&choice, 1}).seconds;
    }
    const double work = node.op->flops(inputs, node.types) + static_cast<double>(bytes);
    return found->second = work / kRate / threads_;
  }

 private:
  const Kernels& kernels_;
  const std::optional<FreeMemory> free_;
  const bool measures_;
  const int threads_;
  std::map<std::tuple<std::string, std::type_index, std::string>, double> known_;
};

// ---- plans with clones ---------------------------------------------------------------------

/// A plan, and what it computes again.
struct FittedPlan {
  Plan plan;
  double seconds = 0;       ///< of all clones
  std::string rounds = {};  ///< as the tuning file keeps them

  std::size_t arena() const { return plan.memory.arena_bytes; }
};

RecomputedValue describe_clone(const ir::Graph& graph, std::int32_t index,
                               const std::vector<ValueId>& dropped, double seconds) {
  const Node& node = graph.nodes()[index];
  RecomputedValue clone{.type = to_string(node.types[0]),
                        .bytes = 0,
                        .path = node.path,
                        .line = to_string(node.line),
                        .microseconds = seconds * 1e6};
  for (std::int32_t k = 0; k < static_cast<std::int32_t>(node.types.size()); ++k) {
    if (!std::ranges::binary_search(dropped, ValueId{index, k})) continue;
    clone.bytes += node.types[static_cast<std::size_t>(k)].bytes();
  }
  return clone;
}

FittedPlan with_clones(const FittedPlan& made, const plan::Recomputation& recomputation,
                       const Settings& settings, KernelTimes& times) {
  const Plan& from = made.plan;
  auto [graph, origins] = passes::compute_again(from.graph, recomputation);
  check::verify(graph, "compute_again");
  Plan plan{from.mode, from.shape, from.average, std::move(graph), {}, {}, {}, {}, from.report};
  for (const std::int32_t origin : origins) plan.choices.push_back(from.choices[origin]);
  double seconds = made.seconds;
  for (const plan::Recomputation::Clone& clone : recomputation.clones) {
    const double added = times.of(from, clone.node);
    seconds += added;
    plan.report.recomputed.push_back(
        describe_clone(from.graph, clone.node, recomputation.dropped, added));
  }
  std::string rounds = made.rounds;
  rounds += fmt::format("{}{}:", rounds.empty() ? "" : "/", recomputation.split);
  for (const ValueId value : recomputation.dropped) {
    rounds += fmt::format("{}.{} ", value.node, value.output);
  }
  return {place(std::move(plan), settings), seconds, std::move(rounds)};
}

// ---- the choice ----------------------------------------------------------------------------

class BudgetFitter {
 public:
  BudgetFitter(const Plan& plan, std::size_t budget, const Settings& settings,
               const Kernels& kernels, const CompileOptions& options, Report& report)
      : budget_(budget),
        settings_(settings),
        hasty_(settings),
        options_(options),
        report_(report),
        machine_(kernels.machine()),
        times_(kernels, options),
        base_{plan} {
    hasty_.plan_work = 0;
  }

  Plan run() {
    std::optional<TuningFile> file;
    if (options_.tune != Tune::off) file.emplace(options_.tuning_file);
    const std::string key = tuning_key();
    const auto kept = file ? file->find(key, options_.tune == Tune::measure) : std::nullopt;
    const LoadWatch watch;
    if (kept) {
      FittedPlan repeated = search_layout(repeat(*kept));
      if (fits(repeated)) return std::move(repeated.plan);
    }
    FittedPlan chosen = search_layout(choose(budget_));
    // The smallest is told: a budget of a byte less may lead to a smaller one.
    for (int i = 0; i < kAttempts && !fits(chosen) && chosen.arena() > 0; ++i) {
      FittedPlan lower = choose(chosen.arena() - 1);
      if (lower.arena() >= chosen.arena()) break;
      chosen = std::move(lower);
    }
    if (file && fits(chosen)) {
      file->add(key, chosen.rounds, timed_under_load(watch, true, report_.timed_under_load));
      file->save_or_warn();
    }
    return std::move(chosen.plan);
  }

 private:
  static constexpr int kAttempts = 4;
  static constexpr int kRounds = 4;
  /// The work of all choices together, some seconds, and the part of what is left that one may use.
  static constexpr std::size_t kWork = 600'000'000, kPart = 4;
  /// An arena that leaves no more of the budget than this part is not worth another attempt.
  static constexpr double kNear = 0.02;
  /// The next limit where one was not reached: a lower one leads to other choices.
  static constexpr double kLower = 0.85;

  bool fits(const FittedPlan& fitted) const { return fitted.arena() <= budget_; }

  /// The key of a plan, its order and kernels, and a budget.
  std::string tuning_key() const {
    std::string text = base_.plan.graph.print();
    for (const std::int32_t node : base_.plan.schedule.order) text += fmt::format("{} ", node);
    for (const Candidate& choice : base_.plan.choices) text += name_of(choice);
    return fmt::format("{} | compute again {:016x} | in {} bytes", machine_, hash_of(text),
                       budget_);
  }

  FittedPlan choose(std::size_t bytes) {
    std::optional<FittedPlan> best;
    const auto budget = static_cast<double>(bytes);
    double limit = budget;
    for (int attempt = 0; attempt < kAttempts && limit >= 1; ++attempt) {
      const auto [made, sketched] = attempt_at(static_cast<std::size_t>(limit));
      const double room = budget - static_cast<double>(made.arena());
      if (room >= 0) {
        if (!best || made.seconds < best->seconds) best = made;
        if (room <= kNear * budget) break;
        limit += 0.5 * room;
      } else {
        if (best) break;
        // The arena is so much above the sketch, or the limit cannot be reached.
        const auto peak = static_cast<double>(sketched);
        limit = peak <= limit ? peak + 1.1 * room : kLower * limit;
      }
    }
    // The lowest peak may take less time than what took several splits.
    if (best && best->rounds.find('/') == std::string::npos) return std::move(*best);
    FittedPlan lowest = attempt_at(0).first;
    if (!best || (lowest.arena() <= bytes && lowest.seconds < best->seconds)) {
      best = std::move(lowest);
    }
    return std::move(*best);
  }

  /// A plan, and the peak of its sketch.
  std::pair<FittedPlan, std::size_t> attempt_at(std::size_t limit) {
    FittedPlan made = base_;
    std::size_t peak = SIZE_MAX;
    for (int round = 0; round < kRounds && peak > limit; ++round) {
      const std::size_t work = work_ / kPart;
      work_ -= work;
      const plan::ChosenRecomputation chosen = plan::choose_recomputed(
          made.plan.graph, made.plan.schedule, made.plan.scratch_bytes,
          [&](std::int32_t node) { return times_.of(made.plan, node); }, limit, work, hasty_);
      peak = chosen.peak_bytes;
      if (chosen.made.clones.empty()) break;
      FittedPlan next = with_clones(made, chosen.made, hasty_, times_);
      if (next.arena() >= made.arena()) break;
      made = std::move(next);
    }
    return {std::move(made), peak};
  }

  /// The same plan, whose layout is searched for as long as that of any other plan.
  FittedPlan search_layout(FittedPlan fitted) const {
    if (fitted.arena() == fitted.plan.memory.lower_bound) return fitted;
    const Plan& plan = fitted.plan;
    Plan searched = place(
        {plan.mode, plan.shape, plan.average, plan.graph, plan.choices, {}, {}, {}, plan.report},
        settings_);
    if (searched.memory.arena_bytes < fitted.arena()) fitted.plan = std::move(searched);
    return fitted;
  }

  /// The plan of these rounds, or of those before one that cannot be read.
  FittedPlan repeat(const std::string& rounds) {
    FittedPlan made = base_;
    std::istringstream all(rounds);
    for (std::string round; std::getline(all, round, '/');) {
      std::istringstream in(round);
      std::int32_t split = -1;
      std::vector<ValueId> dropped;
      char between = 0;
      in >> split >> between;
      for (ValueId value; in >> value.node >> between >> value.output;) dropped.push_back(value);
      const plan::Recomputation recomputation =
          plan::repeat_recomputation(made.plan.graph, made.plan.schedule, split, dropped, hasty_);
      if (recomputation.clones.empty()) break;
      made = with_clones(made, recomputation, hasty_, times_);
    }
    return made;
  }

  const std::size_t budget_;
  const Settings& settings_;
  Settings hasty_;  // of attempts: layouts are not searched for
  std::size_t work_ = kWork;
  const CompileOptions& options_;
  Report& report_;
  const std::string machine_;
  KernelTimes times_;
  const FittedPlan base_;
};

}  // namespace

Plan fit_to_budget(const Plan& plan, std::size_t budget, const Settings& settings,
                   const Kernels& kernels, const CompileOptions& options, Report& report) {
  return BudgetFitter(plan, budget, settings, kernels, options, report).run();
}

}  // namespace metronome::executor::compile
