// One communicator of NCCL.
#pragma once

#include <chrono>
#include <functional>
#include <string>

#include "executor/cuda/libraries/nccl_interface.h"

namespace metronome::executor::libraries {

/// This rank's end of a communicator on the device that is current. Graphs that hold its calls are
/// destroyed before it: NCCL waits for them.
///
/// No call of the library waits for other ranks; calls here do, for so long as their limit says.
/// They throw RunError with the rank and what NCCL says, and the same again at each later call; the
/// destructor then aborts what is under way.
class NcclCommunicator {
 public:
  using Milliseconds = std::chrono::milliseconds;

  /// Returns when all ranks are there, each with its number and the same `id`.
  NcclCommunicator(const nccl::Functions& functions, int rank, int size, const nccl::UniqueId& id,
                   Milliseconds limit);
  NcclCommunicator(const NcclCommunicator&) = delete;

  /// Makes a call of the library that may go on behind it, and waits until it is enqueued.
  /// `doing`: "enqueue all_reduce sum of f32 [8]", for messages.
  void call(const std::string& doing, Milliseconds limit,
            const std::function<nccl::Result(nccl::Handle)>& work);

 private:
  /// Destroyed with the object, and where its constructor throws.
  struct Owned {
    const nccl::Functions& functions;
    nccl::Handle handle = nullptr;
    std::string failure = {};  // empty: there is none
    ~Owned();
  };

  void finish(nccl::Result status, const std::string& doing, Milliseconds limit);
  [[noreturn]] void fail(const std::string& doing, const std::string& why);

  std::string who_;  // "rank 0 of 2"
  Owned owned_;
};

}  // namespace metronome::executor::libraries
