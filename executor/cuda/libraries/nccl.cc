// Ranks meet when they prepare their first collective, in steps that all of them take:
//
//   introduce   each loads the library, and tells its device's UUID or why it cannot take part;
//               rank 0 adds two ids, by which NCCL finds the ranks
//   exchange    a failure of any rank, or one device of two ranks, is thrown on all
//   make        two communicators: one for captured calls, one for all others
//   exchange    a failure to make them is thrown on all
//   watch       a watchdog looks after both
//
// `enqueue` chooses by whether the stream is captured. It asks the watchdog before the call, and
// again if the call fails. NCCL makes an all-to-all of sends and receives in one group.
#include "executor/cuda/libraries/nccl.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <span>
#include <sstream>
#include <type_traits>
#include <utility>

#include "executor/cuda/libraries/handle.h"
#include "executor/cuda/libraries/library.h"
#include "graph/ir/error.h"

namespace metronome::executor::libraries {

nccl::Functions nccl::load() {
  const Library library("libnccl.so.2", "nvidia-nccl-cu13", true);
  Functions all{};
#define METRONOME_FUNCTION(symbol) \
  all.symbol = library.function<std::remove_pointer_t<decltype(all.symbol)>>(#symbol)
  METRONOME_FUNCTION(ncclGetErrorString);
  METRONOME_FUNCTION(ncclGetLastError);
  METRONOME_FUNCTION(ncclGetUniqueId);
  METRONOME_FUNCTION(ncclCommInitRankConfig);
  METRONOME_FUNCTION(ncclCommGetAsyncError);
  METRONOME_FUNCTION(ncclCommDestroy);
  METRONOME_FUNCTION(ncclCommAbort);
  METRONOME_FUNCTION(ncclAllReduce);
  METRONOME_FUNCTION(ncclReduce);
  METRONOME_FUNCTION(ncclBroadcast);
  METRONOME_FUNCTION(ncclAllGather);
  METRONOME_FUNCTION(ncclReduceScatter);
  METRONOME_FUNCTION(ncclSend);
  METRONOME_FUNCTION(ncclRecv);
  METRONOME_FUNCTION(ncclGroupStart);
  METRONOME_FUNCTION(ncclGroupEnd);
#undef METRONOME_FUNCTION
  return all;
}

namespace {

using CollectiveKind = CollectiveProblem::Kind;

std::string hexadecimal(std::span<const char> bytes) {
  std::string text;
  for (const char byte : bytes) text += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  return text;
}

/// The text that a rank sends the others before they make communicators, a line for each field.
struct NcclIntroduction {
  std::string failure;  ///< why it cannot take part; empty: it can
  std::string device;   ///< "0 (NVIDIA H100)"
  std::string uuid;     ///< of the device, in hexadecimal digits: no other one has it
  std::string ids;      ///< of both communicators, from rank 0

  std::string text() const { return fmt::format("{}\n{}\n{}\n{}\n", failure, device, uuid, ids); }
  static NcclIntroduction of(const std::string& text) {
    NcclIntroduction read;
    std::istringstream lines(text);
    for (std::string* line : {&read.failure, &read.device, &read.uuid, &read.ids}) {
      std::getline(lines, *line);
    }
    return read;
  }
  nccl::UniqueId id(std::size_t index) const {
    nccl::UniqueId made{};
    for (std::size_t i = 0; i < sizeof made.bytes; ++i) {
      const std::size_t at = 2 * (index * sizeof made.bytes + i);
      made.bytes[i] = static_cast<char>(std::stoi(ids.substr(at, 2), nullptr, 16));
    }
    return made;
  }
};

/// Throws what the ranks say, if any of them says something.
void require_none(const std::vector<std::string>& failures) {
  std::vector<std::string> told;
  for (const std::string& failure : failures) {
    if (!failure.empty()) told.push_back(failure);
  }
  if (!told.empty()) throw RunError(fmt::format("{}", fmt::join(told, "; ")));
}

void require_distinct_devices(const std::vector<NcclIntroduction>& ranks) {
  for (std::size_t b = 0; b < ranks.size(); ++b) {
    for (std::size_t a = 0; a < b; ++a) {
      if (ranks[a].uuid != ranks[b].uuid) continue;
      throw RunError(fmt::format(
          "ranks {} and {} of {} both use CUDA device {}, and NCCL needs one for each rank: name "
          "no "
          "CudaOptions::device, so that each takes that of its LOCAL_RANK, on a machine with as "
          "many devices as ranks",
          a, b, ranks.size(), ranks[a].device));
    }
  }
}

nccl::DataType data_type(Element element) {
  return element == f32 ? nccl::kFloat32 : element == f64 ? nccl::kFloat64 : nccl::kInt64;
}

nccl::Reduction reduction(ReduceOp op) {
  switch (op) {
    case ReduceOp::sum:
      return nccl::kSum;
    case ReduceOp::mean:
      return nccl::kMean;
    case ReduceOp::max:
      return nccl::kMax;
    case ReduceOp::min:
      return nccl::kMin;
  }
  throw InternalError("a reduction that NCCL does not know");
}

/// NCCL has it as messages of one group, which ends whatever fails in it.
nccl::Result exchange_parts(const nccl::Functions& functions, const CollectiveCommand& command,
                            nccl::Handle handle, cudaStream_t stream) {
  const auto failed = [](nccl::Result status) {
    return status != nccl::kSuccess && status != nccl::kInProgress;
  };
  const int size = command.ranks->size();
  const std::size_t part = command.from_bytes() / static_cast<std::size_t>(size);
  const auto* from = static_cast<const std::byte*>(command.from);
  auto* to = static_cast<std::byte*>(command.to);
  nccl::Result status = functions.ncclGroupStart();
  if (failed(status)) return status;
  for (int r = 0; r < size && !failed(status); ++r) {
    const std::size_t begin = static_cast<std::size_t>(r) * part;
    status = functions.ncclSend(from + begin, part, nccl::kBytes, r, handle, stream);
    if (failed(status)) break;
    status = functions.ncclRecv(to + begin, part, nccl::kBytes, r, handle, stream);
  }
  const nccl::Result ended = functions.ncclGroupEnd();
  return failed(status) ? status : ended;
}

nccl::Result enqueue_collective(const nccl::Functions& functions, const CollectiveCommand& command,
                                nccl::Handle handle, cudaStream_t stream) {
  const CollectiveProblem& p = command.problem;
  const auto count = static_cast<std::size_t>(p.count);
  const auto n = static_cast<std::size_t>(command.ranks->size());
  const void* from = command.from;
  void* to = command.to;
  switch (p.kind) {
    case CollectiveKind::all_reduce:
      return functions.ncclAllReduce(from, to, count, data_type(p.element), reduction(p.op), handle,
                                     stream);
    case CollectiveKind::reduce:
      return functions.ncclReduce(from, to, count, data_type(p.element), reduction(p.op), p.root,
                                  handle, stream);
    case CollectiveKind::broadcast:
      return functions.ncclBroadcast(from, to, command.from_bytes(), nccl::kBytes, p.root, handle,
                                     stream);
    case CollectiveKind::all_gather:
      return functions.ncclAllGather(from, to, command.from_bytes(), nccl::kBytes, handle, stream);
    case CollectiveKind::reduce_scatter:
      return functions.ncclReduceScatter(from, to, count / n, data_type(p.element), reduction(p.op),
                                         handle, stream);
    case CollectiveKind::all_to_all:
      return exchange_parts(functions, command, handle, stream);
  }
  throw InternalError("a collective that NCCL does not know");
}

}  // namespace

bool Nccl::makes(const LibraryCommand& call) const {
  return call.as<CollectiveCommand>() != nullptr;
}

std::vector<Candidate> Nccl::candidates(const LibraryCommand& call) const {
  return {{.maker = call.maker()}};
}

std::string Nccl::introduction(const CollectiveRanks& ranks) {
  NcclIntroduction own;
  try {
    if (!functions_) functions_ = load_();
    int index = 0;
    check(cudaGetDevice(&index), "tell which device is current");
    cudaDeviceProp properties = {};
    check(cudaGetDeviceProperties(&properties, index), "describe the device");
    own.device = fmt::format("{} ({})", index, properties.name);
    own.uuid = hexadecimal(properties.uuid.bytes);
    for (int i = 0; i < 2 && ranks.rank() == 0; ++i) {
      nccl::UniqueId id{};
      const nccl::Result status = functions_->ncclGetUniqueId(&id);
      if (status != nccl::kSuccess) {
        throw RunError(fmt::format("NCCL cannot make an id for ranks to meet by: {}",
                                   functions_->ncclGetErrorString(status)));
      }
      own.ids += hexadecimal(id.bytes);
    }
  } catch (const RunError& error) {
    own.failure = fmt::format("rank {} of {}: {}", ranks.rank(), ranks.size(), error.what());
  }
  return own.text();
}

Nccl::Communicators Nccl::meet(const std::shared_ptr<CollectiveRanks>& ranks) {
  std::vector<NcclIntroduction> all;
  std::vector<std::string> failures;
  for (const std::string& said : ranks->exchange(introduction(*ranks))) {
    all.push_back(NcclIntroduction::of(said));
    failures.push_back(all.back().failure);
  }
  require_none(failures);
  require_distinct_devices(all);
  const auto made = [&](std::size_t index) {
    return std::make_unique<NcclCommunicator>(*functions_, ranks->rank(), ranks->size(),
                                              all[0].id(index), ranks->limits().connect);
  };
  Communicators communicators{ranks, {}, {}, {}};
  std::string failure;
  try {
    communicators.captured = made(0);
    communicators.others = made(1);
  } catch (const RunError& error) {
    failure = error.what();
  }
  require_none(ranks->exchange(failure));
  communicators.watchdog =
      std::make_unique<NcclWatchdog>(*ranks, *communicators.captured, *communicators.others);
  return communicators;
}

void Nccl::prepare(const LibraryCommand& call) {
  const std::shared_ptr<CollectiveRanks>& ranks = call.as<CollectiveCommand>()->ranks;
  if (!communicators_.contains(ranks.get())) communicators_.emplace(ranks.get(), meet(ranks));
}

void Nccl::enqueue(const LibraryCommand& call, cudaStream_t stream) const {
  const CollectiveCommand& command = *call.as<CollectiveCommand>();
  const auto found = communicators_.find(command.ranks.get());
  if (found == communicators_.end()) {
    throw InternalError("a collective that was not prepared: " + command.text());
  }
  NcclWatchdog& watchdog = *found->second.watchdog;
  watchdog.check();
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  check(cudaStreamIsCapturing(stream, &status), "tell whether a stream is captured");
  const bool captured = status != cudaStreamCaptureStatusNone;
  NcclCommunicator& communicator = captured ? *found->second.captured : *found->second.others;
  try {
    communicator.call("enqueue " + command.text(), command.ranks->limits().collective,
                      [&](nccl::Handle handle) {
                        return enqueue_collective(*functions_, command, handle, stream);
                      });
  } catch (const RunError&) {
    watchdog.check();  // it may have ended the call, and waits to be asked
    throw;
  }
}

void Nccl::require_sound() const {
  for (const auto& [ranks, of_ranks] : communicators_) {
    of_ranks.watchdog->check();
    for (NcclCommunicator* communicator : {of_ranks.captured.get(), of_ranks.others.get()}) {
      if (const auto error = communicator->error()) {
        throw RunError(fmt::format("rank {} of {}: {}", ranks->rank(), ranks->size(), *error));
      }
    }
  }
}

}  // namespace metronome::executor::libraries
