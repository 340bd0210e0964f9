#include "executor/compile/layout_chooser.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "executor/compile/select.h"
#include "executor/engine/plan_nodes.h"
#include "executor/engine/tuning.h"
#include "executor/support/log.h"
#include "graph/compounds/batch.h"
#include "graph/emit/hash.h"
#include "graph/ir/error.h"
#include "graph/rules/batch.h"
#include "graph/rules/channels_last.h"

namespace metronome::executor::compile {
namespace {

constexpr std::string_view kPlain = "plain", kLaidOut = "channels last";

/// So much of the plain kernels' time may the others take: a difference within the noise changes
/// nothing.
constexpr double kShare = 0.97;

/// Ops and types, and the attributes of those that choose: others may tell a rank, and the ranks
/// are to find one entry.
std::string text_of(const ir::Graph& graph) {
  std::string text;
  for (const Node& node : graph.nodes()) {
    text += node.op->name();
    if (node.op->ask<ChannelsLastRule>()) text += " " + node.op->attributes();
    for (const Type& type : node.types) text += " " + to_string(type);
    text += "\n";
  }
  return text;
}

/// Updates take as long in either layout, and the memory of all parameters.
bool is_update(const Op& op) { return op.as<Batch>() != nullptr || op.ask<BatchRule>(); }

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

  /// Counts the kernels of a graph, by the choices that `select` makes for it; `told` gains them.
  void add(const ir::Graph& graph, int KernelKind::* count, std::vector<KernelChoice>& told) {
    PlanReport plan;
    Report report;
    const std::vector<Candidate> choices = select(graph, kernels_, options_, false, plan, report);
    std::ranges::move(plan.choices, std::back_inserter(told));
    for (std::size_t i = 0; i < choices.size(); ++i) {
      const Node& node = graph.nodes()[i];
      // Collectives are the same in both, and cannot be timed on one rank.
      if (!has_kernel(graph, node) || node.op->effects() || is_update(*node.op)) continue;
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

LayoutChooser::LayoutChooser(const ir::Graph& plain, const Kernels& kernels,
                             const CompileOptions& options)
    : kernels_(kernels),
      options_(options),
      // The first number tells what our own kernels are like: another one times all steps anew.
      key_(fmt::format("{} | layout of images 1 in a step {:016x}", kernels.machine(),
                       hash_of(text_of(plain)))),
      choice_{.what = "layout of images",
              .how = "tuning file",
              .candidates = {{.name = std::string(kPlain)}, {.name = std::string(kLaidOut)}}} {
  if (options.tune == Tune::off) return;
  const TuningFile file(options.tuning_file);
  choice_.chosen = file.find(key_, options.tune == Tune::measure).value_or("");
}

std::optional<bool> LayoutChooser::known() const {
  if (choice_.chosen == kLaidOut) return true;
  if (choice_.chosen == kPlain) return false;
  return std::nullopt;
}

bool LayoutChooser::time(const ir::Graph& plain, const ir::Graph& laid_out) {
  KernelCounts::Seconds seconds;
  try {
    KernelCounts counts(kernels_, options_);
    counts.add(plain, &KernelKind::plain, timed_);
    counts.add(laid_out, &KernelKind::laid_out, timed_);
    seconds = counts.time();
  } catch (const RunError& error) {
    logger().warn("images of graph \"{}\" stay plain, as channels last cannot be timed: {}",
                  plain.name(), error.what());
    choice_.chosen = kPlain, choice_.how = "fixed rule";
    return false;
  }
  const bool prefers = seconds.laid_out < kShare * seconds.plain;
  choice_.candidates[0].microseconds = seconds.plain * 1e6;
  choice_.candidates[1].microseconds = seconds.laid_out * 1e6;
  choice_.chosen = prefers ? kLaidOut : kPlain;
  choice_.how = "timed";
  TuningFile file(options_.tuning_file);
  file.add(key_, choice_.chosen);
  file.save_or_warn();
  return prefers;
}

}  // namespace metronome::executor::compile
