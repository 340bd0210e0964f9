#include "benchmarks/commands/commands.h"
#include "models/commands/commands.h"

namespace metronome::commands {

void add_verbs(CLI::App& app, Action& chosen) {
  add_train(app, chosen);
  add_compare(app, chosen);
  add_plan(app, chosen);
  add_export(app, chosen);
}

}  // namespace metronome::commands
