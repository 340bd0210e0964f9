// An optimizer that has only what every one must have.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "executor/metronome.h"

namespace metronome::tests {

/// w - gradient: no learning rate, no weight decay, no moments.
struct PlainOptimizer {
  static constexpr std::string_view name = "plain";
  bool operator==(const PlainOptimizer&) const = default;
  std::string attributes() const { return ""; }
  std::vector<Moment> moments() const { return {}; }
  Values scalars(Value, double) const { return {}; }
  Values update(Value parameter, Value gradient, std::span<const Value>,
                std::span<const Value>) const {
    return {parameter - gradient};
  }
};

}  // namespace metronome::tests
