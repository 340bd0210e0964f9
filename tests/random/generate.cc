#include <algorithm>
#include <functional>
#include <random>

#include "tests/random/epilogue.h"
#include "tests/random/program.h"
#include "tests/random/vocabulary.h"

namespace metronome::random_programs {
namespace {

constexpr int kMostDepth = 3;
/// One statement in so many is a verb.
constexpr double kShareOfVerbs = 0.4;

class Generator {
 public:
  Generator(std::uint32_t seed, Language language) : random_(seed), language_(language) {}

  Program program(std::uint32_t seed) {
    Program p;
    p.seed = seed;
    p.shape.resize(1 + below(3));
    for (std::int64_t& size : p.shape) size = 1 + below(4);
    p.steps = chain(2 + below(6), 0);
    p.loss = below(static_cast<std::uint32_t>(loss_count()));
    p.optimizer = below(static_cast<std::uint32_t>(optimizer_count()));
    p.extras = below(16);
    return p;
  }

  /// Puts the mistake behind a random statement, at any depth.
  void plant(Program& program, const std::string& mistake) {
    std::vector<std::pair<Chain*, std::size_t>> places;
    collect(program.steps, places);
    const auto& [chain, at] = places[below(static_cast<std::uint32_t>(places.size()))];
    chain->insert(chain->begin() + static_cast<std::ptrdiff_t>(at), Step{mistake});
  }

  std::uint32_t below(std::uint32_t n) { return static_cast<std::uint32_t>(random_() % n); }

 private:
  static void collect(Chain& chain, std::vector<std::pair<Chain*, std::size_t>>& places) {
    for (std::size_t i = 0; i <= chain.size(); ++i) places.push_back({&chain, i});
    for (Step& step : chain) {
      for (Chain& body : step.bodies) collect(body, places);
    }
  }

  Chain chain(std::size_t length, int depth) {
    Chain chain;
    for (std::size_t i = 0; i < length; ++i) chain.push_back(step(depth));
    return chain;
  }

  Step step(int depth) {
    Step step;
    for (std::uint32_t& number : step.numbers) number = below(1000);
    if (below(1000) >= 1000 * kShareOfVerbs) {
      step.kind = weighted(rows(), [](const Row& row) { return row.weight; }).text;
      return step;
    }
    const Verb& verb = weighted(verbs(), [&](const Verb& v) {
      const bool possible = (depth < kMostDepth || v.most_bodies == 0) &&
                            (language_ == Language::whole || !v.decided_by_data);
      return possible ? v.weight : 0;
    });
    step.kind = verb.name;
    const int bodies =
        verb.least_bodies + static_cast<int>(below(verb.most_bodies - verb.least_bodies + 1));
    for (int i = 0; i < bodies; ++i) {
      // The body that makes a condition is short.
      const bool condition = i == 1 && (verb.name == "loop_until" || verb.name == "loop_while");
      step.bodies.push_back(chain(condition ? below(2) : 1 + below(2), depth + 1));
    }
    return step;
  }

  template <class T>
  const T& weighted(std::span<const T> table, const std::function<int(const T&)>& weight) {
    int total = 0;
    for (const T& entry : table) total += weight(entry);
    int left = static_cast<int>(below(static_cast<std::uint32_t>(total)));
    for (const T& entry : table) {
      left -= weight(entry);
      if (left < 0) return entry;
    }
    return table.back();
  }
  template <class T, class F>
  const T& weighted(std::span<const T> table, const F& weight) {
    return weighted<T>(table, std::function<int(const T&)>(weight));
  }

  std::mt19937 random_;
  Language language_;
};

}  // namespace

Program generate(std::uint32_t seed, Language language) {
  return Generator(seed, language).program(seed);
}

Mistaken generate_mistaken(std::uint32_t seed) {
  Generator generator(seed, Language::whole);
  Mistaken result{generator.program(seed), ""};
  const auto all = mistakes();
  result.mistake = all[generator.below(static_cast<std::uint32_t>(all.size()))].name;
  generator.plant(result.program, result.mistake);
  return result;
}

Mistaken generate_misfed(std::uint32_t seed) {
  Generator generator(seed, Language::whole);
  Mistaken result{generator.program(seed), ""};
  const auto all = data_mistakes();
  result.mistake = all[seed % all.size()].name;
  generator.plant(result.program, result.mistake);
  return result;
}

Program generate_with(const std::string& mistake, std::uint32_t seed) {
  Generator generator(seed, Language::whole);
  Program program = generator.program(seed);
  generator.plant(program, mistake);
  return program;
}

std::size_t count_steps(const Chain& chain) {
  std::size_t count = chain.size();
  for (const Step& step : chain) {
    for (const Chain& body : step.bodies) count += count_steps(body);
  }
  return count;
}

bool contains(const Chain& chain, const std::string& kind) {
  return std::any_of(chain.begin(), chain.end(), [&](const Step& step) {
    return step.kind == kind ||
           std::any_of(step.bodies.begin(), step.bodies.end(),
                       [&](const Chain& body) { return contains(body, kind); });
  });
}

}  // namespace metronome::random_programs
