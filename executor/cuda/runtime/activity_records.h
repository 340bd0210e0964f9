// CUPTI's records of activities, one by one.
#pragma once

#include <cupti.h>

#include <cstdint>
#include <map>
#include <unordered_map>
#include <vector>

#include "executor/cuda/runtime/activity.h"

namespace metronome::executor::runtime {

/// Work that the host enqueued has the number of the call, which CUPTI gives to it and which leads
/// to the label under which the host called. The work of a graph has the number of its node, too.
class ActivityRecords {
 public:
  static constexpr CUpti_ExternalCorrelationKind kLabels = CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0;

  /// Records of other kinds, and those that are not whole, count for nothing.
  void take(const CUpti_Activity& record);
  /// Microseconds by label.
  std::map<std::uint64_t, double> by_label() const;
  /// By their beginning.
  std::vector<NodeActivity> of_nodes() const;

 private:
  template <class Record>
  void add(const Record& record);

  std::unordered_map<std::uint32_t, std::uint64_t> labels_;   // of calls
  std::unordered_map<std::uint32_t, std::uint64_t> took_ns_;  // by calls
  std::vector<NodeActivity> nodes_;
};

}  // namespace metronome::executor::runtime
