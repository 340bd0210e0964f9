// The ops that a run checks: those that METRONOME_OPS names, as `./metronome test ops/softmax` asks
// for the ops of that folder; without it all.
#pragma once

#include <cstdlib>
#include <string>
#include <string_view>

namespace metronome {

/// METRONOME_OPS=softmax,softmax_grad
inline bool asked_for(std::string_view op) {
  const char* names = std::getenv("METRONOME_OPS");
  if (names == nullptr) return true;
  return ("," + std::string(names) + ",").find("," + std::string(op) + ",") != std::string::npos;
}
inline bool asked_for_all() { return std::getenv("METRONOME_OPS") == nullptr; }

}  // namespace metronome
