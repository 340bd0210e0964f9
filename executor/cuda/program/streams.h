// The stream of each piece of work, and the events that hold the streams together.
//
//   start    a ---- c ------ f    end       stream 0
//       \       \         /     /
//        b       d ---- e      g            stream 1
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace metronome::executor::program {

struct StreamPlan {
  /// In `waits`: the moment on stream 0 before the first item.
  static constexpr std::int32_t kStart = -1;

  int streams = 1;          ///< used; those with items are 0 to streams - 1
  std::vector<int> stream;  ///< [item]
  /// [item] Items of other streams, or kStart, whose events its stream waits for before it,
  /// ascending.
  std::vector<std::vector<std::int32_t>> waits;
  std::vector<bool> recorded;       ///< [item] something waits for its event
  bool start_recorded = false;      ///< something waits for kStart
  std::vector<std::int32_t> joins;  ///< items that stream 0 waits for at the end, ascending

  bool operator==(const StreamPlan&) const = default;
};

/// Assigns items to at most `streams` streams. `after[i]` are the earlier items that item i must
/// come after (see hazards.h). Every stream runs its items in their order; all begin after the
/// start of stream 0, and stream 0 ends after all. An item follows one that it must come after
/// where that is the last of its stream; else it takes a stream on which it waits for nothing that
/// it need not wait for, or, where there is none, the one that is least far. An event is waited for
/// only where nothing else implies it. Deterministic. One stream: no events.
StreamPlan assign_streams(std::span<const std::vector<std::int32_t>> after, int streams);

}  // namespace metronome::executor::program
