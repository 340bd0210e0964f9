// The faults that steps met and went on with, as a device keeps them.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "executor/cuda/program/device_state.h"
#include "executor/cuda/program/io_kernels.h"
#include "executor/engine/faults.h"

namespace metronome::executor::program {

/// Memory of one executable on the device: the control block, and the places to which its kernels
/// report.
class DeviceFaults {
 public:
  /// `nodes`: of all plans' graphs. `watches`: numbers that are not finite are looked for.
  DeviceFaults(CudaDriver& driver, CudaStream stream, const Memory& memory,
               DeviceConstants& constants, std::size_t nodes, bool watches);

  cuda::Control* control() const { return control_; }
  bool watches() const { return met_ != nullptr; }
  /// The places to which kernels of node number `node` of all plans' graphs report; they report if
  /// `guard` is null or true.
  cuda::Lookups lookups(std::size_t node, const bool* guard) const;
  cuda::Watch watch(std::size_t node, const bool* guard) const;
  /// For the last kernel of a plan whose nodes count from `base` on.
  cuda::FaultTable table(const Plan& plan, std::size_t base) const;
  /// For the first kernel of a step; null where numbers are not watched.
  cuda::Index* seen_inputs() const { return inputs_; }

  /// Step 0 comes next, and nothing was met.
  void reset();
  /// All of it, to put back.
  std::vector<std::byte> snapshot() const;
  void restore(std::span<const std::byte> snapshot);
  /// A storage was written by the host.
  void examine_storage(std::size_t storage);
  /// An input was copied by the host, and by no first kernel of a step.
  void examine_input(std::size_t input);

 private:
  template <class T>
  const T* keep(const std::vector<T>& table) const {
    return static_cast<const T*>(constants_.keep(std::as_bytes(std::span(table))));
  }
  void upload(void* to, const void* from, std::size_t bytes) const;

  CudaDriver& driver_;
  CudaStream stream_;
  const Memory& memory_;
  DeviceConstants& constants_;
  std::size_t nodes_;
  DeviceBlock block_;
  cuda::Control* control_ = nullptr;
  cuda::Index* value_ = nullptr;
  int* met_ = nullptr;
  cuda::Index* inputs_ = nullptr;
  int* storages_ = nullptr;
  int* next_ = nullptr;
};

}  // namespace metronome::executor::program
