// The graph that a declaration made, and its mistakes.
#pragma once

#include <fmt/format.h>

#include <string>
#include <vector>

#include "graph/builder/graph.h"
#include "graph/ir/error.h"
#include "graph/ir/graph.h"
#include "tests/error_of.h"

namespace metronome::tests {

/// All mistakes as one text, or "nothing".
inline std::string mistakes(const Graph& graph) {
  return error_of<GraphError>([&] { graph.validate(); });
}

/// The text with each "@n" as file and line: n lines after line `at` of the caller's file.
inline std::string lines(int at, std::string text, const char* file = __builtin_FILE()) {
  for (std::size_t i = text.find('@'); i != std::string::npos; i = text.find('@', i)) {
    const int n = text[i + 1] - '0';
    text.replace(i, 2, fmt::format("{}:{}", file, at + n));
  }
  return text;
}

/// Types and paths of what layers made: every graph has counters besides.
inline std::vector<std::string> storages(const ir::Graph& g) {
  std::vector<std::string> made;
  for (const Storage& s : g.storages()) {
    if (s.kind != StorageKind::counter) made.push_back(to_string(s.type) + " " + s.path);
  }
  return made;
}

}  // namespace metronome::tests
