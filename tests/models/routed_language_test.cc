// The gallery's language model with routed experts learns a text, and writes what is like it.
#include "models/gallery/routed_language.h"

#include <string>

#include "graph/ir/error.h"
#include "tests/doctest.h"

namespace metronome::routed_language_test {
namespace {

std::string verse() {
  std::string text;
  for (int i = 0; i < 80; ++i) {
    text += i % 2 == 0 ? "round and round the ragged rock\n" : "the ragged rascal ran away\n";
  }
  return text;
}

TEST_CASE("it learns a verse and writes its words") {
  std::string said;
  const gallery::RoutedLanguageResult result =
      gallery::learn_and_write({.text = verse(), .steps = 200, .sampled = 120},
                               [&](const std::string& line) { said += line + "\n"; });
  MESSAGE(said << result.sample);
  CHECK(result.first_bits > 4);
  CHECK(result.last_bits < 0.6);
  CHECK(result.dropped < 0.5);
  CHECK(result.sample.size() == 120);
  CHECK(result.sample.find("ragged") != std::string::npos);
}

TEST_CASE("a text that is too short is told") {
  CHECK_THROWS_WITH_AS(gallery::learn_and_write({.text = "short"}, [](const std::string&) {}),
                       "a text of 5 bytes, but 528 or more are needed", RunError);
}

}  // namespace
}  // namespace metronome::routed_language_test
