#include "tests/random/shrink.h"

#include <vector>

#include "tests/random/epilogue.h"
#include "tests/random/vocabulary.h"

namespace metronome::random_programs {
namespace {

/// Every program that is one change simpler, boldest first.
class Simpler {
 public:
  explicit Simpler(const Program& program) : program_(program) {}

  std::vector<Program> all() {
    chains([](Program& p) -> Chain& { return p.steps; }, program_.steps);
    for (std::size_t d = 0; d < program_.shape.size(); ++d) {
      if (program_.shape.size() > 1) {
        change([&](Program& p) { p.shape.erase(p.shape.begin() + static_cast<long>(d)); });
      }
      if (program_.shape[d] > 1) change([&](Program& p) { p.shape[d] = 1; });
      if (program_.shape[d] > 2) change([&](Program& p) { --p.shape[d]; });
    }
    if (program_.loss != 0) change([](Program& p) { p.loss = 0; });
    if (program_.optimizer != 0) change([](Program& p) { p.optimizer = 0; });
    for (const std::uint32_t bit : {kFreezes, kKeepsGradient, kScales, kSplits}) {
      if ((program_.extras & bit) != 0) change([&](Program& p) { p.extras &= ~bit; });
    }
    if (program_.seed > 9) change([](Program& p) { p.seed %= 10; });
    return std::move(results_);
  }

 private:
  template <class F>
  void change(const F& f) {
    results_.push_back(program_);
    f(results_.back());
  }

  /// `at(program)` is the chain of that program that stands where `chain` stands in this one.
  void chains(const std::function<Chain&(Program&)>& at, const Chain& chain) {
    // Halves, quarters, ..., single statements.
    for (std::size_t length = chain.size(); length > 0; length /= 2) {
      for (std::size_t i = 0; i + length <= chain.size(); i += length) {
        if (has_mistake(chain, i, length)) continue;
        change([&](Program& p) {
          Chain& c = at(p);
          c.erase(c.begin() + static_cast<long>(i), c.begin() + static_cast<long>(i + length));
        });
      }
    }
    for (std::size_t i = 0; i < chain.size(); ++i) step(at, chain[i], i);
  }

  void step(const std::function<Chain&(Program&)>& at, const Step& step, std::size_t i) {
    for (std::size_t b = 0; b < step.bodies.size(); ++b) {
      change([&](Program& p) {  // the body in place of its verb
        Chain& c = at(p);
        const Chain body = c[i].bodies[b];
        c.erase(c.begin() + static_cast<long>(i));
        c.insert(c.begin() + static_cast<long>(i), body.begin(), body.end());
      });
    }
    if (step.bodies.size() > least_bodies(step.kind)) {
      for (std::size_t b = 0; b < step.bodies.size(); ++b) {
        change([&](Program& p) {
          Chain& c = at(p);
          c[i].bodies.erase(c[i].bodies.begin() + static_cast<long>(b));
        });
      }
    }
    if (step.bodies.empty() && step.kind != rows()[0].text && !is_mistake(step.kind)) {
      change([&](Program& p) { at(p)[i] = Step{std::string(rows()[0].text)}; });
    }
    for (std::size_t n = 0; n < step.numbers.size(); ++n) {
      if (step.numbers[n] == 0) continue;
      change([&](Program& p) { at(p)[i].numbers[n] = 0; });
      for (const std::uint32_t small : {1u, 2u, 3u, 5u, 9u, 25u}) {
        if (small < step.numbers[n]) change([&](Program& p) { at(p)[i].numbers[n] = small; });
      }
    }
    for (std::size_t b = 0; b < step.bodies.size(); ++b) {
      chains([&at, i, b](Program& p) -> Chain& { return at(p)[i].bodies[b]; }, step.bodies[b]);
    }
  }

  static bool is_mistake(const std::string& kind) {
    for (const Mistake& m : mistakes()) {
      if (m.name == kind) return true;
    }
    return false;
  }
  static bool has_mistake(const Chain& chain, std::size_t begin, std::size_t length) {
    for (std::size_t i = begin; i < begin + length; ++i) {
      if (is_mistake(chain[i].kind)) return true;
      for (const Chain& body : chain[i].bodies) {
        if (has_mistake(body, 0, body.size())) return true;
      }
    }
    return false;
  }
  static std::size_t least_bodies(const std::string& kind) {
    for (const Verb& verb : verbs()) {
      if (verb.name == kind) return static_cast<std::size_t>(verb.least_bodies);
    }
    return 0;
  }

  const Program& program_;
  std::vector<Program> results_;
};

}  // namespace

Program shrink(Program program, const std::function<bool(const Program&)>& fails, int tries) {
  for (bool smaller = true; smaller;) {
    smaller = false;
    for (Program& candidate : Simpler(program).all()) {
      if (tries-- <= 0) return program;
      if (!fails(candidate)) continue;
      program = std::move(candidate);
      smaller = true;
      break;
    }
  }
  return program;
}

}  // namespace metronome::random_programs
