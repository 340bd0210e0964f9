// The libraries of a device, one for each kind of call.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <string>
#include <vector>

#include "ops/cuda/library.h"
#include "ops/rules/candidate.h"

namespace metronome::executor::libraries {

/// A library on the device that is current when it is opened.
class DeviceLibrary {
 public:
  virtual ~DeviceLibrary() = default;
  /// "cuBLASLt 13.1.0"; empty for one that is opened by those alone who need it.
  virtual std::string version() const = 0;
  /// True for the calls that the rest takes.
  virtual bool makes(const LibraryCommand& call) const = 0;
  /// As of Libraries.
  virtual std::vector<Candidate> candidates(const LibraryCommand& call) const = 0;
  /// Makes what a call needs (a plan, descriptors). Throws RunError where the library refuses it.
  virtual void prepare(const LibraryCommand& call) = 0;
  /// A prepared call. Allocates nothing.
  virtual void enqueue(const LibraryCommand& call, cudaStream_t stream) const = 0;
  /// Throws RunError where an enqueued call has failed since.
  virtual void require_sound() const {}
};

/// All of them. Throws RunError where one cannot be loaded, or refuses the device.
std::vector<std::unique_ptr<DeviceLibrary>> open_libraries();
using LibrariesOpener = std::vector<std::unique_ptr<DeviceLibrary>> (*)();

}  // namespace metronome::executor::libraries
