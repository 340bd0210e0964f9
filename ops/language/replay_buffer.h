// Experience that is kept from step to step, and sampled inside the step.
//
//   mt::ReplayBuffer memory("replay", 100'000, {{"state", s}, {"action", a}, {"reward", r}});
//   const mt::Values batch = memory.sample(256, "batch");  // states, actions, rewards
//   g.minimize(loss_of(batch), mt::Adam{}, {.when = memory.size() >= 1000.0});
//
// Ranks decide together: `.when = mt::all_reduce(memory.size().cast(mt::f32)) >= 1000.0`.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "graph/ir/line.h"
#include "graph/ir/value.h"
#include "ops/language/draws.h"

namespace metronome {

/// The newest `capacity` rows of several fields, in states of the graph: `replay/state` and so on,
/// [capacity, ...], and `replay/written`, i64[], the rows that were ever written. Each training
/// step writes its rows, and each evaluation with `States::advance`: of a field the value [n, ...],
/// n from 1 to the capacity, equal for all fields. The oldest rows make room, and a step costs what
/// its own rows cost; an evaluation that advances nothing copies all. No gradient flows. Each of
/// several ranks keeps rows of its own, but a checkpoint holds those of rank 0. It is made once,
/// not in a loop or a branch.
class ReplayBuffer {
 public:
  using Field = std::pair<std::string, Value>;

  /// Lies at the current path. Mistakes are reported as those of any verb.
  ReplayBuffer(const std::string& name, std::int64_t capacity, const std::vector<Field>& rows,
               Line line = Line::here());

  /// How many rows there are, those of this step among them; i64[].
  const Value& size() const { return size_; }
  /// `count` rows of each field, [count, ...], in the order of the fields: one and the same row of
  /// all of them, drawn with equal probabilities, and again each time. Those of this step are among
  /// them. `draw` names the draw (ops/language/draws.h).
  Values sample(std::int64_t count, const std::string& draw, DrawOptions options = {},
                Line line = Line::here()) const;
  /// The rows of each field that an index i64[n] names, the oldest being 0. One out of range is
  /// reported.
  Values rows(Value index, Line line = Line::here()) const;

 private:
  void keep(const std::vector<Field>& rows, const Line& line);

  std::string name_;
  std::int64_t capacity_ = 0;
  Values fields_;  ///< behind this step's rows
  Value written_;  ///< likewise
  Value size_;
};

}  // namespace metronome
