// Users' arguments of `compile` are checked before anything is opened or planned:
//
//   check_arguments    graphs: given, different, valid, with something to keep, in agreement;
//                      modes, target, threads, outputs of evaluations
//   recomputed_paths   globs of `recompute` become paths, each of which finds a node
//   require_backend    the back end can run these graphs, and be observed
//   usable             options that this back end or machine cannot keep are replaced
//
// A mistake of a graph is a GraphError, one of an argument a RunError.
#include "executor/compile/arguments.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <thread>

#include "executor/engine/tuning.h"
#include "graph/builder/glob.h"
#include "graph/ir/error.h"

namespace metronome::executor::compile {
namespace {

void require_graphs(std::span<const GraphFor> graphs) {
  if (graphs.empty()) throw RunError("there is no graph to compile; give one or more");
  for (std::size_t k = 0; k < graphs.size(); ++k) {
    if (graphs[k].graph == nullptr) {
      throw RunError(
          fmt::format("graph {} of the {} to compile is a null pointer", k, graphs.size()));
    }
    for (std::size_t j = 0; j < k; ++j) {
      if (graphs[j].graph != graphs[k].graph) continue;
      throw RunError(
          fmt::format("graphs {} and {} to compile are one and the same, \"{}\"; give "
                      "each graph once, each for inputs of other shapes",
                      j, k, graphs[k].graph->name()));
    }
  }
}

std::vector<GraphInModes> declarations(std::span<const GraphFor> graphs,
                                       const CompileOptions& options) {
  require_graphs(graphs);
  std::vector<GraphInModes> declared;
  for (const GraphFor& part : graphs) {
    part.graph->validate();
    declared.push_back({&part.graph->data(), part.modes.empty() ? options.modes : part.modes});
  }
  for (const GraphInModes& part : declared) {
    const ir::Graph& graph = *part.graph;
    if (!graph.readables().empty() || !graph.assignments().empty()) continue;
    throw GraphError({fmt::format(
        "graph \"{}\" computes nothing that is kept\n"
        "  requires   a loss, an output, a named value, or a state or buffer that is assigned\n"
        "  way out    declare what to read: Graph::output(name, value)",
        graph.name())});
  }
  check_agreement(declared);
  return declared;
}

/// Threads beyond the cores only wait for each other, as in libtorch, but reproduce the bits of a
/// larger machine. The system may refuse more than this many, and then OpenMP ends the process.
int most_threads() {
  constexpr int kOfCore = 4, kAnywhere = 16;
  return std::max(kAnywhere, kOfCore * static_cast<int>(std::thread::hardware_concurrency()));
}

void check_threads(const std::string& graph, int threads) {
  if (threads < 0) {
    throw RunError(
        fmt::format("graph \"{}\": CompileOptions::threads is {}; give 1 or more, or 0 for "
                    "as many as libtorch uses",
                    graph, threads));
  }
  const int used = threads == 0 ? at::get_num_threads() : threads;
  if (used <= most_threads()) return;
  const unsigned cores = std::thread::hardware_concurrency();
  const std::string machine = fmt::format("{} core{}", cores, cores == 1 ? "" : "s");
  throw RunError(
      threads == 0
          ? fmt::format("graph \"{}\": libtorch uses {} threads, but this machine has {}; call "
                        "at::set_num_threads, set OMP_NUM_THREADS or give CompileOptions::threads: "
                        "at most {}",
                        graph, used, machine, most_threads())
          : fmt::format(
                "graph \"{}\": CompileOptions::threads is {}, but this machine has {}; give "
                "{} or fewer, best {}, or 0 for as many as libtorch uses",
                graph, used, machine, most_threads(), std::max(cores, 1u)));
}

bool evaluates(const GraphInModes& part) {
  return part.in(Mode::evaluate) || part.in(Mode::advance);
}

std::string quoted(const std::vector<std::string>& names) {
  return names.empty() ? "nothing" : fmt::format("\"{}\"", fmt::join(names, "\", \""));
}

void check_evaluate_outputs(std::span<const GraphInModes> parts, const CompileOptions& options) {
  const std::vector<std::string>& outputs = options.evaluate_outputs;
  if (outputs.empty()) return;
  const std::string& graph = parts[0].graph->name();
  if (std::ranges::none_of(parts, [](const auto& part) { return evaluates(part); })) {
    throw RunError(
        fmt::format("graph \"{}\": CompileOptions::evaluate_outputs is given, but no evaluation; "
                    "add mt::evaluate to CompileOptions::modes",
                    graph));
  }
  std::vector<std::string> all;
  for (std::size_t k = 0; k < parts.size(); ++k) {
    if (!evaluates(parts[k])) continue;
    const std::vector<bool> by_training = ir::made_by_training(*parts[k].graph);
    std::vector<std::string> names;
    for (const Readable& r : parts[k].graph->readables()) {
      if (!by_training[r.declared.node]) names.push_back(r.name);
    }
    for (const std::string& name : names) {
      if (std::ranges::find(all, name) == all.end()) all.push_back(name);
    }
    const auto has = [&](const std::string& n) {
      return std::ranges::find(names, n) != names.end();
    };
    if (parts.size() == 1 || std::ranges::any_of(outputs, has)) continue;
    throw RunError(fmt::format(
        "graph \"{}\": CompileOptions::evaluate_outputs names no value of graph {}, which keeps {}",
        graph, k, quoted(names)));
  }
  for (const std::string& name : outputs) {
    if (std::ranges::find(all, name) != all.end()) continue;
    throw RunError(fmt::format(
        "graph \"{}\": CompileOptions::evaluate_outputs names \"{}\", but an evaluation keeps {}",
        graph, name, quoted(all)));
  }
}

/// The shortest path at or above `path` that the glob finds, if any: "tower/0" for "tower/*" and
/// "tower/0/linear".
std::optional<std::string> find_at_or_above(const std::string& glob, const std::string& path) {
  for (std::size_t end = path.find('/');; end = path.find('/', end + 1)) {
    const std::string above = path.substr(0, end);
    if (glob_finds(glob, above)) return above;
    if (end == path.npos) return std::nullopt;
  }
}

}  // namespace

std::vector<const ir::Graph*> graphs_of(std::span<const GraphInModes> parts) {
  std::vector<const ir::Graph*> graphs;
  for (const GraphInModes& part : parts) graphs.push_back(part.graph);
  return graphs;
}

std::vector<GraphInModes> check_arguments(std::span<const GraphFor> graphs, const Target& target,
                                          const CompileOptions& options) {
  std::vector<GraphInModes> parts = declarations(graphs, options);
  const std::string& name = parts[0].graph->name();
  if (std::ranges::any_of(parts, [](const auto& part) { return part.modes.empty(); })) {
    throw RunError(
        fmt::format("graph \"{}\": CompileOptions::modes is empty; give mt::train, "
                    "mt::evaluate or both",
                    name));
  }
  if (target.open == nullptr) {
    throw RunError(fmt::format(
        "graph \"{}\": the target is empty; give cpu_replay(), cuda_graph(), stepwise() or eager()",
        name));
  }
  check_threads(name, options.threads);
  check_evaluate_outputs(parts, options);
  return parts;
}

std::vector<std::string> recomputed_paths(std::span<const GraphInModes> parts,
                                          const std::vector<std::string>& globs) {
  std::vector<std::string> paths;
  for (const std::string& glob : globs) {
    bool found = false;
    for (const GraphInModes& part : parts) {
      for (const Node& node : part.graph->nodes()) {
        if (node.inputs.empty()) continue;
        const auto path = find_at_or_above(glob, node.path.get());
        if (!path) continue;
        found = true;
        if (std::ranges::find(paths, *path) == paths.end()) paths.push_back(*path);
      }
    }
    if (found) continue;
    throw RunError(fmt::format(
        "graph \"{}\": CompileOptions::recompute names \"{}\", but no node lies there; name paths "
        "as Graph::print shows them",
        parts[0].graph->name(), glob));
  }
  return paths;
}

void require_backend(const Backend& backend, std::span<const GraphInModes> parts,
                     const CompileOptions& options) {
  for (const GraphInModes& part : parts) backend.require(*part.graph, part.modes);
  if (!options.observer || backend.observes()) return;
  throw RunError(
      fmt::format("graph \"{}\": CompileOptions::observer is shown the nodes of stepwise(), and of "
                  "eager() on a CPU; the target is {}",
                  parts[0].graph->name(), backend.name()));
}

CompileOptions complete_options(CompileOptions options, const Backend& backend) {
  if (!backend.kernels().run()) options.tune = Tune::off;
  if (options.tuning_file.empty()) options.tuning_file = TuningFile::default_path();
  if (options.tune != Tune::off) options.tuning_file = TuningFile::usable(options.tuning_file);
  return options;
}

}  // namespace metronome::executor::compile
