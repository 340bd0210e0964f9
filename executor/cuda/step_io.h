// What goes in and out of steps that are in flight: slots of inputs, numbers that users read.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "executor/cuda/device_faults.h"
#include "executor/cuda/device_state.h"
#include "executor/cuda/io_kernels.h"
#include "executor/cuda/program.h"
#include "executor/cuda/slots.h"

namespace metronome {

/// Inputs of steps in flight. The host fills the slot of the next step while earlier ones run; a
/// step's first kernel copies what was fed from its slot to the input's memory, so a captured
/// step's addresses never change. Small inputs are read where the host writes them, in mapped
/// memory; large ones are copied ahead to slots on the device, by a stream of their own.
class InputSlots {
 public:
  InputSlots(CudaDriver& driver, const Memory& memory, const DeviceState& state,
             DeviceConstants& constants, const DeviceFaults& faults, int slots);

  /// Host memory of input `index` in a slot that `clear` was called for; marks it as fed.
  std::byte* feed(int slot, std::size_t index);
  /// Begins a slot: nothing is fed.
  void clear(int slot);
  /// Copies large inputs of the slot to the device; `stream` waits for them.
  void send(int slot, CudaStream stream);

  /// The first task of a step of the declared graph `shape`: it copies those of its inputs that
  /// were fed.
  Task task(std::size_t shape) const;
  std::size_t mapped_bytes() const { return mapped_bytes_; }
  std::size_t device_bytes() const { return device_slots_.bytes(); }

  /// Larger inputs are copied to the device ahead: read over the bus by a kernel they would hold up
  /// the step.
  static constexpr std::size_t kSmall = 64 << 10;  // bytes

 private:
  struct Place {
    MappedMemory mapped;
    std::size_t pitch = 0;
    std::size_t bytes = 0;
    std::byte* device = nullptr;  ///< null where the step reads the mapped memory
  };

  CudaDriver& driver_;
  CudaStream stream_;
  const Memory& memory_;
  const DeviceState& state_;
  DeviceConstants& constants_;
  const DeviceFaults& faults_;
  int slots_;
  std::vector<CudaEvent> sent_;  ///< [slot]
  std::vector<Place> places_;
  DeviceBlock device_slots_;
  MappedMemory fed_;
  std::size_t mapped_bytes_ = 0;
  const cuda::InputSlot* table_ = nullptr;  ///< on the device
};

/// The numbers of one plan that users read: a step's last kernel writes them to mapped memory, each
/// with the number of its step.
class ReadSlots {
 public:
  /// `addresses` has one for each readable; those of several elements are null. `faults` is the
  /// plan's table.
  ReadSlots(CudaDriver& driver, const Graph& graph, std::span<std::byte* const> addresses,
            DeviceConstants& constants, cuda::Control* control, const cuda::FaultTable& faults,
            int slots);

  /// Whether the number of this step has arrived, and its bytes.
  bool arrived(std::size_t readable, int slot, std::int64_t step, void* bytes) const;
  /// The fault that is kept, where a step of this plan that used the slot has written one. Waits
  /// for nothing.
  std::optional<FaultSlot::Found> fault(int slot) const;
  /// Forgets all numbers.
  void clear();

  const Task& task() const { return task_; }

 private:
  int entries_of_slot() const { return count_ + cuda::StoreReads::kFault; }
  const cuda::Stamped* slot_at(int slot) const {
    return reinterpret_cast<const cuda::Stamped*>(mapped_.host) + slot * entries_of_slot();
  }

  std::vector<int> entries_;  ///< [readable] place in a slot, or -1
  int count_ = 0;
  int slots_;
  MappedMemory mapped_;
  Task task_;
};

}  // namespace metronome
