// Whole graphs on devices, kernel after kernel, and what two graphs give that must be the same.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "tests/gpu/device_interpreter.h"
#include "tests/ops/oracle.h"

namespace metronome {

/// The pools on which each run is made once more: the bits must be the same on all of them. One
/// pool twice shows what changes from run to run; several, threads in other orders.
using DevicePools = std::span<DevicePool* const>;

/// Tensors of inputs by their names, and of storages by their paths.
using Feeds = std::map<std::string, at::Tensor>;

/// Numbers in [-2, 2) for each input and each storage that the graph reads; -2 to 1 for integers.
Feeds numbers_for(const ir::Graph& graph);

/// Returns the values that leave a graph: readable and assigned ones.
std::vector<ValueId> results_of(const ir::Graph& graph);

struct DeviceRun {
  std::vector<ValueId> values = {};  ///< to be fetched
  bool views = false;                ///< inputs and storages lie where views may
  bool in_place = false;             ///< also checks results over operands
  ChooseKernel choose = {};
};

/// The values of a run on the first pool. Throws std::runtime_error where another pool gives other
/// bits, and where DeviceInterpreter does.
Tensors run_on(DevicePools pools, const ir::Graph& graph, const Feeds& feeds, const DeviceRun& run);

/// Whether they run kernels. On others nothing that is found means anything: a run shows only what
/// would be launched.
bool compute(DevicePools pools);

/// Returns how the bits differ if a pass made `after` of `before`, both on aligned operands and
/// both on operands that are views: a library's convolution may add up in another order on a view.
/// Results of `after` are written beside operands and over them.
Trouble other_bits(DevicePools pools, const ir::Graph& before, const ir::Graph& after,
                   const Feeds& feeds);

}  // namespace metronome
