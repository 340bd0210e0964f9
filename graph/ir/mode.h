// Whether a step trains.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace metronome {

enum class Mode : std::uint8_t {
  train,
  evaluate,  ///< no update: every storage stays as it is
  advance,   ///< an evaluation that hands its states on to the next step
};
constexpr std::size_t kModes = 3;

constexpr Mode train = Mode::train;
constexpr Mode evaluate = Mode::evaluate;
constexpr Mode advance = Mode::advance;

constexpr std::string_view name_of(Mode mode) {
  return mode == Mode::train ? "train" : mode == Mode::evaluate ? "evaluate" : "advance";
}

}  // namespace metronome
