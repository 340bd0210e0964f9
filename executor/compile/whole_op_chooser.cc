#include "executor/compile/whole_op_chooser.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <limits>
#include <optional>
#include <vector>

#include "executor/compile/run_passes.h"
#include "executor/engine/plan_nodes.h"
#include "graph/builder/graph.h"
#include "graph/emit/scope.h"
#include "graph/ir/error.h"
#include "graph/rules/gradient.h"
#include "ops/expr/functions.h"
#include "ops/optimizers/optimizers.h"

namespace metronome::executor::compile {
namespace {

/// An expansion whose biggest value has more bytes than this, and than so many of the op's own, is
/// not timed: to fill and to walk over it takes seconds, and a step would have to hold it.
constexpr std::size_t kBytesToTime = std::size_t{64} << 20, kTimesToTime = 4;

std::size_t biggest_bytes(const ir::Graph& graph) {
  std::size_t most = 0;
  for (const Node& node : graph.nodes()) {
    for (const Type& type : node.types) most = std::max(most, type.bytes());
  }
  return most;
}

/// The op alone, as a step of the settings' mode runs it: whole or expanded, with the gradients of
/// all floating operands where it trains.
ir::Graph graph_of_op(const OpPtr& op, std::span<const Type> types, Settings settings, bool whole) {
  Graph g("alone");
  Values operands;
  for (std::size_t i = 0; i < types.size(); ++i) {
    const std::string name = fmt::format("x{}", i);
    operands.push_back(is_floating(types[i].element)
                           ? g.parameter(name, types[i], {})
                           : g.input(name, types[i].element, types[i].shape));
  }
  const std::size_t outputs = op->infer(types).size();
  Values results = apply(op, operands, Line::here(), outputs);
  results.resize(outputs - static_cast<std::size_t>(op->saved()));
  Value loss;
  for (std::size_t k = 0; k < results.size(); ++k) {
    g.output(fmt::format("y{}", k), results[k]);
    if (!is_floating(results[k].element())) continue;
    const Value part = sum(results[k]).cast(f64);
    loss = loss.present() ? loss + part : part;
  }
  if (loss.present()) g.minimize(loss, Sgd{});
  settings.keeps = [whole](const OpPtr& each, std::span<const Type>) {
    return whole && each->has_rule<VjpRule>();
  };
  return run_passes_of_ops(g, settings);
}

/// Whether the operands and results of each of its nodes find room.
bool has_room_to_time(const Kernels& kernels, const ir::Graph& graph) {
  const std::optional<FreeMemory> free = kernels.free_memory();
  return !free || std::ranges::all_of(graph.nodes(), [&](const Node& node) {
    std::size_t bytes = 0;
    for (const Type& type : node.types) bytes += type.bytes();
    for (const ValueId id : node.inputs) bytes += graph.type(id).bytes();
    return bytes <= free->bytes;
  });
}

bool can_be_timed(const Kernels& kernels, const ir::Graph& whole, const ir::Graph& expanded) {
  return has_room_to_time(kernels, whole) && has_room_to_time(kernels, expanded) &&
         biggest_bytes(expanded) <= std::max(kBytesToTime, kTimesToTime * biggest_bytes(whole));
}

/// The time of a graph's kernels.
struct KernelSeconds {
  double seconds = 0;
  bool on_host = true;  ///< by the host's clock
  bool steady = true;   ///< `Kernels::FastestCandidate`, all of them
};

/// All kernels together, equal ones timed once; no less than `enough` as soon as that is known.
KernelSeconds time_kernels(const Kernels& kernels, const ir::Graph& graph, double enough) {
  struct TimedOp {
    const Op* op;
    Types inputs;
    double seconds;
  };
  std::vector<TimedOp> all;
  KernelSeconds sum;
  for (const Node& node : graph.nodes()) {
    if (!has_kernel(graph, node)) continue;
    if (sum.seconds >= enough) break;
    const Types inputs = graph.operands(node);
    const auto known = std::ranges::find_if(all, [&](const TimedOp& timed) {
      return timed.op->equals(*node.op) && timed.inputs == inputs;
    });
    if (known != all.end()) {
      sum.seconds += known->seconds;
      continue;
    }
    const Kernels::FastestCandidate fastest =
        kernels.fastest(node, inputs, {}, kernels.candidates(node, inputs, {}));
    all.push_back({node.op.get(), inputs, fastest.seconds});
    sum.seconds += fastest.seconds;
    sum.on_host = sum.on_host && fastest.by == TimingMethod::host_clock;
    sum.steady = sum.steady && fastest.steady;
  }
  return sum;
}

}  // namespace

bool WholeOpChooser::operator()(const OpPtr& op, std::span<const Type> types) {
  if (!op->has_rule<VjpRule>() || !kernels_.has(*op)) return false;
  std::vector<std::string> texts;
  for (const Type& type : types) texts.push_back(to_string(type));
  const std::string attributes = op->attributes();
  const std::string what = fmt::format("{}{} {}", op->name(),
                                       attributes.empty() ? "" : fmt::format(" {{{}}}", attributes),
                                       fmt::join(texts, " x "));
  const std::pair key(what, op->kind());
  const auto known = decided_.find(key);
  if (known != decided_.end()) return known->second;
  return decided_[key] = decide(op, types, what);
}

bool WholeOpChooser::decide(const OpPtr& op, std::span<const Type> types, const std::string& what) {
  if (std::ranges::any_of(types, [](const Type& type) { return type.numel() == 0; })) return true;
  const ir::Graph whole = graph_of_op(op, types, settings_, true);
  const bool covered = std::ranges::all_of(whole.nodes(), [&](const Node& node) {
    if (!has_kernel(whole, node)) return true;
    return kernels_.has(*node.op) && !kernels_.candidates(node, whole.operands(node), {}).empty();
  });
  if (!covered) return false;
  if (options_.tune == Tune::off) return true;

  const bool measures = options_.tune == Tune::measure;
  const Mode timed = settings_.mode == Mode::train ? Mode::train : Mode::evaluate;
  const std::string key = fmt::format("{} | to {}: {}", kernels_.machine(), name_of(timed), what);
  TuningFile file(options_.tuning_file);
  KernelChoice choice{
      .what = what, .chosen = file.find(key, measures).value_or(""), .how = "tuning file"};
  if (choice.chosen != "whole" && choice.chosen != "expanded") {
    const ir::Graph expanded = graph_of_op(op, types, settings_, false);
    if (!measures || !can_be_timed(kernels_, whole, expanded)) return true;
    choice = time(what, whole, expanded, key, file);
  }
  record(choice);
  return choice.chosen == "whole";
}

KernelChoice WholeOpChooser::time(const std::string& what, const ir::Graph& whole,
                                  const ir::Graph& expanded, const std::string& key,
                                  TuningFile& file) {
  const LoadWatch watch;
  const KernelSeconds together =
      time_kernels(kernels_, whole, std::numeric_limits<double>::infinity());
  // A difference within the noise leaves the op whole.
  const double enough = 0.97 * together.seconds;
  const KernelSeconds parts = time_kernels(kernels_, expanded, enough);
  const bool loaded =
      together.on_host && parts.on_host &&
      timed_under_load(watch, together.steady && parts.steady, report_.timed_under_load);
  KernelChoice choice{.what = what,
                      .chosen = parts.seconds < enough ? "expanded" : "whole",
                      .how = loaded ? "timed under load" : "timed"};
  file.add(key, choice.chosen, loaded);
  file.save_or_warn();
  return choice;
}

void WholeOpChooser::record(const KernelChoice& choice) {
  if (std::ranges::find(report_.choices, choice) == report_.choices.end()) {
    report_.choices.push_back(choice);
  }
}

}  // namespace metronome::executor::compile
