// "NCCL User Guide" 2.28: Creating a Communicator, Fault Tolerance, Using NCCL with CUDA Graphs.
#include "executor/cuda/libraries/nccl_communicator.h"

#include <fmt/format.h>

#include <exception>
#include <thread>
#include <utility>

#include "graph/ir/error.h"

namespace metronome::executor::libraries {
namespace {

/// Between two questions whether a call is through.
constexpr std::chrono::microseconds kGlance{100};

}  // namespace

/// A rank that failed aborts its communicator: the others do not come to destroy theirs.
NcclCommunicator::OwnedCommunicator::~OwnedCommunicator() {
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
  nccl::Result status = nccl::kSuccess;
  {
    const std::scoped_lock lock(mutex_);
    require_whole();
    status = work(owned_.handle);
  }
  finish(status, doing, limit);
}

void NcclCommunicator::finish(nccl::Result status, const std::string& doing, Milliseconds limit) {
  const auto last = std::chrono::steady_clock::now() + limit;
  while (true) {
    {
      const std::scoped_lock lock(mutex_);
      require_whole();
      if (status == nccl::kInProgress) status = ask();
      if (status == nccl::kSuccess) return;
      if (status != nccl::kInProgress) fail(doing, owned_.functions.ncclGetErrorString(status));
      if (std::chrono::steady_clock::now() >= last) {
        fail(doing, fmt::format("not all ranks came within {} s",
                                std::chrono::duration<double>(limit).count()));
      }
    }
    std::this_thread::sleep_for(kGlance);
  }
}

std::optional<std::string> NcclCommunicator::error() {
  const std::scoped_lock lock(mutex_);
  if (!owned_.failure.empty()) return std::nullopt;
  const nccl::Result status = ask();
  if (status == nccl::kSuccess || status == nccl::kInProgress) return std::nullopt;
  const std::string text = add_last_error(owned_.functions.ncclGetErrorString(status));
  owned_.failure = fmt::format("{}: NCCL failed: {}", who_, text);
  return "NCCL failed: " + text;
}

void NcclCommunicator::abort(const std::string& why) {
  nccl::Handle handle = nullptr;
  {
    const std::scoped_lock lock(mutex_);
    owned_.failure = why;
    handle = std::exchange(owned_.handle, nullptr);
  }
  if (handle != nullptr) static_cast<void>(owned_.functions.ncclCommAbort(handle));
}

/// Under the lock, as are those below.
nccl::Result NcclCommunicator::ask() {
  nccl::Result status = nccl::kSuccess;
  const nccl::Result asked = owned_.functions.ncclCommGetAsyncError(owned_.handle, &status);
  return asked == nccl::kSuccess ? status : asked;
}

void NcclCommunicator::require_whole() const {
  if (!owned_.failure.empty()) throw RunError(owned_.failure);
}

void NcclCommunicator::fail(const std::string& doing, const std::string& why) {
  owned_.failure = fmt::format("{}: NCCL cannot {}: {}", who_, doing, add_last_error(why));
  throw RunError(owned_.failure);
}

/// With what NCCL says besides, if it does.
std::string NcclCommunicator::add_last_error(const std::string& why) const {
  const char* last = owned_.functions.ncclGetLastError(owned_.handle);
  return last == nullptr || *last == '\0' ? why : fmt::format("{}: {}", why, last);
}

}  // namespace metronome::executor::libraries
