#include "executor/target.h"

namespace metronome {

Target cpu_replay() { return {Target::Kind::cpu_replay}; }
Target stepwise() { return {Target::Kind::stepwise}; }
Target eager() { return {Target::Kind::eager}; }

}  // namespace metronome
