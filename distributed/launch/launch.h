// Ranks as processes of this machine.
#pragma once

#include <chrono>
#include <string>
#include <vector>

namespace metronome::distributed {

struct LaunchOptions {
  /// How long the other ranks have to find out by themselves that one is lost, and to say where
  /// they were, before they are asked to end.
  std::chrono::milliseconds last_words{1'000};
  /// How long ranks may take to end by themselves once they are asked to: those that are left then,
  /// stopped ones among them, are killed.
  std::chrono::milliseconds grace{2'000};
};

/// Starts `command` (a program's path and its arguments) once for each rank, with the variables
/// that torchrun sets, and waits. The store of the ranks is kept here, so it outlives each of them.
/// - If a rank fails, one line to stderr says which, and how; those that are left after
///   `last_words` get SIGTERM.
/// - SIGINT and SIGTERM are passed on to all ranks.
/// - If this process is killed, so are the ranks.
/// Returns 0 if all ranks returned 0; else the status of the first that failed, 128 and the
/// signal's number if a signal ended it; 128 and the signal's number if one came from outside.
/// Throws RunError if the program cannot be started; no rank runs then.
/// Call it on the main thread. SIGINT, SIGTERM and SIGCHLD are blocked meanwhile.
int launch(int ranks, const std::vector<std::string>& command, const LaunchOptions& options = {});

}  // namespace metronome::distributed
