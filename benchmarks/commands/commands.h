// The verbs of the program that compare, plan and export.
#pragma once

#include "models/commands/arguments.h"

namespace metronome::commands {

/// compare: planned steps beside eager ones; exit status 1 where a model disagrees or is too slow.
/// With --explain the least that a step can take, and what each pass saves.
void add_compare(CLI::App& app, Action& chosen);

/// plan: what compile decides for a model, without running it but to profile it.
void add_plan(CLI::App& app, Action& chosen);

/// export: a model as a library for C and C++.
void add_export(CLI::App& app, Action& chosen);

}  // namespace metronome::commands
