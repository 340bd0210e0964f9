// The verbs of the program.
#pragma once

#include "models/commands/arguments.h"

namespace metronome::commands {

/// train digits, mnist or text: trains, tests, saves, and runs the same training beside libtorch's
/// eager one.
void add_train(CLI::App& app, Action& chosen);

/// compare: planned steps beside eager ones; exit status 1 where a model disagrees or is too slow.
/// With --explain the least that a step can take, and what each pass saves.
void add_compare(CLI::App& app, Action& chosen);

/// plan: what compile decides for a model, without running it but to profile it.
void add_plan(CLI::App& app, Action& chosen);

/// Those of the program that it is linked into: all of them (all_verbs.cc), or `train` alone, which
/// needs no device (train_verb.cc).
void add_verbs(CLI::App& app, Action& chosen);

}  // namespace metronome::commands
