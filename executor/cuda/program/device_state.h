// The state of an executable on a device beside its arenas: storages, inputs, constants.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "executor/cuda/driver/driver.h"
#include "executor/engine/addresses.h"
#include "executor/engine/memory.h"

namespace metronome::executor::program {

constexpr std::size_t kDeviceAlignment = 256;

constexpr std::size_t device_aligned(std::size_t bytes) {
  return (bytes + kDeviceAlignment - 1) / kDeviceAlignment * kDeviceAlignment;
}

/// Device memory of the driver's, given back at the end.
class DeviceBlock {
 public:
  DeviceBlock() = default;
  DeviceBlock(CudaDriver& driver, std::size_t bytes)
      : driver_(&driver), data_(bytes > 0 ? driver.device_memory(bytes) : nullptr), bytes_(bytes) {}
  DeviceBlock(DeviceBlock&& other) noexcept { *this = std::move(other); }
  DeviceBlock& operator=(DeviceBlock&& other) noexcept {
    std::swap(driver_, other.driver_);
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~DeviceBlock() {
    if (data_ != nullptr) driver_->release(data_);
  }

  std::byte* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }

 private:
  CudaDriver* driver_ = nullptr;
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
};

/// Constants of bound kernels.
class DeviceConstants final : public ConstantMemory {
 public:
  DeviceConstants(CudaDriver& driver, CudaStream stream) : driver_(driver), stream_(stream) {}
  const void* keep(std::span<const std::byte> bytes) override;
  std::size_t bytes() const;  ///< on the device

 private:
  static constexpr std::size_t kChunk = 1 << 18;  // bytes
  CudaDriver& driver_;
  CudaStream stream_;
  std::vector<DeviceBlock> chunks_;
  std::size_t used_ = 0;  // of the last chunk
};

/// Storages, at their values in `Memory`, and inputs, zeroed. Each starts at a multiple of 256
/// bytes.
class DeviceState {
 public:
  DeviceState(CudaDriver& driver, CudaStream stream, const Memory& memory);

  /// Their addresses as the graph numbers them; arena and readables are the caller's to set.
  Bases bases(const ir::Graph& graph) const;
  std::byte* input(std::size_t index) const { return inputs_.data() + input_offsets_[index]; }

  /// One storage's block in `Memory` from the device and back; each returns when the copy is made.
  void fetch(std::size_t storage) const;
  void push(std::size_t storage);
  /// One input's block in `Memory` from the device.
  void fetch_input(std::size_t index) const;

  /// All storages, to compare and to put back.
  std::vector<std::byte> snapshot() const;
  void restore(std::span<const std::byte> snapshot);
  /// Name of the storage that holds byte `offset` of a snapshot.
  const std::string& path_at(std::size_t offset) const;

  /// Writes ordinary numbers into the floating inputs and zeros into the others, or zeros into all.
  void fill_inputs(bool numbers);

  std::size_t bytes() const { return storages_.bytes() + inputs_.bytes(); }

 private:
  CudaDriver& driver_;
  CudaStream stream_;
  const Memory& memory_;
  std::vector<std::size_t> storage_offsets_, input_offsets_;
  DeviceBlock storages_, inputs_;
};

}  // namespace metronome::executor::program
