// Without CUPTI's header there is nothing to read.
#if __has_include(<cupti.h>)

#include "executor/cuda/runtime/activity_records.h"

#include <algorithm>

namespace metronome::executor::runtime {

template <class Record>
void ActivityRecords::add(const Record& record) {
  if (record.start == 0 || record.end < record.start) return;  // it had not ended, or was not timed
  // A library may launch a graph of its own, which counts to the call's label.
  took_ns_[record.correlationId] += record.end - record.start;
  if (record.graphNodeId == 0) return;
  nodes_.push_back({record.graphNodeId, record.start, record.end});
}

void ActivityRecords::take(const CUpti_Activity& record) {
  const void* whole = &record;
  switch (record.kind) {
    case CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION: {
      const auto& label = *static_cast<const CUpti_ActivityExternalCorrelation*>(whole);
      if (label.externalKind == kLabels) labels_[label.correlationId] = label.externalId;
      return;
    }
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL:
      return add(*static_cast<const CUpti_ActivityKernel10*>(whole));
    case CUPTI_ACTIVITY_KIND_MEMCPY:
      return add(*static_cast<const CUpti_ActivityMemcpy6*>(whole));
    case CUPTI_ACTIVITY_KIND_MEMSET:
      return add(*static_cast<const CUpti_ActivityMemset4*>(whole));
    default:
      return;
  }
}

std::map<std::uint64_t, double> ActivityRecords::by_label() const {
  std::map<std::uint64_t, double> result;
  for (const auto& [call, ns] : took_ns_) {
    const auto label = labels_.find(call);
    if (label != labels_.end()) result[label->second] += static_cast<double>(ns) / 1e3;
  }
  return result;
}

std::vector<NodeActivity> ActivityRecords::of_nodes() const {
  std::vector<NodeActivity> sorted = nodes_;
  std::ranges::stable_sort(sorted, {}, &NodeActivity::begin_ns);
  return sorted;
}

}  // namespace metronome::executor::runtime

#endif
