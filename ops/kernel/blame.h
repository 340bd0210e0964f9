// Who made a number that is not finite: the rule, for the host and for devices.
#pragma once

#include "ops/kernel/kernel.h"

namespace metronome::blame {

/// A fault's value: how the node met the number. From kReadNan on: a NaN from source value -
/// kReadNan.
enum Blame : int { kBlameless = -1, kMadeNan = 0, kMadeInfinity = 1, kReadNan = 2 };

/// Returns what a node is to blame for if its results hold a NaN (`nan`) or an infinity: a Blame,
/// or more. `makers[0 .. count)` made the numbers that it reads: nodes, or -1 - s for source s,
/// outside the graph. met(node, k) and held(source, k) say whether there is a NaN (k = 0) or an
/// infinity (k = 1).
template <class Met, class Held>
METRONOME_DEVICE int of(bool nan, const int* makers, int count, const Met& met, const Held& held) {
  bool infinite = false;
  int read = -1;  // the source of a NaN
  for (int i = 0; i < count; ++i) {
    const int maker = makers[i];
    if (maker >= 0) {
      if (met(maker, 0)) return kBlameless;
      infinite = infinite || met(maker, 1);
    } else {
      const int source = -1 - maker;
      if (held(source, 0) && (read < 0 || source < read)) read = source;
      infinite = infinite || held(source, 1);
    }
  }
  if (nan) return read >= 0 ? kReadNan + read : kMadeNan;
  return infinite || read >= 0 ? kBlameless : kMadeInfinity;
}

}  // namespace metronome::blame
