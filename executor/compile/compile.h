// From declared graphs to an executable.
#pragma once

#include <initializer_list>
#include <span>

#include "executor/compile/targets.h"
#include "executor/run/executable.h"
#include "graph/builder/graph.h"

namespace metronome {

/// Validates, plans and binds a graph. Throws GraphError with all of the graph's mistakes, RunError
/// if the options cannot be met. The graph may be destroyed afterwards.
Executable compile(const Graph& graph, Target target = cpu_replay(), CompileOptions options = {});
/// The same for several batch shapes of one model: graphs that one function declares, called once
/// for each shape. They get plans of their own over one arena, and share parameters, optimizer
/// state and counters; `compile({&g256, &g37})`. Throws GraphError, with both lines, if they
/// differ in more than shapes: in the names or element types of inputs and of values to be read, in
/// storages, or in the optimizer; or if two have the same shapes of inputs.
Executable compile(std::span<const Graph* const> graphs, Target target = cpu_replay(),
                   CompileOptions options = {});
Executable compile(std::initializer_list<const Graph*> graphs, Target target = cpu_replay(),
                   CompileOptions options = {});

}  // namespace metronome
