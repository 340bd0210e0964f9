// The mistakes of a graph and of a declaration.
#pragma once

#include <doctest/doctest.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "graph/builder/graph.h"
#include "graph/ir/error.h"

namespace metronome::testing {

/// All mistakes of a graph, as `validate` reports them.
inline std::vector<std::string> mistakes(const Graph& g) {
  try {
    g.validate();
  } catch (const GraphError& error) {
    return error.mistakes();
  }
  return {};
}

/// All mistakes of a declaration.
inline std::vector<std::string> mistakes(const std::function<void(Graph&)>& declare) {
  Graph g("g");
  declare(g);
  return mistakes(g);
}

/// The one mistake of a graph.
inline std::string mistake_of(const Graph& g) {
  const auto all = mistakes(g);
  REQUIRE(all.size() == 1);
  return all[0];
}

/// The one mistake of a declaration.
inline std::string mistake_of(const std::function<void(Graph&)>& declare) {
  Graph g("g");
  declare(g);
  return mistake_of(g);
}

/// The requirement that a call, of an op's rule or the like, says is not kept to.
inline std::string requirement(const std::function<void()>& call) {
  try {
    call();
  } catch (const Requirement& requirement) {
    return requirement.requires_;
  }
  return "nothing";
}

inline Line at(int number) { return {"tower.cc", number}; }

inline Value vector(Graph& g, std::string name = "x", int line = 1) {
  return g.input(std::move(name), f32, {4}, at(line));
}
inline Value weight(Graph& g) { return g.parameter("w", Type{f32, {4}}, {}, at(2)); }
inline Value same(Value h) { return h; }

}  // namespace metronome::testing
