#include "executor/compile/layout_chooser.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "executor/compile/select.h"
#include "executor/engine/plan_nodes.h"
#include "executor/engine/tuning.h"
#include "graph/emit/hash.h"

namespace metronome::executor::compile {
namespace {

constexpr std::string_view kPlain = "plain", kLaidOut = "channels last";

/// So much of the plain kernels' time may the others take: a difference within the noise changes
/// nothing.
constexpr double kShare = 0.97;

/// Ops and types alone: attributes may tell a rank, and the ranks are to find one entry.
std::string text_of(const ir::Graph& graph) {
  std::string text;
  for (const Node& node : graph.nodes()) {
    text += node.op->name();
    for (const Type& type : node.types) text += " " + to_string(type);
    text += "\n";
  }
  return text;
}

/// Kernels of one kind: an op of the same attributes on operands of the same types.
struct KernelKind {
  const Node* node = nullptr;
  Types inputs;
  Candidate choice;
  int plain = 0, laid_out = 0;  ///< how many each graph has
};

class KernelCounts {
 public:
  KernelCounts(const Kernels& kernels, const CompileOptions& options)
      : kernels_(kernels), options_(options) {}

  /// Counts the kernels of a graph, by the choices that `select` makes for it.
  void add(const ir::Graph& graph, int KernelKind::* count) {
    PlanReport plan;
    Report report;
    const std::vector<Candidate> choices = select(graph, kernels_, options_, false, plan, report);
    for (std::size_t i = 0; i < choices.size(); ++i) {
      const Node& node = graph.nodes()[i];
      // Collectives are the same in both, and cannot be timed on one rank.
      if (!has_kernel(graph, node) || node.op->effects()) continue;
      Types inputs = graph.operands(node);
      KernelKind& kind = kinds_[describe(node, inputs)];
      kind.node = &node, kind.inputs = std::move(inputs), kind.choice = choices[i];
      ++(kind.*count);
    }
  }

  struct Seconds {
    double plain = 0, laid_out = 0;
  };
  /// The times of those that one graph has more of than the other.
  Seconds time() const {
    Seconds sum;
    for (const auto& [what, kind] : kinds_) {
      const int both = std::min(kind.plain, kind.laid_out);
      if (kind.plain == kind.laid_out) continue;
      const double seconds =
          kernels_.fastest(*kind.node, kind.inputs, {}, std::span(&kind.choice, 1)).seconds;
      sum.plain += seconds * (kind.plain - both);
      sum.laid_out += seconds * (kind.laid_out - both);
    }
    return sum;
  }

 private:
  const Kernels& kernels_;
  const CompileOptions& options_;
  std::map<std::string, KernelKind> kinds_;
};

}  // namespace

bool wants_layouts(const ir::Graph& graph, const LayoutWishes& wishes) {
  return wishes.wants && std::ranges::any_of(graph.nodes(), [&](const Node& node) {
           if (!has_kernel(graph, node)) return false;
           const Types inputs = graph.operands(node);
           return node.op->flops(inputs, node.types) >= wishes.least_flops &&
                  wishes.wants(node.op, inputs).has_value();
         });
}

bool prefers_layouts(const ir::Graph& plain, const ir::Graph& laid_out, const Kernels& kernels,
                     const CompileOptions& options, PlanReport& plan, Report& report) {
  if (options.tune == Tune::off) return false;
  const bool measures = options.tune == Tune::measure;
  const std::string key = fmt::format("{} | layout of images in a step {:016x}", kernels.machine(),
                                      hash_of(text_of(plain)));
  TuningFile file(options.tuning_file);
  KernelChoice choice{
      .what = "layout of images",
      .chosen = file.find(key, measures).value_or(""),
      .how = "tuning file",
      .candidates = {{.name = std::string(kPlain)}, {.name = std::string(kLaidOut)}}};
  if (choice.chosen != kPlain && choice.chosen != kLaidOut) {
    if (!measures) return false;
    KernelCounts counts(kernels, options);
    counts.add(plain, &KernelKind::plain);
    counts.add(laid_out, &KernelKind::laid_out);
    const KernelCounts::Seconds seconds = counts.time();
    choice.candidates[0].microseconds = seconds.plain * 1e6;
    choice.candidates[1].microseconds = seconds.laid_out * 1e6;
    choice.chosen = seconds.laid_out < kShare * seconds.plain ? kLaidOut : kPlain;
    choice.how = "timed";
    file.add(key, choice.chosen);
    file.save_or_warn();
  }
  const bool prefers = choice.chosen == kLaidOut;
  plan.choices.push_back(choice);
  report.choices.push_back(std::move(choice));
  return prefers;
}

}  // namespace metronome::executor::compile
