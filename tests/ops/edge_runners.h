// Runners of the graphs of the tests at the edges of numbers: the CPU's kernels, and a device's.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "tests/gpu/device_interpreter.h"
#include "tests/gpu/host_device.h"
#include "tests/ops/interpreter.h"

namespace metronome {

/// Feeds a graph's inputs and storages by name, runs it, and returns copies of values.
using Runner = std::function<std::vector<at::Tensor>(const ir::Graph& graph,
                                                     const std::map<std::string, at::Tensor>& feed,
                                                     const std::vector<ValueId>& values)>;

/// Each op by the first of its CPU kernels.
inline const Runner on_cpu = [](const auto& graph, const auto& feed, const auto& values) {
  Interpreter run(graph);
  for (const auto& [name, tensor] : feed) run.set(name, tensor);
  run.run();
  std::vector<at::Tensor> results;
  for (const ValueId id : values) results.push_back(run.tensor(id).clone());
  return results;
};

/// Each op by the first of its device kernels, on a device that outlives the runner.
inline Runner on(HostDevice& device) {
  return [&device](const auto& graph, const auto& feed, const auto& values) {
    DeviceInterpreter run(graph, device.pool, false);
    for (const auto& [name, tensor] : feed) run.set(name, tensor);
    run.run();
    std::vector<at::Tensor> results;
    for (const ValueId id : values) results.push_back(run.tensor(id));
    return results;
  };
}

}  // namespace metronome
