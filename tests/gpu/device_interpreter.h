// Runs a graph's kernels one after the other on a device, without plan or executor, and sees what
// each of them writes.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "graph/builder/graph.h"
#include "ops/rules/candidate.h"
#include "tests/gpu/device_memory.h"

namespace metronome {

/// The index of the kernel that runs a node.
using ChooseKernel = std::function<std::size_t(std::int32_t node, const std::vector<Candidate>&)>;

class DeviceInterpreter {
 public:
  /// Uses the pool's memory from its beginning. `views`: inputs and storages begin one element
  /// after a multiple of 256 bytes.
  DeviceInterpreter(const ir::Graph& graph, DevicePool& pool, bool views);

  /// Sets an input, or a storage by its path.
  void set(const std::string& name, const at::Tensor& tensor);

  /// Runs every node in order, by default by its first kernel. Throws std::runtime_error where a
  /// kernel writes outside of its outputs and scratch, or to what another node made.
  void run(const ChooseKernel& choose = {});

  /// Runs every node once more for each result that its op lets lie over an operand, and with all
  /// those together. Throws std::runtime_error where a result then has other bits than beside the
  /// operand. Returns how many such rights there were.
  int check_in_place(const ChooseKernel& choose = {});

  /// A value of the run, on the host.
  at::Tensor tensor(ValueId id) const;

 private:
  struct Made {
    std::vector<DeviceBytes> owned;
    std::vector<void*> data;
  };

  void* data(ValueId id) const { return values_[id.node].data[id.output]; }
  bool is_read(ValueId id) const;
  void place(std::int32_t index);
  Made make_outputs(std::int32_t index, const std::vector<InPlace>& over,
                    std::vector<void*>& in_data);
  void launch(std::int32_t index, const std::vector<void*>& in_data, Made& made,
              const ChooseKernel& choose);
  std::vector<InPlace> rights_of(std::int32_t index) const;
  void check_over(std::int32_t index, const std::vector<InPlace>& over, const ChooseKernel& choose);
  [[noreturn]] void refuse(std::int32_t index, const std::string& what) const;

  const ir::Graph& graph_;
  DevicePool& pool_;
  bool views_;
  executor::program::DeviceConstants constants_;
  std::map<std::string, DeviceBytes> sources_;
  std::vector<Made> values_;
};

}  // namespace metronome
