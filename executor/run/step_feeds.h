// The feeds of a call: the inputs that they name, and the graph that they mean, of those that were
// compiled together. Internal to executor/.
//
//   explore  obs [1, 3], noise [1, 1] --.
//   policy   obs [1, 3] ----------------+-- {{"obs", o}} fits both: refused
//                                       +-- {{policy_obs, o}}: policy, whose value is fed
//                                       +-- {{"obs", o}}, {.graph = "explore"}: explore
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "executor/engine/engine.h"
#include "executor/engine/memory.h"
#include "executor/run/declared_graphs.h"
#include "executor/run/feed_views.h"

namespace metronome::executor {

/// The feeds of the step that runs, in room that is taken once: a step allocates nothing. It copies
/// none of them (`FilledInputs` does), and remembers the graph that was picked last.
class StepFeeds {
 public:
  /// All outlive it; `memory` has the types of inputs.
  StepFeeds(const DeclaredGraphs& declared, const Memory& memory, const Engine& engine);

  /// The one look at what the feeds are, and at what they name. Returns the graph that the call
  /// means, as `Executable::run` says. Throws RunError, a line for each, for feeds that name no
  /// input, or one that was named before; and where no graph, or several, take them all.
  std::size_t resolve(StepKind kind, const FeedViews& feeds, const GraphChoice& choice);

  /// The feeds of the call that was resolved last.
  std::span<FeedView> feeds() { return feeds_; }
  std::size_t input(std::size_t feed) const { return inputs_[feed]; }
  bool is_fed(std::size_t input) const { return fed_in_[input] == call_; }

  /// The graph of an input that is given by name: the one picked last, or the first that has it.
  InputPlace place_of(std::size_t input) const;
  /// A step of this graph begins.
  void pick_for_step(std::size_t graph);
  /// An input of this graph was handed out, by its value or by its name.
  void pick_for_input(std::size_t graph, bool by_value);

 private:
  const InputMemory& input_memory(InputPlace place) const {
    return memory_.inputs[declared_.memory_of(place)];
  }
  void pick(std::size_t graph);
  std::size_t input_of(const FeedView& feed) const;
  /// The input of a feed, which no feed before it names.
  std::size_t input_of_new(const FeedView& feed) const;
  std::size_t pick_by_feeds(StepKind kind, const GraphChoice& choice) const;
  bool takes(std::size_t graph) const;
  /// How clearly the call means this graph, which takes its feeds.
  int clearness(StepKind kind, std::size_t graph) const;
  /// Throws RunError for a feed that none of the graphs takes whatever the others are.
  void check_feed(StepKind kind, const GraphChoice& choice, std::size_t index) const;
  [[noreturn]] void refuse_feeds(StepKind kind, const GraphChoice& choice) const;
  [[noreturn]] void refuse_several(StepKind kind, const GraphChoice& choice) const;
  /// One that none of these graphs declares.
  [[noreturn]] void refuse_input(StepKind kind, const GraphChoice& choice, std::size_t input) const;

  const DeclaredGraphs& declared_;
  const Memory& memory_;
  const Engine& engine_;
  std::int64_t call_ = 0;              ///< calls so far
  std::vector<std::int64_t> fed_in_;   ///< [input] the last call that fed it
  std::vector<FeedView> room_;         ///< of as many feeds as a call had at most
  std::span<FeedView> feeds_;          ///< of this call
  std::vector<std::size_t> inputs_;    ///< [feed of this call]
  std::size_t graph_ = 0;              ///< the one picked last
  std::vector<std::size_t> graph_to_;  ///< [kind]: the one picked last of those compiled to it
  /// The graph whose input was handed out by its value since the last step, or kNone.
  std::size_t filled_by_value_ = DeclaredGraphs::kNone;
};

}  // namespace metronome::executor
