// Values that a step computes again, late, in place of keeping them, as data.
//
//   step        0  1  2  3  4  5         a is read at 1 and at 5, behind the split at 3
//   kept        a  b  c  d  e  f         a lives from 0 to 5
//   again       a  b  c  d  e  a' f      a lives from 0 to 1; its clone a' runs before the node of
//                                        step 5, which reads the clone
#pragma once

#include <cstdint>
#include <vector>

#include "graph/ir/ids.h"

namespace metronome::plan {

struct Recomputation {
  /// A node that runs a second time, before the node at place `before` of `order`.
  struct Clone {
    std::int32_t node = 0;
    std::int32_t before = 0;

    bool operator==(const Clone&) const = default;
  };

  std::vector<std::int32_t> order;  ///< all nodes that run, each once
  std::int32_t split = 0;           ///< place in `order`: nodes from here on read clones
  std::vector<ValueId> dropped;     ///< values that are not kept for those; ascending
  std::vector<Clone> clones;        ///< in the order in which they run

  bool operator==(const Recomputation&) const = default;
};

}  // namespace metronome::plan
