#include "models/commands/ranks.h"

#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <vector>

#include "distributed/distributed.h"
#include "graph/ir/error.h"

namespace metronome::commands {
namespace {

bool started_as_rank() { return std::getenv("RANK") != nullptr; }

/// Returns the command that started this process.
std::vector<std::string> command_of_process() {
  std::ifstream in("/proc/self/cmdline", std::ios::binary);
  std::vector<std::string> words;
  for (std::string word; std::getline(in, word, '\0');) words.push_back(word);
  words.at(0) = "/proc/self/exe";
  return words;
}

}  // namespace

std::optional<int> launch_ranks(std::optional<int> asked) {
  if (!asked || started_as_rank()) return std::nullopt;
  return distributed::launch(*asked, command_of_process());
}

JoinedRanks join_ranks(std::optional<int> asked) {
  if (!started_as_rank()) return {};
  const World world = World::from_environment();
  if (asked && *asked != world.size()) {
    throw RunError(
        fmt::format("--ranks is {}, but WORLD_SIZE is {}: leave --ranks out where a "
                    "launcher starts the ranks",
                    *asked, world.size()));
  }
  // Rank 0 speaks.
  if (world.rank() != 0 && std::freopen("/dev/null", "w", stdout) == nullptr) {
    throw RunError("/dev/null cannot be opened");
  }
  return {.share = {.rank = world.rank(),
                    .ranks = world.size(),
                    .whole_batches = true,
                    .sum = [world](double own) { return world.sum(own); }},
          .local_rank = world.local_rank(),
          .parallel = world,
          .as_first = [world](Executable& step) { world.copy_from_first(step); },
          .on_first = [world](const std::function<void()>& what) { world.on_first(what); },
          .pace = [world] { return world.pace(); }};
}

}  // namespace metronome::commands
