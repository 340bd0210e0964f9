// How the pass `differentiate` finds the gradient of an op.
#pragma once

#include <cstddef>
#include <span>

#include "graph/rules/lower.h"
#include "graph/rules/rule.h"

namespace metronome {

/// The arguments of a gradient rule. `gradients[i]` is absent (default-constructed) where no
/// gradient flows into output i.
struct Vjp {
  std::span<const Value> inputs;
  std::span<const Value> outputs;  ///< saved outputs included
  std::span<const Value> gradients;

  const Value& in(std::size_t i) const;
  const Value& out(std::size_t i) const;
  const Value& grad(std::size_t i = 0) const;
};

}  // namespace metronome

/// One gradient per input; absent (default-constructed) where none flows.
METRONOME_RULE(VjpRule, vjp, Values, (const Vjp&))
/// An op without a gradient says `differentiable = false`; one that has neither that nor `vjp` nor
/// `lower` is a compile error.
METRONOME_CONSTANT_RULE(DifferentiableRule, differentiable, bool)

namespace metronome {

inline bool differentiable(const Op& op) {
  return op.has_rule<VjpRule>() || op.has_rule<LowerRule>();
}

}  // namespace metronome
