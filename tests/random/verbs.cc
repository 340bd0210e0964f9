#include "tests/random/verbs.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace metronome::random_programs {

int runs_left(const Builder& b) {
  constexpr int kMostRuns = 12;
  return std::max(1, kMostRuns / b.place().runs);
}

int times(const Builder& b, std::uint32_t number, int most) {
  return std::min<int>(1 + number % most, runs_left(b));
}

Term unfit(Builder& b, const Step& s, const Term& h) {
  b.opens(s, h.text + ".also(" + b.lambda(s), "", "})");
  const Shape keep = h.value.shape();
  return {h.value.also(b.layer(s, 0, {.keep = &keep}), b.line(s)), ""};
}

std::span<const Verb> verbs() {
  static const std::vector<Verb> all = [] {
    std::vector<Verb> verbs;
    for (const auto part : {composition_verbs(), control_verbs(), declaration_verbs()}) {
      verbs.insert(verbs.end(), part.begin(), part.end());
    }
    return verbs;
  }();
  return all;
}

}  // namespace metronome::random_programs
