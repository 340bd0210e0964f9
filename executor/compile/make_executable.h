// What an executable keeps of its declarations and plans.
#pragma once

#include <memory>
#include <span>

#include "executor/compile/compile.h"
#include "executor/engine/plan.h"
#include "executor/engine/target.h"
#include "executor/run/batch_shapes.h"
#include "executor/run/executable_impl.h"
#include "graph/builder/graph.h"

namespace metronome::executor::compile {

/// The executable but for its memory, its engine and its report. The graphs may be gone after the
/// call. `slots`: steps whose numbers can be read.
std::unique_ptr<Executable::Impl> make_executable(std::span<const GraphFor> graphs,
                                                  const BatchShapes& shapes,
                                                  std::span<const Plan> plans,
                                                  const CompileOptions& options, int slots);

}  // namespace metronome::executor::compile
