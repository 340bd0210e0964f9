#pragma once

#include <cstdint>

namespace metronome {

/// Which cell a recurrent op or layer steps.
enum class RecurrentKind : std::uint8_t { rnn, gru, lstm };

}  // namespace metronome
