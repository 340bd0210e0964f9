// The faults that a graph's executables tell of, target by target.
#pragma once

#include <fmt/format.h>

#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "executor/metronome.h"
#include "graph/ir/error.h"
#include "tests/aten.h"
#include "tests/cuda/host_driver.h"
#include "tests/executor/targets.h"

namespace metronome::tests {

inline constexpr Line kHere{"train.cc", 12};
inline constexpr double kInfinity = std::numeric_limits<double>::infinity();
inline constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

inline at::Tensor integers(std::vector<std::int64_t> numbers) {
  return at::tensor(numbers, at::TensorOptions(at::kLong));
}

inline Target on_host(Target target) {
  target.cuda.fuse = false;  // a group would be named as one
  target.driver = std::make_shared<HostDriver>(HostSettings{.seed = 3});
  return target;
}

/// `cpu_replay`, `stepwise`, `cuda_graph` and `stepwise` on a device made of the host.
inline std::vector<Executable> on_planned_targets(const Graph& graph, bool watch = false) {
  CompileOptions options;
  options.threads = 2;
  options.tune = Tune::off;
  options.watch = watch;
  std::vector<Executable> all;
  for (const Target& target :
       {cpu_replay(), stepwise(), on_host(cuda_graph()), on_host(stepwise(cuda_device()))}) {
    all.push_back(compile(graph, target, options));
  }
  return all;
}

inline Executable by_eager(const Graph& graph, bool watch = false) {
  CompileOptions options;
  options.watch = watch;
  return compile(graph, eager(), options);
}

using Feeds = std::vector<Feed>;

/// Returns the fault that the planned targets tell of after these steps: one text if they agree.
inline std::string told(const Graph& graph, const std::vector<Feeds>& steps, bool watch = false) {
  std::string text;
  std::vector<Executable> all = on_planned_targets(graph, watch);
  for (std::size_t e = 0; e < all.size(); ++e) {
    for (const Feeds& feeds : steps) all[e].run(feeds);
    const std::string own = all[e].fault().value_or("nothing");
    if (e == 0) text = own;
    if (own != text) text += fmt::format("\nbut target {} tells {}", e, own);
  }
  return text;
}

/// Returns what eager throws in the last of these steps, or else the fault that it tells of.
inline std::string told_by_eager(const Graph& graph, const std::vector<Feeds>& steps,
                                 bool watch = false) {
  Executable e = by_eager(graph, watch);
  try {
    for (const Feeds& feeds : steps) e.run(feeds);
  } catch (const RunError& error) {
    return fmt::format("RunError: {}", error.what());
  }
  return e.fault().value_or("nothing");
}

}  // namespace metronome::tests
