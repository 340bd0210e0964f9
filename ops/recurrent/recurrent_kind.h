#pragma once

#include <cstdint>

namespace metronome {

/// The cell that a recurrent op or layer steps.
enum class RecurrentKind : std::uint8_t { rnn, gru, lstm };

}  // namespace metronome
