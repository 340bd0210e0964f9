// CUPTI's records of activities, one by one.
#pragma once

#include <cupti.h>

#include <cstdint>
#include <map>
#include <unordered_map>

namespace metronome::executor::runtime {

/// A call's number, which CUPTI gives to it, leads from what the device did to the label under
/// which the host called.
class ActivityRecords {
 public:
  static constexpr CUpti_ExternalCorrelationKind kLabels = CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0;

  /// Records of other kinds, and those that are not whole, count for nothing.
  void take(const CUpti_Activity& record);
  /// Microseconds by label.
  std::map<std::uint64_t, double> by_label() const;

 private:
  void add(std::uint32_t call, std::uint64_t begin_ns, std::uint64_t end_ns);

  std::unordered_map<std::uint32_t, std::uint64_t> labels_;   // of calls
  std::unordered_map<std::uint32_t, std::uint64_t> took_ns_;  // by calls
};

}  // namespace metronome::executor::runtime
