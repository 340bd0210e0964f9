// Collectives by NCCL.
#pragma once

#include <cuda_runtime_api.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "executor/cuda/libraries/libraries.h"
#include "executor/cuda/libraries/nccl_communicator.h"
#include "executor/cuda/libraries/nccl_interface.h"
#include "executor/cuda/libraries/nccl_watchdog.h"
#include "ops/cuda/collective_call.h"
#include "ops/rules/candidate.h"
#include "ops/rules/collective_ranks.h"

namespace metronome::executor::libraries {

/// The library on the device that is current; it is loaded when ranks prepare their first call.
///
/// Ranks that call it get two communicators each, which end with this object: whoever owns it
/// destroys its graphs first. Captured calls are made by one of them, all others by the second, so
/// that a graph need not wait for what was enqueued beside it. Numbers are added in an order of
/// NCCL's own: bits may differ from those of ranks on CPUs.
class Nccl final : public DeviceLibrary {
 public:
  using Loader = nccl::Functions (*)();

  explicit Nccl(Loader load = nccl::load) : load_(load) {}

  /// Empty: programs of one rank do not look for it.
  std::string version() const override { return ""; }
  bool makes(const LibraryCommand& call) const override;
  std::vector<Candidate> candidates(const LibraryCommand& call) const override;

  /// The first call of some ranks makes their communicators, with all of them together. Throws
  /// RunError, on all ranks and with the same words, where one of them lacks the library, where two
  /// use one device, or where NCCL fails on one.
  void prepare(const LibraryCommand& call) override;
  /// Throws RunError where NCCL refuses it, or where other ranks do not make it in time.
  void enqueue(const LibraryCommand& call, cudaStream_t stream) const override;
  /// Throws RunError with what the ranks' watchdog has found, or NCCL's own error.
  void require_sound() const override;

 private:
  struct Communicators {
    std::shared_ptr<CollectiveRanks> ranks;  // whose address it is known by
    std::unique_ptr<NcclCommunicator> captured, others;
    std::unique_ptr<NcclWatchdog> watchdog;  // ends before them
  };

  std::string introduction(const CollectiveRanks& ranks);
  Communicators meet(const std::shared_ptr<CollectiveRanks>& ranks);

  Loader load_;
  std::optional<nccl::Functions> functions_;
  std::map<const CollectiveRanks*, Communicators> communicators_;
};

}  // namespace metronome::executor::libraries
