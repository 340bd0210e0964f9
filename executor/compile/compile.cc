// From declared graphs to an executable, on one page.
#include "executor/compile/compile.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <chrono>
#include <deque>
#include <map>
#include <new>
#include <optional>
#include <utility>

#include "executor/compile/averaged.h"
#include "executor/compile/compile_checks.h"
#include "executor/compile/first_choices.h"
#include "executor/compile/make_executable.h"
#include "executor/compile/make_memory.h"
#include "executor/compile/make_plan.h"
#include "executor/compile/own_states.h"
#include "executor/engine/backend.h"
#include "executor/engine/ranks.h"
#include "executor/engine/tuning.h"
#include "executor/run/executable_impl.h"
#include "executor/support/spin_limiter.h"
#include "graph/ir/error.h"
#include "ops/cpu/table.h"

namespace metronome::executor::compile {
namespace {

/// The graphs joined to the ranks, with states of their own; `declared` become these, which the
/// caller keeps.
std::vector<ir::Graph> own_graphs(std::vector<GraphInModes>& declared, CompileOptions& options) {
  std::vector<ir::Graph> own;
  if (options.data_parallel) {
    if (options.world && options.world != options.data_parallel) {
      throw RunError(fmt::format(
          "graph \"{}\": CompileOptions::world and CompileOptions::data_parallel are two; give one "
          "of them, as the second is a world, too",
          declared[0].graph->name()));
    }
    options.world = options.data_parallel;
  }
  if (options.world) options.ops = options.ops + options.world->ops();
  for (const GraphInModes& part : declared) {
    own.push_back(options.world ? options.world->join(*part.graph) : *part.graph);
  }
  name_own_states(own);
  for (std::size_t i = 0; i < own.size(); ++i) declared[i].graph = &own[i];
  return own;
}

/// Of several ranks each takes a device of its own, if none is named.
void take_own_device(Target& target, const CompileOptions& options) {
  const bool on_device = target.device.kind == Device::Kind::cuda;
  if (on_device && options.world && !target.cuda.device) {
    target.device.index = options.world->local_rank();
  }
}

/// The one that says how all train: the first that does, if any.
const ir::Graph& leading(std::span<const GraphInModes> declared) {
  for (const GraphInModes& part : declared) {
    if (part.in(Mode::train)) return *part.graph;
  }
  return *declared[0].graph;
}

/// How gradients become means over the ranks. A loss may reach some of the parameters alone.
std::optional<Averages> averages_of(const ir::Graph& graph, const CompileOptions& options) {
  if (!options.data_parallel) return std::nullopt;
  std::size_t bytes = 0;
  for (const Storage& storage : graph.storages()) {
    if (storage.trainable) bytes += storage.type.bytes();
  }
  return options.data_parallel->averages(bytes);
}

/// Storages as rank 0 has them.
void begin_as_first(const Ranks& ranks, Executable::Impl& step) {
  for (std::size_t storage = 0; storage < step.memory.storages.size(); ++storage) {
    step.fetch(storage);
    const Block& plain = step.memory.plain(storage);
    ranks.broadcast({plain.data(), plain.bytes()});
    step.push(storage);
  }
}

/// `needs` becomes what the plans need, as soon as that is known.
Executable made(std::span<const GraphFor> users, std::span<const GraphInModes> parts,
                const Target& target, CompileOptions options, Needs& needs) {
  const auto begin = std::chrono::steady_clock::now();
  const std::vector<const ir::Graph*> declared = graphs_of(parts);
  const ir::Graph& first = *declared[0];
  const std::unique_ptr<Backend> backend = target.open(target, options, first.name());
  for (const GraphInModes& part : parts) backend->require(*part.graph, part.modes);
  if (options.observer && !backend->observes()) {
    throw RunError(
        fmt::format("graph \"{}\": CompileOptions::observer is shown the nodes of stepwise(), and "
                    "of eager() on a CPU; the target is {}",
                    first.name(), backend->name()));
  }
  require_room(first.name(), needs, room_of_process());
  if (!backend->kernels().run()) options.tune = Tune::off;
  if (options.tuning_file.empty()) options.tuning_file = TuningFile::default_path();
  if (options.tune != Tune::off) options.tuning_file = TuningFile::usable(options.tuning_file);

  Report report;
  report.graph = first.name();
  report.target = backend->name();
  report.isa = cpu_table().isa();
  report.threads = options.threads;
  // Kernels are timed below: already as they will run.
  std::shared_ptr<SpinLimiter> spin_limiter = limit_spinning(options.threads);

  // Together, before rank 0 makes its plans while others wait for its choices.
  const std::optional<Averages> averages = averages_of(leading(parts), options);
  FirstChoices first_choices(options, report);

  // Each graph in each mode: passes, kernels, order, memory.
  const BatchShapes shapes(declared);
  std::deque<ir::Graph> evaluated;  // which stay where they are: plans point at them
  Planned planned;
  std::map<std::string, Layout> kept;  // as the first plan of a storage keeps it
  const auto plan = [&](const ir::Graph& graph, std::size_t shape, Mode mode,
                        const std::string& average) {
    planned.declared.push_back(&graph);
    planned.plans.push_back(make_plan({.graph = graph,
                                       .shape = shape,
                                       .batch = shapes.describe(shape),
                                       .average = average,
                                       .kept = kept,
                                       .averages = averages},
                                      mode, *backend, options, report));
    for (const Storage& s : planned.plans.back().graph.storages()) kept.emplace(s.path, s.layout);
  };
  for (std::size_t shape = 0; shape < declared.size(); ++shape) {
    const ir::Graph& whole = *declared[shape];
    const ir::Graph& some = evaluated.emplace_back(limited_to(whole, options.evaluate_outputs));
    for (const Mode mode : parts[shape].modes) {
      plan(mode == Mode::train ? whole : some, shape, mode, "");
    }
  }
  // Last, so that storages are as the plans above have them.
  const ir::Graph& keeps = leading(parts);
  for (const std::string& name : averages_in(keeps)) {
    for (std::size_t shape = 0; shape < declared.size(); ++shape) {
      for (const Mode mode : parts[shape].modes) {
        if (mode == Mode::train) continue;
        plan(evaluated.emplace_back(with_averages(evaluated[shape], name, keeps)), shape, mode,
             name);
      }
    }
  }

  first_choices.tell();

  // What they share.
  std::vector<Storage> storages = storages_of(planned.plans);
  needs = needs_of(declared, storages, planned.plans, *backend);
  require_room(first.name(), needs, room_of_process());
  auto impl = make_executable(users, shapes, planned.plans, options, backend->slots());
  impl->memory = make_memory(declared, std::move(storages), options.seed);
  if (options.world) options.world->agree(declared, planned.plans);
  add_sizes(impl->memory, report);
  impl->finish_tables();

  // What runs them.
  impl->spin_limiter = std::move(spin_limiter);
  impl->engine = backend->engine(std::move(planned), impl->memory, report);
  if (options.data_parallel) begin_as_first(*options.data_parallel, *impl);
  report.compile_seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  impl->report = std::move(report);
  return Executable(std::move(impl));
}

}  // namespace
}  // namespace metronome::executor::compile

namespace metronome {

Executable compile(std::span<const GraphFor> graphs, Target target, CompileOptions options) {
  using namespace executor;
  std::vector<GraphInModes> parts = compile::check_arguments(graphs, target, options);
  const std::vector<ir::Graph> own = compile::own_graphs(parts, options);
  compile::take_own_device(target, options);
  if (options.threads == 0) options.threads = at::get_num_threads();
  Needs needs = compile::declared_needs(compile::graphs_of(parts));
  try {
    return compile::made(graphs, parts, target, options, needs);
  } catch (const std::bad_alloc&) {
    refuse_for_room(own[0].name(), needs);
  }
}

Executable compile(std::initializer_list<GraphFor> graphs, Target target, CompileOptions options) {
  return compile(std::span(graphs.begin(), graphs.size()), std::move(target), std::move(options));
}

Executable compile(std::span<const Graph* const> graphs, Target target, CompileOptions options) {
  std::vector<GraphFor> all;
  for (const Graph* graph : graphs) all.push_back({graph});
  return compile(std::span<const GraphFor>(all), std::move(target), std::move(options));
}

Executable compile(const Graph& graph, Target target, CompileOptions options) {
  const Graph* const graphs[] = {&graph};
  return compile(std::span(graphs), std::move(target), std::move(options));
}

Executable compile(std::initializer_list<const Graph*> graphs, Target target,
                   CompileOptions options) {
  return compile(std::span(graphs.begin(), graphs.size()), std::move(target), std::move(options));
}

}  // namespace metronome
