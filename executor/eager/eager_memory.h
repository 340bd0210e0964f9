// The memory with which `eager` computes.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty_like.h>

#include <cstddef>
#include <cstring>
#include <span>
#include <vector>

#include "executor/engine/engine.h"
#include "executor/engine/memory.h"
#include "executor/libtorch/convert.h"
#include "ops/rules/rules.h"

namespace metronome::executor::eager {

/// Storages and inputs as tensors: over `Memory` itself on the CPU, and on a device there; but for
/// the counters, which the host advances.
class EagerMemory {
 public:
  EagerMemory(const Memory& memory, at::Device device) : memory_(memory), device_(device) {
    for (std::size_t i = 0; i < memory.storages.size(); ++i) {
      const at::Tensor block = host(i);
      const bool counter = memory.storages[i].kind == StorageKind::counter;
      storages_.push_back(counter ? block : block.to(device));
    }
    for (const InputMemory& input : memory.inputs) {
      const at::Tensor block = to_torch(tensor_in({&input.block}, input.type));
      inputs_.push_back(block.to(device));
      // Page-locked, as careful users keep what they copy to a GPU.
      if (on_device())
        staged_.push_back({at::empty_like(block, block.options().pinned_memory(true))});
    }
  }

  const at::Tensor& storage(std::size_t index) const { return storages_[index]; }
  const at::Tensor& input(std::size_t index) const { return inputs_[index]; }
  const Tensors& storages() const { return storages_; }
  const Tensors& inputs() const { return inputs_; }
  at::Device device() const { return device_; }
  bool on_device() const { return !device_.is_cpu(); }
  const Memory& memory() const { return memory_; }

  /// Returns the memory from which the next step takes an input.
  std::byte* feed(std::size_t index) {
    const InputMemory& input = memory_.inputs[index];
    return on_device() && !input.handed_out ? stage(index) : input.block.data();
  }
  /// Copies what these inputs were fed to the device.
  void send(std::span<const std::size_t> inputs) {
    if (!on_device()) return;
    for (const std::size_t i : inputs) {
      const InputMemory& input = memory_.inputs[i];
      if (input.handed_out) std::memcpy(stage(i), input.block.data(), input.type.bytes());
      if (staged_[i].fed) inputs_[i].copy_(staged_[i].tensor);
      staged_[i].fed = false;
    }
  }
  void fetch(std::size_t index) const {
    if (on_device()) host(index).copy_(storages_[index]);
  }
  void push(std::size_t index) {
    if (on_device()) storages_[index].copy_(host(index));
  }

 private:
  std::byte* stage(std::size_t index) {
    staged_[index].fed = true;
    return static_cast<std::byte*>(staged_[index].tensor.data_ptr());
  }
  at::Tensor host(std::size_t index) const {
    return to_torch(tensor_in({&memory_.storage_blocks[index]}, memory_.storages[index].type));
  }

  const Memory& memory_;
  at::Device device_;
  Tensors storages_, inputs_;

  struct StagedTensor {
    at::Tensor tensor;
    bool fed = false;
  };
  std::vector<StagedTensor> staged_;  ///< [input], on a device
};

}  // namespace metronome::executor::eager
