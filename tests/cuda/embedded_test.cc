// The headers that generated sources include are all in the program, and need nothing beside.
#include "ops/cuda/embedded.h"

#include <doctest/doctest.h>

#include <set>
#include <sstream>
#include <string>
#include <vector>

using metronome::EmbeddedHeader;

namespace {

/// Returns the names that a text includes, with their quotes or angles: "\"ops/kernel/kernel.h\"".
std::vector<std::string> includes(const std::string& text) {
  std::vector<std::string> found;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("#include ")) found.push_back(line.substr(9));
  }
  return found;
}

}  // namespace

TEST_CASE("embedded headers include only each other") {
  std::set<std::string> names;
  for (const EmbeddedHeader& header : metronome::embedded_headers()) {
    CHECK(names.insert('"' + std::string(header.name) + '"').second);
  }
  CHECK(names.contains("\"ops/kernel/kernel.h\""));
  CHECK(names.contains("\"ops/elementwise/elementwise_rows.h\""));
  for (const EmbeddedHeader& header : metronome::embedded_headers()) {
    for (const std::string& included : includes(header.text)) {
      CHECK_MESSAGE(names.contains(included), header.name, " includes ", included);
    }
  }
}

TEST_CASE("an embedded text is whole") {
  for (const EmbeddedHeader& header : metronome::embedded_headers()) {
    if (std::string(header.name) != "ops/kernel/kernel.h") continue;
    const std::string text = header.text;
    CHECK(text.starts_with("// The parts of a CUDA kernel."));
    CHECK(text.ends_with("}  // namespace metronome::cuda\n"));
  }
}
