// `kPasses` is the order of all passes, and says of each what else is known:
//
//   of             ops alone: also run on the ops of one node, for the choice of ops that run whole
//   needed         for_speed: METRONOME_WITHOUT may leave it out
//   reads_buckets  the first that does ends the passes that all plans of a step share
//   tell           notes for the report
//
// A pass that changes nothing returns the graph that it was given, and is not verified.
#include "executor/compile/run_passes.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "executor/engine/plan_nodes.h"
#include "executor/support/log.h"
#include "graph/check/verify.h"
#include "graph/ir/error.h"
#include "graph/passes/absorb.h"
#include "graph/passes/batch.h"
#include "graph/passes/fold.h"
#include "graph/passes/for_mode.h"
#include "graph/passes/fuse.h"
#include "graph/passes/gather.h"
#include "graph/passes/lay_out.h"
#include "graph/passes/loosen.h"
#include "graph/passes/lower.h"
#include "graph/passes/materialize.h"
#include "graph/passes/prune.h"
#include "graph/passes/share.h"
#include "graph/passes/training/differentiate.h"
#include "graph/passes/training/on_rank.h"
#include "graph/passes/training/pack_gradients.h"
#include "graph/passes/training/recompute.h"
#include "graph/passes/training/update.h"

namespace metronome::executor::compile {
namespace {

/// Parameters in the graph that no gradient reaches.
void list_unreached(const ir::Graph& graph, PlanReport& plan, Report& report) {
  if (plan.mode != Mode::train || graph.objectives().empty()) return;
  std::set<StorageId> reached;
  for (const ir::MinimizedLoss& objective : graph.objectives()) {
    for (const ParameterGradient& g : objective.gradients) reached.insert(g.parameter);
  }
  for (std::size_t i = 0; i < graph.storages().size(); ++i) {
    const Storage& s = graph.storages()[i];
    if (!s.trainable || reached.contains({static_cast<std::int32_t>(i)})) continue;
    // Plans for other shapes have said so too.
    if (std::ranges::find(report.unreached, s.path) == report.unreached.end()) {
      report.unreached.push_back(s.path);
    }
  }
}

/// The step is now what eager would launch.
void count_declared(const ir::Graph& graph, PlanReport& plan, Report&) {
  plan.kernels_declared = kernels_of(graph);
}

/// Whether a step can be planned without it.
enum class PassNeed : std::uint8_t { always, for_speed };
/// Whether it does anything for ops alone, outside of a step.
enum class PassSubject : std::uint8_t { ops, steps };

struct Pass {
  std::string_view name;
  ir::Graph (*run)(ir::Graph, const Settings&);
  PassSubject of = PassSubject::ops;
  PassNeed needed = PassNeed::always;
  bool reads_buckets = false;  ///< `Settings::buckets`, which differs between plans of one step
  void (*tell)(const ir::Graph&, PlanReport&, Report&) = nullptr;  ///< what it found
};

constexpr Pass kPasses[] = {
    // train or evaluate
    {"for_mode", passes::for_mode},
    // composites become the ops they are made of
    {"lower", passes::lower},
    // what each of several ranks draws for itself
    {"on_rank", passes::on_rank, PassSubject::steps},
    // reverse walk from the loss
    {"differentiate", passes::differentiate, PassSubject::ops, PassNeed::always, false,
     list_unreached},
    // late, what gradients read and nobody else keeps
    {"recompute", passes::recompute, PassSubject::steps},
    // side by side, for collectives
    {"pack_gradients", passes::pack_gradients, PassSubject::steps},
    // optimizer, clipping, counters: the step is whole
    {"update", passes::update, PassSubject::steps, PassNeed::always, false, count_declared},
    // identities and constants, before equal nodes are sought
    {"fold", passes::fold, PassSubject::ops, PassNeed::for_speed},
    // products that a sum adds become one product
    {"gather", passes::gather, PassSubject::steps, PassNeed::for_speed},
    // common subexpressions
    {"share", passes::share, PassSubject::ops, PassNeed::for_speed},
    // what nothing reads
    {"prune", passes::prune},
    // readers that an op can compute itself, now that each is known to be needed
    {"absorb", passes::absorb, PassSubject::ops, PassNeed::for_speed},
    // tensors as ops want them stored
    {"lay_out", passes::lay_out, PassSubject::steps},
    // ops of which a part can be fused, where the target fuses
    {"loosen", passes::loosen, PassSubject::ops, PassNeed::for_speed},
    // the updates of many parameters as few nodes
    {"batch", passes::batch, PassSubject::steps, PassNeed::for_speed, true},
    // copies that readers and assignments need
    {"materialize", passes::materialize},
    // elementwise chains, reductions they meet: last, as nothing looks into a group
    {"fuse", passes::fuse, PassSubject::ops, PassNeed::for_speed},
};

/// The choice of ops that run whole, which `lower` asks for.
constexpr std::string_view kKeepWhole = "keep_whole";

/// METRONOME_WITHOUT=gather,share leaves passes out, or that choice.
std::set<std::string> read_left_out() {
  const char* listed = std::getenv("METRONOME_WITHOUT");
  std::set<std::string> names;
  if (listed == nullptr || *listed == '\0') return names;
  std::istringstream in(listed + std::string(","));  // the last name ends with a comma, too
  for (std::string name; std::getline(in, name, ',');) {
    std::vector<std::string_view> possible{kKeepWhole};
    for (const Pass& pass : kPasses) {
      if (pass.needed == PassNeed::for_speed) possible.push_back(pass.name);
    }
    if (std::ranges::find(possible, name) == possible.end()) {
      throw RunError(
          fmt::format("METRONOME_WITHOUT={}: no pass \"{}\" can be left out; name some of {}, with "
                      "commas between them",
                      listed, name, fmt::join(possible, ", ")));
    }
    names.insert(std::move(name));
  }
  return names;
}

/// METRONOME_DUMP=dir keeps the graph after each pass; beside plain ones those in other layouts.
void dump(const ir::Graph& graph, const PlanInput& declared, const Settings& settings,
          std::size_t index, std::string_view pass) {
  const char* folder = std::getenv("METRONOME_DUMP");
  if (folder == nullptr || *folder == '\0') return;
  const std::filesystem::path file =
      std::filesystem::path(folder) /
      fmt::format("{}{}-{}{}{}-{}-{}.txt", graph.name(),
                  declared.shape == 0 ? "" : fmt::format("-{}", declared.shape),
                  name_of(settings.mode), declared.average.empty() ? "" : "-" + declared.average,
                  settings.layouts.wants ? "-laid_out" : "", index, pass);
  std::ofstream out(file);
  out << graph.print();
  if (!out.flush()) {
    throw RunError(fmt::format("METRONOME_DUMP={}: {} cannot be written; name a folder that exists",
                               folder, file.string()));
  }
}

/// The nodes of each op.
class OpCounts {
 public:
  explicit OpCounts(const ir::Graph& graph) : nodes(graph.nodes().size()) {
    for (const Node& node : graph.nodes()) ++count_of(node.op->name());
  }

  std::size_t nodes;

  std::size_t of(std::string_view op) const {
    std::size_t sum = 0;
    for (const auto& [name, count] : ops_) sum += name == op ? count : 0;
    return sum;
  }
  void add_names(std::set<std::string_view>& names) const {
    for (const auto& [name, count] : ops_) names.insert(name);
  }

 private:
  using Count = std::pair<std::string_view, std::size_t>;

  /// Names are constants of the ops' types: looked up by address, which takes a tenth of a
  /// comparison's time.
  std::size_t& count_of(std::string_view op) {
    const auto found = std::ranges::find_if(
        ops_, [op](const Count& count) { return count.first.data() == op.data(); });
    return found == ops_.end() ? ops_.emplace_back(op, 0).second : found->second;
  }

  std::vector<Count> ops_;
};

PassReport changes_of(std::string_view pass, const OpCounts& before, const OpCounts& after) {
  PassReport report{
      .name = std::string(pass), .nodes_before = before.nodes, .nodes_after = after.nodes};
  std::set<std::string_view> names;
  before.add_names(names), after.add_names(names);
  for (const std::string_view name : names) {
    if (before.of(name) == after.of(name)) continue;
    report.ops.push_back({std::string(name), before.of(name), after.of(name)});
  }
  return report;
}

/// The graph after one pass; `counted` is of the graph, before and after.
ir::Graph run_pass(const Pass& pass, ir::Graph graph, const PlanInput& declared,
                   const Settings& settings, OpCounts& counted, PlanReport& plan) {
  const std::uint64_t before = graph.version();
  graph = pass.run(std::move(graph), settings);
  if (graph.version() != before) {
    check::verify(graph, pass.name);
    OpCounts now(graph);
    plan.passes.push_back(changes_of(pass.name, counted, now));
    counted = std::move(now);
  }
  dump(graph, declared, settings, static_cast<std::size_t>(&pass - kPasses), pass.name);
  if (logger().should_log(spdlog::level::debug)) {
    logger().debug("{} {} after {}: {} nodes, {} kernels", graph.name(), name_of(settings.mode),
                   pass.name, counted.nodes, kernels_of(graph));
  }
  return graph;
}

/// The first of the passes that run once for each plan of a step.
const Pass* first_of_plan() { return std::ranges::find(kPasses, true, &Pass::reads_buckets); }

}  // namespace

ir::Graph begin_passes(const PlanInput& declared, const Settings& settings, PlanReport& plan,
                       Report& report) {
  ir::Graph graph = declared.graph;
  check::verify(graph, "declare");
  OpCounts counted(graph);
  const std::set<std::string> without = read_left_out();
  Settings passed = settings;
  if (without.contains(std::string(kKeepWhole))) passed.keeps = nullptr;
  for (const Pass& pass : std::span(std::begin(kPasses), first_of_plan())) {
    if (without.contains(std::string(pass.name))) continue;
    graph = run_pass(pass, std::move(graph), declared, passed, counted, plan);
    if (pass.tell != nullptr) pass.tell(graph, plan, report);
  }
  return graph;
}

ir::Graph end_passes(ir::Graph begun, const PlanInput& declared, const Settings& settings,
                     PlanReport& plan) {
  OpCounts counted(begun);
  const std::set<std::string> without = read_left_out();
  for (const Pass& pass : std::span(first_of_plan(), std::end(kPasses))) {
    if (without.contains(std::string(pass.name))) continue;
    begun = run_pass(pass, std::move(begun), declared, settings, counted, plan);
  }
  return begun;
}

ir::Graph run_passes_of_ops(ir::Graph graph, const Settings& settings) {
  for (const Pass& pass : kPasses) {
    if (pass.of == PassSubject::ops) graph = pass.run(std::move(graph), settings);
  }
  return graph;
}

}  // namespace metronome::executor::compile
