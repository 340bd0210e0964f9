// The text of libtorch's errors.
#pragma once

#include <exception>
#include <string>

namespace metronome::distributed {

/// The first line: the others are where in libtorch's sources.
std::string first_line(const std::exception& error);

}  // namespace metronome::distributed
