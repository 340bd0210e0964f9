// Runs of shipped models, for tests that compare them bit by bit.
#pragma once

#include <ATen/ops/equal.h>

#include <string>
#include <vector>

#include "benchmarks/batches.h"
#include "models/models.h"

namespace metronome::tests {

/// A run's trace: the loss of each step, and every storage at the end.
struct Trace {
  std::vector<double> losses;
  std::vector<std::string> paths;
  std::vector<at::Tensor> storages;
};

inline std::vector<at::Tensor> copies(const Executable& executable) {
  std::vector<at::Tensor> tensors;
  for (const std::string& path : executable.storages()) {
    tensors.push_back(executable.get(path).clone());
  }
  return tensors;
}

/// Ten steps of a small model.
inline Trace run(const models::ModelEntry& entry, Target target, CompileOptions options) {
  const models::Model model = entry.make(models::Scale::small, f32);
  const benchmarks::Batches batches(model, 10);
  options.threads = 1;
  Executable executable = compile(model.graph, target, options);
  Trace trace;
  for (std::size_t step = 0; step < 10; ++step) {
    executable.run(batches.of_step(step));
    trace.losses.push_back(executable.read_scalar(model.graph.loss()));
  }
  trace.paths = executable.storages();
  trace.storages = copies(executable);
  return trace;
}

/// The first thing that differs in any bit, or "".
inline std::string difference(const Trace& a, const Trace& b) {
  for (std::size_t i = 0; i < a.losses.size(); ++i) {
    if (a.losses[i] != b.losses[i]) return "the loss of step " + std::to_string(i);
  }
  if (a.paths != b.paths) return "the storages' paths";
  for (std::size_t i = 0; i < a.storages.size(); ++i) {
    if (!at::equal(a.storages[i], b.storages[i])) return a.paths[i];
  }
  return "";
}

}  // namespace metronome::tests
