// All rules that an op may declare besides those of class Op itself (graph/ir/op.h). A rule that
// this list lacks is seen by nobody.
#pragma once

#include "graph/rules/absorb.h"
#include "graph/rules/alias.h"
#include "graph/rules/batch.h"
#include "graph/rules/channels_last.h"
#include "graph/rules/fold.h"
#include "graph/rules/fusion.h"
#include "graph/rules/gather.h"
#include "graph/rules/gradient.h"
#include "graph/rules/guards.h"
#include "graph/rules/halves.h"
#include "graph/rules/indexing.h"
#include "graph/rules/inside.h"
#include "graph/rules/lay_out.h"
#include "graph/rules/limits.h"
#include "graph/rules/loosen.h"
#include "graph/rules/lower.h"
#include "graph/rules/mode.h"
#include "graph/rules/on_rank.h"
#include "graph/rules/prompt.h"
#include "graph/rules/random_key.h"
#include "graph/rules/rule.h"

namespace metronome {

template <class... Rules>
struct RuleList {
  /// True where each rule that T names is declared as it must be; else an error that says how.
  template <class T>
  static consteval bool right() {
    return (Rules::template right<T>() && ...);
  }
  /// The function of an op's struct T for the rule of that id; null if T does not declare it.
  template <class T>
  static RuleFunction find(RuleId id) {
    RuleFunction found = nullptr;
    const auto look = [&]<class Rule>() {
      if constexpr (Rule::template declared<T>) {
        if (id == Rule::id()) found = Rule::template function<T>();
      }
    };
    (look.template operator()<Rules>(), ...);
    return found;
  }
};

using AllRules =
    RuleList<AbsorbRule, AliasRule, BatchRule, ChannelsLastRule, DifferentiableRule, EvaluateRule,
             FoldRule, FusionRule, GatherRule, GathersWithRule, HalvesRule, IdleRule, IndexingRule,
             InsideRule, KeyRule, LayoutRule, LimitsRule, LoosenRule, LowerRule, OnRankRule,
             PromptRule, ReadIfRule, TrainingRule, VjpRule, WithKeyRule>;

}  // namespace metronome
