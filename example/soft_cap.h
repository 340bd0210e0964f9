// An op of one's own: a bend that keeps numbers within a limit, as Gemma 2 does with its logits.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "metronome/metronome.h"

namespace example {

namespace mt = metronome;

/// limit tanh(x / limit), element by element; x is f32 or f64. It has no kernel: compile puts the
/// ops of `lower` in its place, on every target, and their gradients are its gradient.
struct SoftCap {
  static constexpr std::string_view name = "soft_cap";
  double limit = 1;

  bool operator==(const SoftCap&) const = default;
  std::string attributes() const;
  mt::Types infer(std::span<const mt::Type> in) const;
  mt::Values lower(std::span<const mt::Value> in) const;
};

/// limit tanh(x / limit). A limit that is not above 0 is a mistake of the graph, with the caller's
/// line.
mt::Value soft_cap(mt::Value x, double limit, mt::Line line = mt::Line::here());

}  // namespace example
