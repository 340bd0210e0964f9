// "NCCL User Guide" 2.28: Creating a Communicator, Fault Tolerance, Using NCCL with CUDA Graphs.
#include "executor/cuda/libraries/nccl_communicator.h"

#include <fmt/format.h>

#include <exception>
#include <thread>

#include "graph/ir/error.h"

namespace metronome::executor::libraries {
namespace {

/// Between two questions whether a call is through.
constexpr std::chrono::microseconds kGlance{100};

}  // namespace

/// Where a rank fails, others do not come to destroy theirs.
NcclCommunicator::Owned::~Owned() {
  if (handle == nullptr) return;
  const bool aborts = !failure.empty() || std::uncaught_exceptions() > 0;
  static_cast<void>(aborts ? functions.ncclCommAbort(handle) : functions.ncclCommDestroy(handle));
}

NcclCommunicator::NcclCommunicator(const nccl::Functions& functions, int rank, int size,
                                   const nccl::UniqueId& id, Milliseconds limit)
    : who_(fmt::format("rank {} of {}", rank, size)), owned_{functions} {
  nccl::Config config;
  finish(functions.ncclCommInitRankConfig(&owned_.handle, size, id, rank, &config),
         "make a communicator", limit);
}

void NcclCommunicator::call(const std::string& doing, Milliseconds limit,
                            const std::function<nccl::Result(nccl::Handle)>& work) {
  if (!owned_.failure.empty()) throw RunError(owned_.failure);
  finish(work(owned_.handle), doing, limit);
}

void NcclCommunicator::finish(nccl::Result status, const std::string& doing, Milliseconds limit) {
  const auto last = std::chrono::steady_clock::now() + limit;
  while (status == nccl::kInProgress) {
    const nccl::Result asked = owned_.functions.ncclCommGetAsyncError(owned_.handle, &status);
    if (asked != nccl::kSuccess) status = asked;
    if (status != nccl::kInProgress) break;
    if (std::chrono::steady_clock::now() >= last) {
      fail(doing, fmt::format("not all ranks came within {} s",
                              std::chrono::duration<double>(limit).count()));
    }
    std::this_thread::sleep_for(kGlance);
  }
  if (status != nccl::kSuccess) fail(doing, owned_.functions.ncclGetErrorString(status));
}

void NcclCommunicator::fail(const std::string& doing, const std::string& why) {
  const char* last = owned_.functions.ncclGetLastError(owned_.handle);
  const bool says_more = last != nullptr && *last != '\0';
  owned_.failure = fmt::format("{}: NCCL cannot {}: {}{}", who_, doing, why,
                               says_more ? fmt::format(": {}", last) : "");
  throw RunError(owned_.failure);
}

}  // namespace metronome::executor::libraries
