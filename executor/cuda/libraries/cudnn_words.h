// Engines of cuDNN as the words of an algorithm, and their notes in words.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "executor/cuda/libraries/cudnn_interface.h"
#include "ops/rules/candidate.h"

namespace metronome::executor::libraries::cudnn {

struct EngineKnobs {
  std::int64_t engine = 0;
  std::vector<std::pair<int, std::int64_t>> knobs;
};

/// A mark with the engine's index and the number of knobs, then two knobs a word, each of 8 bits
/// for its type and 24 for its value. Nothing where a choice does not fit.
std::optional<Algorithm> words_of(const EngineKnobs& choice);
EngineKnobs choice_of(const Algorithm& algorithm);

/// "Winograd 6x6"
std::string_view name_of(NumericalNote note);

}  // namespace metronome::executor::libraries::cudnn
