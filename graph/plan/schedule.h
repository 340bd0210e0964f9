// The order in which nodes run, as data.
#pragma once

#include <cstdint>
#include <vector>

namespace metronome::plan {

/// An order of a graph's nodes, and which storages are updated in place. Nodes without a kernel
/// (Input, Read, views) are in the order too: they cost nothing.
struct Schedule {
  std::vector<std::int32_t> order;  ///< node indices; each once
  /// [assignment] true: its value is made over the storage's own bytes; false: it lives in the
  /// arena, in its readable block or in another storage, and is copied at the end of the step.
  std::vector<bool> in_place;
  std::int64_t peak_bytes = 0;  ///< largest sum of live arena bytes over the order, without scratch

  bool operator==(const Schedule&) const = default;
};

}  // namespace metronome::plan
