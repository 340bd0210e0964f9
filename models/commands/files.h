// Files that a command leaves behind.
#pragma once

#include <string>

namespace metronome::commands {

/// Throws RunError where `file` could not be written, before a long work rather than after it.
void expect_writable(const std::string& file);

/// Writes to a temporary name beside `file`, which then takes its place: whole or not at all.
/// Throws RunError.
void write_whole(const std::string& file, const std::string& text);

/// All bytes of `file`. Throws RunError where it cannot be read.
std::string read_whole(const std::string& file);

}  // namespace metronome::commands
