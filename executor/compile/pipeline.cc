// The pipeline: from declaration to plan, on one page.
#include "executor/compile/pipeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>

#include "executor/compile/compile_checks.h"
#include "executor/engine/plan.h"
#include "executor/engine/plan_nodes.h"
#include "executor/support/log.h"
#include "graph/check/check_plan.h"
#include "graph/check/verify.h"
#include "graph/ir/error.h"
#include "graph/ir/structural.h"
#include "graph/passes/absorb.h"
#include "graph/passes/batch.h"
#include "graph/passes/fold.h"
#include "graph/passes/for_mode.h"
#include "graph/passes/fuse.h"
#include "graph/passes/loosen.h"
#include "graph/passes/lower.h"
#include "graph/passes/materialize.h"
#include "graph/passes/prune.h"
#include "graph/passes/share.h"
#include "graph/passes/training/differentiate.h"
#include "graph/passes/training/update.h"
#include "graph/plan/planner.h"

namespace metronome::executor::compile {
namespace {

struct Pass {
  std::string_view name;
  ir::Graph (*run)(const ir::Graph&, const Settings&);
};

constexpr Pass kPasses[] = {
    {"for_mode", passes::for_mode},            // train or evaluate
    {"lower", passes::lower},                  // composites become the ops they are made of
    {"differentiate", passes::differentiate},  // reverse walk from the loss
    {"update", passes::update},                // optimizer, clipping, counters: the step is whole
    {"fold", passes::fold},                    // identities and constants
    {"share", passes::share},                  // common subexpressions
    {"prune", passes::prune},                  // what nothing reads
    {"absorb", passes::absorb},                // readers that an op can compute itself
    {"loosen", passes::loosen},  // ops of which a part can be fused, where the target fuses
    {"batch", passes::batch},    // the updates of many parameters as few nodes
    {"materialize", passes::materialize},  // copies that readers and assignments need
    {"fuse", passes::fuse},                // elementwise chains and the reductions they meet
};
/// After this pass the step is what eager would launch.
constexpr std::string_view kDeclaredBy = "update";

std::size_t kernels_of(const ir::Graph& graph) {
  return static_cast<std::size_t>(
      std::count_if(graph.nodes().begin(), graph.nodes().end(),
                    [&](const Node& node) { return has_kernel(graph, node); }));
}

/// METRONOME_DUMP=dir keeps the graph after each pass.
void dump(const ir::Graph& graph, std::size_t shape, Mode mode, std::size_t index,
          std::string_view pass) {
  const char* folder = std::getenv("METRONOME_DUMP");
  if (folder == nullptr || *folder == '\0') return;
  const std::filesystem::path file =
      std::filesystem::path(folder) / fmt::format("{}{}-{}-{}-{}.txt", graph.name(),
                                                  shape == 0 ? "" : fmt::format("-{}", shape),
                                                  name_of(mode), index, pass);
  std::ofstream out(file);
  out << graph.print();
  if (!out.flush()) {
    throw RunError(fmt::format("METRONOME_DUMP={}: {} cannot be written; name a folder that exists",
                               folder, file.string()));
  }
}

/// Parameters in the graph that no gradient reaches.
void list_unreached(const ir::Graph& graph, Report& report) {
  std::set<StorageId> reached;
  for (const ir::Objective& objective : graph.objectives()) {
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

std::size_t unshared_bytes(const ir::Graph& graph) {
  std::size_t bytes = 0;
  for (const Node& node : graph.nodes()) {
    if (!has_kernel(graph, node)) continue;
    for (const Type& type : node.types) bytes += type.bytes();
  }
  return bytes;
}

std::vector<std::string> described(const ir::Graph& graph,
                                   const std::vector<plan::Holder>& holders) {
  std::vector<std::string> lines;
  for (const plan::Holder& h : holders) {
    lines.push_back(fmt::format("{:<22} {:>9.3f} MiB  {}", to_string(graph.type(h.value)),
                                static_cast<double>(h.bytes) / (1 << 20),
                                graph.node(h.value).path));
  }
  return lines;
}

}  // namespace

ir::Graph run_passes(const Declared& declared, const Settings& settings, PlanReport& plan,
                     Report& report) {
  ir::Graph graph = declared.graph;
  check::verify(graph, "declare");
  for (std::size_t i = 0; i < std::size(kPasses); ++i) {
    const Pass& pass = kPasses[i];
    graph = pass.run(graph, settings);
    check::verify(graph, pass.name);
    dump(graph, declared.shape, settings.mode, i, pass.name);
    if (pass.name == "differentiate" && !graph.objectives().empty() &&
        settings.mode == Mode::train) {
      list_unreached(graph, report);
    }
    logger().debug("{} {} after {}: {} nodes, {} kernels", graph.name(), name_of(settings.mode),
                   pass.name, graph.nodes().size(), kernels_of(graph));
    if (pass.name == kDeclaredBy) plan.kernels_declared = kernels_of(graph);
  }
  return graph;
}

Plan make_plan(const Declared& declared, const Settings& settings, const Kernels& kernels,
               const SelectOptions& options, Report& report) {
  PlanReport summary;
  summary.mode = settings.mode;
  summary.batch = declared.batch;
  ir::Graph graph = run_passes(declared, settings, summary, report);
  if (options.room) require_room(graph.name(), biggest_value(graph), options.room);
  std::vector<Candidate> choices = select(graph, kernels, options, report);
  std::vector<std::size_t> scratch_bytes;
  for (const Candidate& choice : choices) scratch_bytes.push_back(choice.scratch_bytes);
  auto [order, memory] = plan::plan_step(graph, scratch_bytes, settings);
  if (const auto wrong = check::check_plan(graph, order, scratch_bytes, memory, settings)) {
    throw InternalError(fmt::format("the memory plan of \"{}\": {}", graph.name(), *wrong));
  }

  summary.kernels = kernels_of(graph);
  summary.arena_bytes = memory.arena_bytes;
  summary.lower_bound = memory.lower_bound;
  summary.unshared_bytes = unshared_bytes(graph);
  summary.copies =
      static_cast<std::size_t>(std::count(order.in_place.begin(), order.in_place.end(), false));
  summary.biggest = described(graph, memory.biggest);
  for (std::size_t i = 0; i < choices.size(); ++i) {
    const Node& node = graph.nodes()[i];
    if (choices[i].name == "aten") {
      summary.aten_calls.push_back(fmt::format("{} \"{}\"", node.op->name(), node.path));
    }
  }
  return {settings.mode,    declared.shape,           std::move(graph),  std::move(choices),
          std::move(order), std::move(scratch_bytes), std::move(memory), std::move(summary)};
}

}  // namespace metronome::executor::compile
