#ifndef METRONOME_NO_CUDA

#include "tests/nccl/stub.h"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "tests/cuda_runtime/stub.h"
#include "tests/nccl/stub_ranks.h"

namespace metronome::nccl_stub {
namespace {

/// The state of a group of messages, until it ends.
struct Group {
  bool open = false;
  Result status = kSuccess;
  Communicator* communicator = nullptr;
  cudaStream_t stream = nullptr;
  std::size_t part = 0;
  std::map<int, const std::byte*> sent;  // by rank
  std::map<int, std::byte*> received;
};

thread_local Plan plan;
thread_local std::vector<std::string> log;
thread_local int made = 0;
thread_local Group group;
thread_local const char* last_error = "";

std::mutex cliques_mutex;
std::map<std::string, std::shared_ptr<Clique>> cliques;
int ids = 0;
std::atomic<int> alive = 0;

/// Whether the call is to go on.
Result counted(const std::string& call) {
  log.push_back(call);
  if (static_cast<int>(log.size()) - 1 != plan.failing) return kSuccess;
  last_error = "planted";
  return kSystemError;
}

/// A kernel of the stream; where it is not captured the ranks meet, and `take` gets all offers.
template <class Take>
Result enqueue(Communicator& own, Offer offer, cudaStream_t stream, Take take) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  if (cudaStreamIsCapturing(stream, &status) != cudaSuccess) return kInvalidArgument;
  static const int kernel = 0;
  cudaLaunchConfig_t config = {};
  config.gridDim = config.blockDim = {1, 1, 1};
  config.stream = stream;
  if (cudaLaunchKernelExC(&config, &kernel, nullptr) != cudaSuccess) return kSystemError;
  own.pending = true;
  if (status != cudaStreamCaptureStatusNone) return kInProgress;
  Clique& clique = *own.clique;
  clique.offers[static_cast<std::size_t>(own.rank)] = std::move(offer);
  if (!clique.await_all()) return kRemoteError;
  for (const Offer& other : clique.offers) {
    if (other.call != clique.offers[0].call) return kInvalidUsage;
  }
  take(clique.offers);
  return clique.await_all() ? kInProgress : kRemoteError;
}

std::vector<std::byte> bytes_at(const void* from, std::size_t bytes) {
  const auto* begin = static_cast<const std::byte*>(from);
  return {begin, begin + bytes};
}

/// `what`: the call without its communicator.
template <class Take>
Result collective(const std::string& what, Handle handle, const void* from, std::size_t bytes,
                  cudaStream_t stream, Take take) {
  auto& own = *static_cast<Communicator*>(handle);
  if (const Result status = counted(fmt::format("{} on {}", what, own.number));
      status != kSuccess) {
    return status;
  }
  return enqueue(own, {what, bytes_at(from, bytes)}, stream, take);
}

Result all_reduce(const void* from, void* to, std::size_t count, DataType type, Reduction op,
                  Handle handle, cudaStream_t stream) {
  const auto what =
      fmt::format("ncclAllReduce {} {} {}", count, name_of_type(type), name_of_reduction(op));
  return collective(what, handle, from, count * size_of_type(type), stream,
                    [&](const std::vector<Offer>& all) { join(type, op, all, 0, count, to); });
}

Result reduce(const void* from, void* to, std::size_t count, DataType type, Reduction op, int root,
              Handle handle, cudaStream_t stream) {
  const auto what = fmt::format("ncclReduce {} {} {} to {}", count, name_of_type(type),
                                name_of_reduction(op), root);
  const bool own = static_cast<Communicator*>(handle)->rank == root;
  return collective(what, handle, from, count * size_of_type(type), stream,
                    [&](const std::vector<Offer>& all) {
                      if (own) join(type, op, all, 0, count, to);
                    });
}

Result broadcast(const void* from, void* to, std::size_t count, DataType type, int root,
                 Handle handle, cudaStream_t stream) {
  const auto what = fmt::format("ncclBroadcast {} {} from {}", count, name_of_type(type), root);
  return collective(what, handle, from, count * size_of_type(type), stream,
                    [&](const std::vector<Offer>& all) {
                      const auto& bytes = all[static_cast<std::size_t>(root)].bytes;
                      std::memcpy(to, bytes.data(), bytes.size());
                    });
}

Result all_gather(const void* from, void* to, std::size_t count, DataType type, Handle handle,
                  cudaStream_t stream) {
  const auto what = fmt::format("ncclAllGather {} {}", count, name_of_type(type));
  return collective(what, handle, from, count * size_of_type(type), stream,
                    [&](const std::vector<Offer>& all) {
                      auto* at = static_cast<std::byte*>(to);
                      for (const Offer& offer : all) at = std::ranges::copy(offer.bytes, at).out;
                    });
}

Result reduce_scatter(const void* from, void* to, std::size_t count, DataType type, Reduction op,
                      Handle handle, cudaStream_t stream) {
  const auto& own = *static_cast<Communicator*>(handle);
  const auto rank = static_cast<std::size_t>(own.rank);
  const auto ranks = static_cast<std::size_t>(own.clique->size());
  const auto what =
      fmt::format("ncclReduceScatter {} {} {}", count, name_of_type(type), name_of_reduction(op));
  return collective(
      what, handle, from, ranks * count * size_of_type(type), stream,
      [&](const std::vector<Offer>& all) { join(type, op, all, rank * count, count, to); });
}

/// Messages of a group begin when it ends.
Result grouped(const std::string& call, std::size_t count, Handle handle, cudaStream_t stream) {
  if (!group.open) return kInvalidUsage;
  group.communicator = static_cast<Communicator*>(handle);
  group.stream = stream;
  group.part = count;
  const Result status = counted(fmt::format("{} on {}", call, group.communicator->number));
  if (status != kSuccess) group.status = status;
  return status;
}

Result send(const void* from, std::size_t count, DataType type, int peer, Handle handle,
            cudaStream_t stream) {
  group.sent[peer] = static_cast<const std::byte*>(from);
  return grouped(fmt::format("ncclSend {} {} to {}", count, name_of_type(type), peer), count,
                 handle, stream);
}

Result receive(void* to, std::size_t count, DataType type, int peer, Handle handle,
               cudaStream_t stream) {
  group.received[peer] = static_cast<std::byte*>(to);
  return grouped(fmt::format("ncclRecv {} {} from {}", count, name_of_type(type), peer), count,
                 handle, stream);
}

Result group_start() {
  const Result status = counted("ncclGroupStart");
  if (status == kSuccess) {
    group = {};
    group.open = true;
  }
  return status;
}

Result group_end() {
  const Group ended = std::exchange(group, {});
  if (!ended.open) return kInvalidUsage;
  const Result status = counted("ncclGroupEnd");
  if (status != kSuccess) return status;
  if (ended.status != kSuccess) return ended.status;
  Communicator& own = *ended.communicator;
  const auto ranks = static_cast<std::size_t>(own.clique->size());
  if (ended.sent.size() != ranks || ended.received.size() != ranks) return kInvalidUsage;
  Offer offer{fmt::format("messages of {} bytes", ended.part), {}};
  for (const auto& [to, bytes] : ended.sent) {
    offer.bytes.insert(offer.bytes.end(), bytes, bytes + ended.part);
  }
  const std::size_t begin = static_cast<std::size_t>(own.rank) * ended.part;
  return enqueue(own, std::move(offer), ended.stream, [&](const std::vector<Offer>& all) {
    for (const auto& [from, to] : ended.received) {
      std::memcpy(to, all[static_cast<std::size_t>(from)].bytes.data() + begin, ended.part);
    }
  });
}

Result unique_id(UniqueId* id) {
  if (const Result status = counted("ncclGetUniqueId"); status != kSuccess) return status;
  const std::scoped_lock lock(cliques_mutex);
  *id = {};
  fmt::format_to_n(id->bytes, sizeof id->bytes - 1, "meeting {}", ++ids);
  return kSuccess;
}

Result init(Handle* handle, int size, UniqueId id, int rank, Config* config) {
  const Result status = counted(fmt::format("ncclCommInitRankConfig of {}", size));
  if (status != kSuccess) return status;
  if (config->size != sizeof(Config) || config->magic != 0xcafebeef || config->blocking != 0) {
    return kInvalidArgument;
  }
  const std::scoped_lock lock(cliques_mutex);
  std::shared_ptr<Clique>& clique = cliques[id.bytes];
  if (clique == nullptr) clique = std::make_shared<Clique>(size);
  *handle = new Communicator{clique, rank, made++};  // NOLINT: a C interface
  ++alive;
  if (plan.stays_away) return kInProgress;
  const std::scoped_lock own(clique->mutex);
  return clique->there.insert(rank).second ? kInProgress : kInvalidUsage;
}

Result async_error(Handle handle, Result* status) {
  auto& own = *static_cast<Communicator*>(handle);
  if (plan.asked_fails) {
    last_error = "planted";
    return kSystemError;
  }
  const std::scoped_lock lock(own.clique->mutex);
  *status = kSuccess;
  if (static_cast<int>(own.clique->there.size()) < own.clique->size()) *status = kInProgress;
  if (std::exchange(own.pending, false)) *status = kInProgress;
  if (own.clique->broken) *status = kRemoteError;
  return kSuccess;
}

void give_back(Handle handle) {
  delete static_cast<Communicator*>(handle);  // NOLINT: a C interface
  --alive;
}

Result destroy(Handle handle) {
  stub::note("ncclCommDestroy");
  const Result status =
      counted(fmt::format("ncclCommDestroy on {}", static_cast<Communicator*>(handle)->number));
  give_back(handle);
  return status;
}

Result abort_all(Handle handle) {
  stub::note("ncclCommAbort");
  const Result status =
      counted(fmt::format("ncclCommAbort on {}", static_cast<Communicator*>(handle)->number));
  static_cast<Communicator*>(handle)->clique->close();
  give_back(handle);
  return status;
}

const char* error_string(Result status) {
  switch (status) {
    case kSystemError:
      return "unhandled system error (run with NCCL_DEBUG=INFO for details)";
    case kRemoteError:
      return "remote process exited or there was a network error";
    default:
      return "another error";
  }
}

}  // namespace

void begin(Plan with) {
  plan = with;
  log.clear();
  made = 0;
  group = {};
  last_error = "";
}

const std::vector<std::string>& calls() { return log; }
int living() { return alive; }

Functions functions() {
  return {.ncclGetErrorString = error_string,
          .ncclGetLastError = [](Handle) { return last_error; },
          .ncclGetUniqueId = unique_id,
          .ncclCommInitRankConfig = init,
          .ncclCommGetAsyncError = async_error,
          .ncclCommDestroy = destroy,
          .ncclCommAbort = abort_all,
          .ncclAllReduce = all_reduce,
          .ncclReduce = reduce,
          .ncclBroadcast = broadcast,
          .ncclAllGather = all_gather,
          .ncclReduceScatter = reduce_scatter,
          .ncclSend = send,
          .ncclRecv = receive,
          .ncclGroupStart = group_start,
          .ncclGroupEnd = group_end};
}

}  // namespace metronome::nccl_stub

#endif
