// From declared graphs to an executable.
#pragma once

#include <initializer_list>
#include <span>
#include <vector>

#include "executor/compile/targets.h"
#include "executor/run/executable.h"
#include "graph/builder/graph.h"

namespace metronome {

/// Validates, plans and binds a graph. Throws GraphError with all of the graph's mistakes, RunError
/// if the options cannot be met. The graph may be destroyed afterwards.
Executable compile(const Graph& graph, Target target = cpu_replay(), CompileOptions options = {});
/// Compiles several batch shapes of one model: graphs that one function declares, called once for
/// each shape. They get plans of their own over one arena, and share parameters, optimizer
/// state and counters; `compile({&g256, &g37})`. Throws GraphError, with both lines, if graphs that
/// train differ in more than shapes: in the names or element types of inputs and of values to be
/// read, in storages, or in the optimizer; or if two of one mode have the same shapes of inputs.
Executable compile(std::span<const Graph* const> graphs, Target target = cpu_replay(),
                   CompileOptions options = {});
Executable compile(std::initializer_list<const Graph*> graphs, Target target = cpu_replay(),
                   CompileOptions options = {});

/// A graph, and what it is compiled for.
struct GraphFor {
  const Graph* graph = nullptr;
  std::vector<Mode> modes = {};  ///< empty: CompileOptions::modes
};
/// Compiles each graph for modes of its own: one that trains, one that evaluates larger batches,
/// one that samples: `compile({{&g, {train}}, {&large, {evaluate}}, {&one, {advance}}})`. A call
/// runs a graph that is compiled to its mode. Graphs that only evaluate need not have the loss,
/// inputs, values to be read or storages of the others; storages of one path are one, but for a
/// state of another shape, which is the graph's own, called "h[1, 64]" beside the first one's "h".
/// Throws GraphError if storages of one path differ otherwise, or if a parameter that is not frozen
/// is in no graph that trains, where others train.
Executable compile(std::span<const GraphFor> graphs, Target target = cpu_replay(),
                   CompileOptions options = {});
Executable compile(std::initializer_list<GraphFor> graphs, Target target = cpu_replay(),
                   CompileOptions options = {});

}  // namespace metronome
