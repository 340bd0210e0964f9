#include "executor/cuda/runtime/activity.h"

#include <fmt/format.h>

#include <cstdlib>
#include <mutex>
#include <utility>

#include "executor/support/log.h"
#include "graph/ir/error.h"

#if __has_include(<cupti.h>)
#include "executor/cuda/runtime/activity_records.h"
#define METRONOME_CUPTI 1
#endif

namespace metronome::executor::runtime {
#if defined(METRONOME_CUPTI)
namespace {

constexpr CUpti_ActivityKind kKinds[] = {
    CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION,
    // Labels are of calls, of either interface: the libraries launch by one or the other.
    CUPTI_ACTIVITY_KIND_RUNTIME,
    CUPTI_ACTIVITY_KIND_DRIVER,
    CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL,
    CUPTI_ACTIVITY_KIND_MEMCPY,
    CUPTI_ACTIVITY_KIND_MEMSET,
};

// CUPTI recommends buffers of 1 to 10 MB, at multiples of 8 bytes.
constexpr std::size_t kBufferBytes = std::size_t{2} << 20;
constexpr std::size_t kBufferAlignment = 8;

// CUPTI's callbacks, which come on threads of its own, have no argument to find their owner by.
struct ArrivedRecords {
  std::mutex mutex;
  ActivityRecords records;
  std::size_t dropped = 0;  // which CUPTI had no buffer for
  decltype(&cuptiActivityGetNextRecord) next = nullptr;
  decltype(&cuptiActivityGetNumDroppedRecords) count_dropped = nullptr;
};
ArrivedRecords arrived;

void CUPTIAPI give_buffer(std::uint8_t** buffer, std::size_t* bytes, std::size_t* most_records) {
  *buffer = static_cast<std::uint8_t*>(std::aligned_alloc(kBufferAlignment, kBufferBytes));
  *bytes = *buffer == nullptr ? 0 : kBufferBytes;
  *most_records = 0;  // as many as fit
}

void CUPTIAPI take_buffer(CUcontext context, std::uint32_t stream, std::uint8_t* buffer,
                          std::size_t, std::size_t bytes) {
  const std::lock_guard lock(arrived.mutex);
  CUpti_Activity* record = nullptr;
  while (arrived.next(buffer, bytes, &record) == CUPTI_SUCCESS) arrived.records.take(*record);
  std::size_t dropped = 0;  // since it was asked last
  if (arrived.count_dropped(context, stream, &dropped) == CUPTI_SUCCESS) arrived.dropped += dropped;
  std::free(buffer);
}

void expect(CUptiResult result, const char* what) {
  if (result == CUPTI_SUCCESS) return;
  throw RunError(fmt::format("CUPTI refuses to {}: error {}", what, static_cast<int>(result)));
}

}  // namespace

// Libtorch's own CUPTI, where it is loaded: two in a process would hinder each other.
Activities::Activities() : library_("libcupti.so.13", "nvidia-cuda-cupti", true) {
  arrived.next =
      library_.function<decltype(cuptiActivityGetNextRecord)>("cuptiActivityGetNextRecord");
  arrived.count_dropped = library_.function<decltype(cuptiActivityGetNumDroppedRecords)>(
      "cuptiActivityGetNumDroppedRecords");
  expect(library_.function<decltype(cuptiActivityRegisterCallbacks)>(
             "cuptiActivityRegisterCallbacks")(give_buffer, take_buffer),
         "tell of activities");
}

Activities::~Activities() { disable(); }

void Activities::begin() {
  {
    const std::lock_guard lock(arrived.mutex);
    arrived.records = {};
    arrived.dropped = 0;
  }
  const auto enable = library_.function<decltype(cuptiActivityEnable)>("cuptiActivityEnable");
  for (const CUpti_ActivityKind kind : kKinds) {
    const CUptiResult result = enable(kind);
    if (result == CUPTI_SUCCESS) continue;
    disable();
    expect(result, "record activities");
  }
}

void Activities::label(std::uint64_t label) {
  std::uint64_t last = 0;
  if (labelled_) {
    expect(library_.function<decltype(cuptiActivityPopExternalCorrelationId)>(
               "cuptiActivityPopExternalCorrelationId")(ActivityRecords::kLabels, &last),
           "end a label");
  }
  labelled_ = false;
  expect(library_.function<decltype(cuptiActivityPushExternalCorrelationId)>(
             "cuptiActivityPushExternalCorrelationId")(ActivityRecords::kLabels, label),
         "label calls");
  labelled_ = true;
}

void Activities::end() {
  disable();
  // Forced: what other threads do meanwhile may not be over, and would hold a buffer back.
  expect(library_.function<decltype(cuptiActivityFlushAll)>("cuptiActivityFlushAll")(
             CUPTI_ACTIVITY_FLAG_FLUSH_FORCED),
         "hand over its records");
  const std::lock_guard lock(arrived.mutex);
  if (arrived.dropped == 0) return;
  logger().warn("CUPTI has dropped {} records of what the device did: times may be too short",
                arrived.dropped);
}

std::map<std::uint64_t, double> Activities::by_label() const {
  const std::lock_guard lock(arrived.mutex);
  return arrived.records.by_label();
}

std::vector<NodeActivity> Activities::of_nodes() const {
  const std::lock_guard lock(arrived.mutex);
  return arrived.records.of_nodes();
}

void Activities::disable() noexcept {
  try {
    std::uint64_t last = 0;
    if (std::exchange(labelled_, false)) {
      static_cast<void>(library_.function<decltype(cuptiActivityPopExternalCorrelationId)>(
          "cuptiActivityPopExternalCorrelationId")(ActivityRecords::kLabels, &last));
    }
    const auto disable = library_.function<decltype(cuptiActivityDisable)>("cuptiActivityDisable");
    for (const CUpti_ActivityKind kind : kKinds) static_cast<void>(disable(kind));
  } catch (const RunError&) {  // a library without the function never enabled anything
  }
}

#else

Activities::Activities() : library_("libcupti.so.13", "nvidia-cuda-cupti") {
  throw RunError("this program was built without CUPTI's header, cupti.h, of the CUDA 13 toolkit");
}
Activities::~Activities() = default;
void Activities::begin() {}
void Activities::label(std::uint64_t) {}
void Activities::end() {}
std::map<std::uint64_t, double> Activities::by_label() const { return {}; }
std::vector<NodeActivity> Activities::of_nodes() const { return {}; }
void Activities::disable() noexcept {}

#endif

}  // namespace metronome::executor::runtime
