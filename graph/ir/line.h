// The user's source line, captured at each call of the builder.
#pragma once

#include <string>

namespace metronome {

/// A place in the user's source. `Line::here()` as a default argument names the caller's line;
/// where a default argument cannot stand (operators) the converting constructor of a parameter
/// type captures it.
struct Line {
  const char* file = "";
  int number = 0;

  static constexpr Line here(const char* file = __builtin_FILE(), int number = __builtin_LINE()) {
    return {file, number};
  }
  bool known() const { return number > 0; }
};

/// Copies a line's file name to memory of Metronome's own: what the caller's pointed to may go (a
/// string, a library that is unloaded). A name is kept once, for as long as the process runs.
Line intern_line(const Line& line);

/// "models/tower.cc:50".
std::string to_string(const Line& line);

}  // namespace metronome
