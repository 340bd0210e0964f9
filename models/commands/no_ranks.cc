#include <cstdlib>

#include "models/commands/arguments.h"
#include "models/commands/ranks.h"

namespace metronome::commands {

std::optional<int> launch_ranks(std::optional<int> asked) {
  if (!asked && std::getenv("RANK") == nullptr) return std::nullopt;
  throw UsageError("this program is built without ranks: start it by ./metronome train");
}

JoinedRanks join_ranks(std::optional<int>) { return {}; }

}  // namespace metronome::commands
