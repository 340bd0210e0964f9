// One communicator of NCCL.
#pragma once

#include <chrono>
#include <functional>
#include <mutex>
#include <optional>
#include <string>

#include "executor/cuda/libraries/nccl_interface.h"

namespace metronome::executor::libraries {

/// This rank's end of a communicator on the device that is current. Graphs that hold its calls are
/// destroyed before it: NCCL waits for them.
///
/// No call of the library waits for other ranks; calls here do, for so long as their limit says.
/// They throw RunError with the rank and what NCCL says, and the same again at each later call; the
/// destructor then aborts what is under way. `error` and `abort` are for any thread.
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

  /// "NCCL failed: remote process exited ...": what has become of enqueued calls, once.
  std::optional<std::string> error();
  /// Ends what is under way on the device. Calls throw `why` from now on. It may return only once
  /// the graphs are destroyed that hold calls.
  void abort(const std::string& why);

 private:
  /// Destroyed with the object, and where its constructor throws.
  struct OwnedCommunicator {
    const nccl::Functions& functions;
    nccl::Handle handle = nullptr;  // null once it is aborted
    std::string failure = {};       // empty: there is none
    ~OwnedCommunicator();
  };

  void finish(nccl::Result status, const std::string& doing, Milliseconds limit);
  nccl::Result ask();
  void require_whole() const;
  [[noreturn]] void fail(const std::string& doing, const std::string& why);
  std::string add_last_error(const std::string& why) const;

  std::string who_;  // "rank 0 of 2"
  std::mutex mutex_;
  OwnedCommunicator owned_;
};

}  // namespace metronome::executor::libraries
