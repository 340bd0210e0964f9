// The inputs and outputs of steps that are in flight: slots of inputs, numbers that users read.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "executor/cuda/program/caller_order.h"
#include "executor/cuda/program/device_faults.h"
#include "executor/cuda/program/device_state.h"
#include "executor/cuda/program/io_kernels.h"
#include "executor/cuda/program/program.h"
#include "executor/cuda/program/slots.h"
#include "executor/support/tensor.h"

namespace metronome::executor::program {

/// Inputs of steps in flight. The host fills the slot of the next step while earlier ones run; a
/// step's first kernel copies what was fed from its slot to the input's memory, so a captured
/// step's addresses never change. Small inputs are read where the host writes them, in mapped
/// memory; large ones are copied ahead to slots on the device, by a stream of their own, whose
/// copies of one step the step waits for by one event.
///
///   mapped memory   [fed?][ a b | X Y ][ a b | X Y ]     a, b small, X, Y large; two slots
///   on the device                [ X Y ]      [ X Y ]     X and Y go up in one copy
class InputSlots {
 public:
  /// `non_blocking`: CudaOptions::non_blocking.
  InputSlots(CudaDriver& driver, const Memory& memory, const DeviceState& state,
             DeviceConstants& constants, const DeviceFaults& faults, int slots, bool non_blocking);

  /// Begins a slot, whose last step is over: nothing is fed.
  void clear(int slot);
  /// Waits for copies to a slot that is begun once more, as no step took it.
  void forget() { driver_.synchronize(stream_); }
  /// Host memory of input `index` in the slot that was begun last; marks it as fed.
  std::byte* feed(int slot, std::size_t index);
  /// The first `bytes` of it are written. Those of a large input begin to go up once there are
  /// kAhead of them, while the host writes the rest.
  void advance_feed(int slot, std::size_t index, std::size_t bytes);
  /// In place of `feed`, for memory that users fill in place and `CudaDriver::page_locked_memory`
  /// gave where the input is large: it goes up from there. A small input is copied at once.
  void take(int slot, std::size_t index, const std::byte* from);
  /// In place of `feed`: a large input goes up from page-locked memory of others. Returns when it
  /// has been read, or, if `non_blocking`, at once: then its `keeper` is to own it. False, with
  /// nothing done, for a small input and for other memory.
  bool copy_from(int slot, std::size_t index, const std::byte* from);
  /// The owner of what the step of this slot was given for the input.
  std::shared_ptr<void>& keeper(int slot, std::size_t index) {
    return keepers_[slot * places_.size() + index];
  }
  /// In place of `feed`: contiguous elements on the device go to the slot there, in the order of
  /// `from.stream`.
  void copy_from_device(int slot, std::size_t index, const Tensor& from);
  /// Copies to the device what is left of large inputs, neighbours in one copy; `stream` waits for
  /// all of the slot's copies.
  void send(int slot, CudaStream stream);
  /// Returns when nothing reads any more what `take` was given for the slot, which was sent.
  void wait_until_taken(int slot);

  /// The first task of a step of the declared graph `shape`: it copies those of its inputs that
  /// were fed.
  Task task(std::size_t shape) const;
  std::size_t mapped_bytes() const { return flag_bytes_ + slots_ * slot_bytes_; }
  std::size_t device_bytes() const { return device_slots_.bytes(); }

  /// Larger inputs are copied to the device ahead: read over the bus by a kernel they would hold up
  /// the step.
  static constexpr std::size_t kSmall = 64 << 10;  // bytes
  /// The host takes far longer to write so much than to ask for one copy more.
  static constexpr std::size_t kAhead = 1 << 20;  // bytes

 private:
  /// An input's place in each slot: small ones first, then from `large_begin_` on the large ones,
  /// each group in the order of the inputs, so that a batch's inputs are neighbours.
  struct Place {
    std::size_t begin = 0;  ///< a multiple of kDeviceAlignment
    std::size_t bytes = 0;
    // State of the slot that was begun last:
    std::size_t written = 0;  ///< bytes
    std::size_t sent = 0;     ///< of these: on their way to the device, or there

    bool large() const { return bytes > kSmall; }
  };

  int* flags(int slot) { return reinterpret_cast<int*>(mapped_.host) + slot * places_.size(); }
  std::size_t slot_begin(int slot) const { return flag_bytes_ + slot * slot_bytes_; }
  std::size_t device_pitch() const { return slot_bytes_ - large_begin_; }
  void upload(int slot, std::size_t begin, std::size_t end);
  void upload(int slot, std::size_t begin, const std::byte* from, std::size_t bytes);

  CudaDriver& driver_;
  CudaStream stream_;
  CallerOrder order_;
  const Memory& memory_;
  const DeviceState& state_;
  DeviceConstants& constants_;
  const DeviceFaults& faults_;
  int slots_;
  bool non_blocking_;
  /// [slot][input] They go after `device_slots_`, whose end waits for copies to it.
  std::vector<std::shared_ptr<void>> keepers_;
  std::vector<CudaEvent> sent_;  ///< [slot]
  std::vector<Place> places_;
  std::size_t large_begin_ = 0;  ///< bytes from the beginning of a slot
  std::size_t slot_bytes_ = 0;
  std::size_t flag_bytes_ = 0;  ///< before the first slot: [slot][input] whether it was fed
  MappedMemory mapped_;
  DeviceBlock device_slots_;
  // State of the slot that was begun last:
  bool sending_ = false;  ///< something goes up
  bool taking_ = false;   ///< some of it from what `take` was given
};

/// The numbers of one plan that users read: a step's last kernel writes them to mapped memory, each
/// with the number of its step.
class ReadSlots {
 public:
  /// `addresses` has one for each readable; those of several elements are null. `faults` is the
  /// plan's table.
  ReadSlots(CudaDriver& driver, const ir::Graph& graph, std::span<std::byte* const> addresses,
            DeviceConstants& constants, cuda::Control* control, const cuda::FaultTable& faults,
            int slots);

  /// Whether the number of this step has arrived, and its bytes.
  bool try_read(std::size_t readable, int slot, std::int64_t step, void* bytes) const;
  /// The fault that is kept, where a step of this plan that used the slot has written one. Waits
  /// for nothing.
  std::optional<FaultSlot::Fault> fault(int slot) const;
  /// Forgets all numbers.
  void clear();

  const Task& task() const { return task_; }

 private:
  int entries_of_slot() const { return count_ + cuda::StoreReads::kFault; }
  const cuda::StampedNumber* slot_at(int slot) const {
    return reinterpret_cast<const cuda::StampedNumber*>(mapped_.host) + slot * entries_of_slot();
  }

  std::vector<int> entries_;  ///< [readable] place in a slot, or -1
  int count_ = 0;
  int slots_;
  MappedMemory mapped_;
  Task task_;
};

}  // namespace metronome::executor::program
