// Without CUPTI's header there is nothing to read.
#if __has_include(<cupti.h>)

#include "executor/cuda/runtime/activity_records.h"

namespace metronome::executor::runtime {

void ActivityRecords::take(const CUpti_Activity& record) {
  const void* whole = &record;
  switch (record.kind) {
    case CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION: {
      const auto& label = *static_cast<const CUpti_ActivityExternalCorrelation*>(whole);
      if (label.externalKind == kLabels) labels_[label.correlationId] = label.externalId;
      return;
    }
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL: {
      const auto& kernel = *static_cast<const CUpti_ActivityKernel10*>(whole);
      return add(kernel.correlationId, kernel.start, kernel.end);
    }
    case CUPTI_ACTIVITY_KIND_MEMCPY: {
      const auto& copy = *static_cast<const CUpti_ActivityMemcpy6*>(whole);
      return add(copy.correlationId, copy.start, copy.end);
    }
    case CUPTI_ACTIVITY_KIND_MEMSET: {
      const auto& zero = *static_cast<const CUpti_ActivityMemset4*>(whole);
      return add(zero.correlationId, zero.start, zero.end);
    }
    default:
      return;
  }
}

void ActivityRecords::add(std::uint32_t call, std::uint64_t begin_ns, std::uint64_t end_ns) {
  if (begin_ns == 0 || end_ns < begin_ns) return;  // it had not ended, or was not timed
  took_ns_[call] += end_ns - begin_ns;
}

std::map<std::uint64_t, double> ActivityRecords::by_label() const {
  std::map<std::uint64_t, double> result;
  for (const auto& [call, ns] : took_ns_) {
    const auto label = labels_.find(call);
    if (label != labels_.end()) result[label->second] += static_cast<double>(ns) / 1e3;
  }
  return result;
}

}  // namespace metronome::executor::runtime

#endif
