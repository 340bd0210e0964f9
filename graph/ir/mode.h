// Whether a step trains.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace metronome {

/// The kinds of steps.
enum class Mode : std::uint8_t {
  train,     ///< a step with an update
  evaluate,  ///< no update: every storage stays as it is
  advance,   ///< an evaluation that hands its states on to the next step
};
constexpr std::size_t kModes = 3;

/// `mt::train` and its like, in lists of modes.
constexpr Mode train = Mode::train;
constexpr Mode evaluate = Mode::evaluate;
constexpr Mode advance = Mode::advance;

/// "train", "evaluate" or "advance".
constexpr std::string_view name_of(Mode mode) {
  return mode == Mode::train ? "train" : mode == Mode::evaluate ? "evaluate" : "advance";
}

}  // namespace metronome
