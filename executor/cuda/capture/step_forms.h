// The forms of a step among which measuring decides.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "executor/cuda/capture/captured.h"
#include "executor/engine/ranks.h"
#include "executor/options/target.h"
#include "graph/ir/graph.h"

namespace metronome::executor::capture {

struct StepForms {
  std::vector<StepForm> forms;     ///< of equal times the first is to be kept
  std::vector<std::string> notes;  ///< what was left out, and why
};

/// Captures the step in each form that the options let be measured; one that fails, whatever it
/// throws, is left out with a note. `tasks`, of a plan of `graph`, are prepared, capture to `nodes`
/// nodes and have run once. Throws what the form threw where the options ask for no other, and
/// where the driver is strict.
StepForms make_forms(CudaDriver& driver, const ir::Graph& graph,
                     std::span<const program::Task> tasks, const std::vector<CudaStream>& streams,
                     const CudaOptions& options, int nodes);

/// Leaves out the forms that not all ranks have, with a note each: all of them capture and launch a
/// collective, or none does.
void keep_common(const Ranks& ranks, std::vector<StepForm>& forms, std::vector<std::string>& notes);

}  // namespace metronome::executor::capture
