// One graph on every target, compared after each step.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "executor/metronome.h"
#include "tests/aten.h"
#include "tests/cuda/host_driver.h"
#include "tests/doctest.h"
#include "tests/executor/options.h"

namespace metronome::tests {

inline at::Tensor vector_of(std::vector<double> numbers) {
  return at::tensor(numbers, at::TensorOptions(at::kDouble));
}

/// `cuda_graph` on a device made of the host, whose free nodes and threads go in a random order.
/// Nothing is fused: each group would be compiled.
inline Target device_of_host() {
  Target target = cuda_graph({.fuse = false});
  target.driver = std::make_shared<HostDriver>(HostSettings{.seed = 9});
  return target;
}

/// Every one that runs, those of a device on one made of the host. Nothing is fused there either.
inline std::vector<Target> targets() {
  std::vector<Target> all = {cpu_replay(), stepwise(), eager()};
  for (Target target : {cuda_graph(), stepwise(cuda_device())}) {
    target.driver = std::make_shared<HostDriver>();
    target.cuda.fuse = false;
    all.push_back(target);
  }
  return all;
}

/// A graph of f64 on `cpu_replay`, `stepwise`, `eager`, `cpu_replay` with dead bytes poisoned, and
/// a device made of the host.
struct OnEveryTarget {
  explicit OnEveryTarget(const Graph& graph, CompileOptions options = plain_options()) {
    for (const Target& target : {cpu_replay(), stepwise(), eager()}) {
      executables.push_back(compile(graph, target, options));
    }
    options.poison = true;
    executables.push_back(compile(graph, cpu_replay(), options));
    options.poison = false;
    executables.push_back(compile(graph, device_of_host(), options));
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
  /// Replay, stepwise and the poisoned replay agree to the bit, eager and the device within 1e-12.
  void check_storages() {
    for (const std::string& path : replay().storages()) {
      CAPTURE(path);
      const at::Tensor replayed = replay().get(path);
      CHECK(at::equal(replayed, executables[1].get(path)));
      CHECK(at::equal(replayed, executables[3].get(path)));
      for (const int other : {2, 4}) {
        CAPTURE(other);
        const at::Tensor theirs = executables[other].get(path);
        if (at::equal(replayed, theirs)) continue;
        const at::Tensor difference = replayed.to(at::kDouble) - theirs.to(at::kDouble);
        CHECK(difference.abs().max().item<double>() <= 1e-12);
      }
    }
  }
  std::vector<Executable> executables;
};

}  // namespace metronome::tests
