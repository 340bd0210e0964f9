// What a declaration did wrong.
#pragma once

#include <doctest/doctest.h>

#include <functional>
#include <string>
#include <vector>

#include "graph/builder/graph.h"
#include "graph/ir/error.h"

namespace metronome::testing {

/// All mistakes of a declaration, as `validate` reports them.
inline std::vector<std::string> mistakes(const std::function<void(Graph&)>& declare) {
  Graph g("g");
  declare(g);
  try {
    g.validate();
  } catch (const GraphError& error) {
    return error.mistakes();
  }
  return {};
}

/// The one mistake of a declaration.
inline std::string mistake_of(const std::function<void(Graph&)>& declare) {
  const auto all = mistakes(declare);
  REQUIRE(all.size() == 1);
  return all[0];
}

inline Line at(int number) { return {"tower.cc", number}; }

}  // namespace metronome::testing
