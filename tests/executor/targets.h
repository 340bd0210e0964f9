// One graph on every target of the CPU, compared after each step.
#pragma once

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include <string>
#include <vector>

#include "executor/metronome.h"
#include "tests/doctest.h"

namespace metronome::tests {

inline at::Tensor vector_of(std::vector<double> numbers) {
  return at::tensor(numbers, at::TensorOptions(at::kDouble));
}

inline CompileOptions plain_options() {
  CompileOptions options;
  options.threads = 1;
  options.tune = Tune::off;
  return options;
}

/// A graph of f64 on `cpu_replay`, `stepwise`, `eager`, and `cpu_replay` with dead bytes poisoned.
struct OnEveryTarget {
  explicit OnEveryTarget(const Graph& graph, CompileOptions options = plain_options()) {
    for (const Target& target : {cpu_replay(), stepwise(), eager()}) {
      executables.push_back(compile(graph, target, options));
    }
    options.poison = true;
    executables.push_back(compile(graph, cpu_replay(), options));
  }
  Executable& replay() { return executables[0]; }

  void run(const std::vector<std::pair<Value, at::Tensor>>& feeds = {}) {
    for (Executable& e : executables) {
      std::vector<Feed> all;
      for (const auto& [value, tensor] : feeds) all.push_back({value, tensor});
      e.run(all);
    }
    check_storages();
  }
  /// Replay, stepwise and the poisoned replay agree to the bit, eager within 1e-12.
  void check_storages() {
    for (const std::string& path : replay().storages()) {
      CAPTURE(path);
      const at::Tensor replayed = replay().get(path);
      CHECK(at::equal(replayed, executables[1].get(path)));
      CHECK(at::equal(replayed, executables[3].get(path)));
      CHECK((replayed - executables[2].get(path)).abs().max().item<double>() <= 1e-12);
    }
  }
  std::vector<Executable> executables;
};

}  // namespace metronome::tests
