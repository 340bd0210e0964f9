// The verbs of the program.
#pragma once

#include "models/commands/arguments.h"

namespace metronome::commands {

/// train digits, mnist, text or pendulum: trains, tests, saves, and runs the same training beside
/// libtorch's eager one.
void add_train(CLI::App& app, Action& chosen);

/// Those of the program that it is linked into: all of them (benchmarks/commands/all_verbs.cc), or
/// `train` alone, which needs no device (train_verb.cc).
void add_verbs(CLI::App& app, Action& chosen);

}  // namespace metronome::commands
