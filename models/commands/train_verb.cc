#include "models/commands/commands.h"

namespace metronome::commands {

void add_verbs(CLI::App& app, Action& chosen) { add_train(app, chosen); }

}  // namespace metronome::commands
