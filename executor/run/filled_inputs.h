// The inputs' memory as steps find it. Internal to executor/.
#pragma once

#include <cstddef>
#include <vector>

#include "executor/engine/engine.h"
#include "executor/engine/memory.h"
#include "executor/run/declared_graphs.h"
#include "executor/run/feed_views.h"
#include "executor/run/step_feeds.h"

namespace metronome::executor {

/// The inputs that hold something, and how it comes there: by copies of feeds, or as users fill
/// what was handed out to them. A step calls it once its feeds are resolved.
class FilledInputs {
 public:
  /// All outlive it; the engine runs on this memory.
  FilledInputs(const DeclaredGraphs& declared, Memory& memory, Engine& engine);

  /// Throws RunError for an input of the plan that holds nothing, and is not fed now either.
  void require_filled(PlanId plan, const StepFeeds& fed) const;
  /// Each input of the graph gets what its feed held when the call began.
  void copy_feeds(std::size_t graph, StepFeeds& fed, const FeedViews& views);
  /// A tensor over an input's memory, which counts as fed.
  Tensor hand_out(InputPlace place);

 private:
  std::vector<Tensor> set_aside(std::size_t graph, StepFeeds& fed) const;
  /// False where the engine reads from it still.
  bool copy_feed(std::size_t index, const Tensor& from);
  void mark_filled(std::size_t index);

  const DeclaredGraphs& declared_;
  Memory& memory_;
  Engine& engine_;
  std::vector<std::size_t> missing_;  ///< [PlanId]: of its inputs those that hold nothing yet
};

}  // namespace metronome::executor
