// How numbers of several ranks become one.
#pragma once

#include <cstdint>
#include <string_view>

namespace metronome {

enum class ReduceOp : std::uint8_t { sum, mean, max, min };
std::string_view name_of(ReduceOp op);

}  // namespace metronome
