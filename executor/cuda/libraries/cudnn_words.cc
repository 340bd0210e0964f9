#include "executor/cuda/libraries/cudnn_words.h"

#include <algorithm>

namespace metronome::executor::libraries::cudnn {
namespace {

/// The words of engine 0 without knobs; others have more. A name shows no zeros at the end, so
/// words without a digit of their own would have none.
constexpr Algorithm kFirstWords = algorithm_of_digit(1);
/// Bits of a knob's value. With 8 for its type, of which there are fewer than 256, two knobs fill a
/// word. A knob with a larger value has no words, so its engine is not offered.
constexpr int kValueBits = 24;

}  // namespace

std::optional<Algorithm> words_of(const EngineKnobs& choice) {
  Algorithm algorithm = kFirstWords;
  if (choice.knobs.size() > 2 * (algorithm.words.size() - 1)) return std::nullopt;
  algorithm.words[0] |= static_cast<std::uint64_t>(choice.engine) << 8 | choice.knobs.size();
  for (std::size_t i = 0; i < choice.knobs.size(); ++i) {
    const auto& [type, value] = choice.knobs[i];
    if (value < 0 || value >> kValueBits != 0) return std::nullopt;
    const auto knob =
        static_cast<std::uint64_t>(type) << kValueBits | static_cast<std::uint64_t>(value);
    algorithm.words[1 + i / 2] |= i % 2 == 0 ? knob << 32 : knob;
  }
  return algorithm;
}

EngineKnobs choice_of(const Algorithm& algorithm) {
  EngineKnobs choice{static_cast<std::int64_t>((algorithm.words[0] & ~kFirstWords.words[0]) >> 8),
                     {}};
  const std::size_t knobs =
      std::min<std::size_t>(algorithm.words[0] & 0xFF, 2 * (algorithm.words.size() - 1));
  for (std::size_t i = 0; i < knobs; ++i) {
    const std::uint64_t word = algorithm.words[1 + i / 2];
    const std::uint64_t knob = i % 2 == 0 ? word >> 32 : word & 0xFFFFFFFF;
    choice.knobs.emplace_back(static_cast<int>(knob >> kValueBits),
                              static_cast<std::int64_t>(knob & ((1U << kValueBits) - 1)));
  }
  return choice;
}

std::string_view name_of(NumericalNote note) {
  switch (note) {
    case NumericalNote::tensor_core:
      return "tensor core";
    case NumericalNote::down_convert_inputs:
      return "inputs of less precision";
    case NumericalNote::reduced_precision_reduction:
      return "sums of less precision";
    case NumericalNote::fft:
      return "FFT";
    case NumericalNote::nondeterministic:
      return "other bits in each run";
    case NumericalNote::winograd:
      return "Winograd";
    case NumericalNote::winograd_tile_4x4:
      return "Winograd 4x4";
    case NumericalNote::winograd_tile_6x6:
      return "Winograd 6x6";
    case NumericalNote::winograd_tile_13x13:
      return "Winograd 13x13";
    case NumericalNote::strict_nan_propagation:
      return "passes each NaN on";
  }
  return "a note without a name";
}

}  // namespace metronome::executor::libraries::cudnn
