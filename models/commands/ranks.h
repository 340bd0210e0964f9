// The ranks of a training: processes that share it out.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "executor/metronome.h"
#include "models/tasks/task.h"

namespace metronome::commands {

struct JoinedRanks {
  models::Share share;
  int local_rank = 0;                               ///< among the ranks of this machine
  std::shared_ptr<const executor::Ranks> parallel;  ///< null for one rank
  /// All storages become rank 0's; nothing for one rank.
  std::function<void(Executable&)> as_first = [](Executable&) {};
  /// Does `what` on rank 0; the others wait, and learn of its failure.
  std::function<void(const std::function<void()>&)> on_first =
      [](const std::function<void()>& what) { what(); };
  /// How fast steps were, said on all ranks together; empty for one rank.
  std::function<std::string()> pace = [] { return std::string(); };
};

/// Those of the program that it is linked into: ranks.cc, or no_ranks.cc, which refuses more than
/// one: `./metronome train` builds in less time without.
///
/// Where `asked` is more than one and no launcher has started this process: starts so many of this
/// program with the same arguments, waits, and returns their exit status.
std::optional<int> launch_ranks(std::optional<int> asked);
/// This process among them, by the environment. Throws RunError where `asked` contradicts it.
JoinedRanks join_ranks(std::optional<int> asked);

}  // namespace metronome::commands
