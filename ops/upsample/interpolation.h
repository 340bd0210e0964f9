#pragma once

#include <cstdint>

namespace metronome {

/// How elements between those of the operand are made (ops/upsample/upsample.h says where they
/// lie).
enum class Interpolation : std::uint8_t { nearest, bilinear };

}  // namespace metronome
