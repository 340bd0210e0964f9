// Random programs, as many as fit into a time box, and what the generator itself promises.
// `bazel run //tests:random_programs` is the long form.
#include <ATen/Parallel.h>

#include <chrono>
#include <cstdlib>
#include <functional>
#include <optional>

#include "graph/ir/graph.h"
#include "tests/aten.h"
#include "tests/doctest.h"
#include "tests/random/builder.h"
#include "tests/random/campaign.h"
#include "tests/random/run.h"
#include "tests/random/shrink.h"
#include "tests/random/vocabulary.h"

namespace metronome::random_programs {
namespace {

/// METRONOME_SEED, or 1.
std::uint32_t first_seed() {
  const char* seed = std::getenv("METRONOME_SEED");
  return seed == nullptr ? 1 : static_cast<std::uint32_t>(std::strtoul(seed, nullptr, 10));
}

/// Checks the seeds from the first on until the time is over or some have failed, but `least` of
/// them in any case, and says which and how they ran. Gives the tally of the first `least`: shares
/// are judged by these, as the machine's speed decides how many follow.
Tally for_seeds(std::uint32_t least, std::chrono::seconds time, Kind kind) {
  constexpr int kMostFailures = 3;
  at::set_num_threads(1);
  const auto end = std::chrono::steady_clock::now() + time;
  int failures = 0;
  const std::uint32_t first = first_seed();
  std::uint32_t seed = first;
  Tally tally;
  Tally judged;
  for (; failures < kMostFailures; ++seed) {
    if (seed - first == least) judged = tally;
    if (seed - first >= least && std::chrono::steady_clock::now() >= end) break;
    const auto failure = check_seed(seed, kind, &tally);
    if (!failure) continue;
    FAIL_CHECK(describe_failure(seed, kind, *failure));
    ++failures;
  }
  if (seed - first <= least) judged = tally;
  MESSAGE("seeds " << first << " to " << seed - 1 << " in " << time.count()
                   << " s; METRONOME_SEED=" << seed << " goes on from there\n"
                   << to_string(tally));
  return judged;
}

/// The seconds for programs that compute: fewer for those programs that run this test once more
/// with another choice of kernels or passes, each from a seed of its own (tests/BUILD.bazel).
std::chrono::seconds time_to_compute() {
  return std::chrono::seconds(std::getenv("METRONOME_RERUN") == nullptr ? 15 : 5);
}

TEST_CASE("replay, stepwise and eager agree on random programs, and gradients are slopes") {
  const Tally tally = for_seeds(100, time_to_compute(), Kind::valid);
  // The programs are what they are meant to be.
  CHECK(tally.varying_loops * 8 > tally.loops);
  CHECK(tally.gradients > 3 * tally.gradient_programs);
  CHECK(tally.sensitive * 20 <= tally.programs);
  // 9 of 1,000 do; of so few programs two more may by chance.
  CHECK(tally.diverged * 100 <= tally.programs + 200);
}

TEST_CASE("data decide in most random programs") {
  constexpr std::uint32_t kPrograms = 500;
  std::uint32_t decided = 0;
  for (std::uint32_t seed = 1; seed <= kPrograms; ++seed) {
    const Program program = generate(seed);
    Builder built(program);
    built.build();
    decided += has_regions(built.graph());
  }
  MESSAGE(decided << " of " << kPrograms << " programs have loops or branches that data decide");
  CHECK(decided * 2 > kPrograms);
}

TEST_CASE("a mistake in a random program is reported with its line") {
  for_seeds(150, std::chrono::seconds(8), Kind::mistaken);
}

TEST_CASE("each mistake is found in random programs") {
  at::set_num_threads(1);
  Tally tally;
  for (std::size_t i = 0; i < mistakes().size(); ++i) {
    if (const auto failure = check_mistake(i, 1, 2, &tally)) FAIL_CHECK(*failure);
  }
  CHECK_MESSAGE(least_tried(tally).second >= 2, least_tried(tally).first);
}

TEST_CASE("conditional nodes of a device leave the same bits as the kernels one by one") {
  const Tally tally = for_seeds(20, std::chrono::seconds(12), Kind::on_device);
  CHECK(tally.device_regions * 3 > tally.device_programs);
  CHECK(tally.device_nested * 5 > tally.device_programs);
  CHECK(tally.device_skipped > 0);
}

TEST_CASE("what is fed wrongly is told of by replay, stepwise and a device in the same words") {
  const Tally tally = for_seeds(40, std::chrono::seconds(8), Kind::misfed);
  std::int64_t all = 0;
  for (const auto& [name, count] : tally.misfed) all += count;
  CHECK(all > 2 * tally.skipped);
  CHECK(all > 5 * tally.own_faults);
}

TEST_CASE("every wrong feed is told of in the smallest program") {
  for (const DataMistake& mistake : data_mistakes()) {
    CAPTURE(mistake.name);
    for (const std::uint32_t seed : {0, 1}) {
      Tally tally;
      const Program program{
          .seed = seed, .shape = {2, 3}, .steps = {Step{std::string(mistake.name)}}};
      const auto failure = check_misfed(program, &tally);
      CHECK_MESSAGE(!failure, failure->property << ": " << failure->detail);
      CHECK(tally.misfed.size() == 1);
      CHECK(tally.skipped == 0);
    }
  }
}

TEST_CASE("every mistake is found in the smallest program") {
  for (const Mistake& mistake : mistakes()) {
    CAPTURE(mistake.name);
    Tally tally;
    const Program program{.shape = {2, 3}, .steps = {Step{std::string(mistake.name)}}};
    const auto failure = check_mistaken(program, &tally);
    CHECK_MESSAGE(!failure, failure->property << ": " << failure->detail);
    CHECK(tally.unreached == 0);
  }
}

TEST_CASE("every statement stands in a valid program") {
  const auto check = [](const std::string& kind, int bodies) {
    CAPTURE(kind);
    Step step{kind};
    step.bodies.resize(static_cast<std::size_t>(bodies));
    const auto failure = check_valid({.seed = 1, .shape = {2, 3}, .steps = {step, step}});
    CHECK_MESSAGE(!failure, failure->property << ": " << failure->detail);
  };
  for (const Row& row : rows()) check(std::string(row.text), 0);
  for (const Verb& verb : verbs()) check(std::string(verb.name), verb.most_bodies);
}

TEST_CASE("the text of a program is the C++ that makes it, and its lines are the graph's") {
  const Program program{
      .shape = {2, 3},
      .steps = {
          Step{"loop_until", {2, 0, 0, 0}, {{Step{"h.through(linear(n))", {0, 0, 2, 0}}}, {}}},
          Step{"tanh(h)"}}};
  CHECK(text_of(program) == R"(  1  Graph g("random");
  2  const Value x = g.input("x", f64, {2, 3});
  3  const Value level = g.input("level", f64, {});
  4  const Value which = g.input("which", i32, {});
  5  const Value h5 = x.loop([&](Value x5) {
  6    const Value h6 = x5.through(linear(3));
  7    return h6;
  8  }).until([&](Value x5) {
  9    return mean(x5) > 0.013;
 10  }, 3);
 11  const Value h11 = tanh(h5);
 12  const Value y = h11.scope("head", [](Value v) { return v.through(linear(2)); });
 13  g.output("y", y);
 14  g.minimize(mean(square(y)), Sgd{.lr = 0.05});  // h is h11
)");
  Builder built(program);
  built.build();
  for (const Node& node : built.graph().data().nodes()) {
    CAPTURE(node.path);
    if (node.path == "loop/1/linear") CHECK(node.line.number == 6);
    if (node.path == "tanh") CHECK(node.line.number == 11);
  }
}

TEST_CASE("noise on statements moves what a function that saturates hides") {
  const Program program{.shape = {2, 3}, .steps = {Step{"tanh(h)"}}};
  Builder built(program, Builder::Noise::on_statements);
  built.build();
  const auto y_of = [&](double x, double noise) {
    const at::TensorOptions f64_options(at::kDouble);
    Executable fresh = compile(built.graph(), cpu_replay(), options_for(program));
    fresh.run({{"x", at::full({2, 3}, x, f64_options)},
               {"level", at::zeros({}, f64_options)},
               {"which", at::zeros({}, at::TensorOptions(at::kInt))},
               {"noise", at::arange(Builder::kNoise, f64_options) * noise}});
    return fresh.read("y").clone();
  };
  CHECK(at::equal(y_of(30, 0), y_of(30.000001, 0)));
  CHECK_FALSE(at::equal(y_of(30, 0), y_of(30, 1e-12)));
}

TEST_CASE("shrinking keeps what fails and takes all else away") {
  // Fails, say, wherever a softmax stands inside of a branch.
  const std::function<bool(const Chain&, bool)> has = [&](const Chain& chain, bool inside) {
    for (const Step& step : chain) {
      if (inside && step.kind == "softmax(h, a) - v") return true;
      for (const Chain& body : step.bodies) {
        if (has(body, inside || step.kind == "choose_if")) return true;
      }
    }
    return false;
  };
  const auto fails = [&](const Program& program) { return has(program.steps, false); };
  int found = 0;
  for (std::uint32_t seed = 0; found < 3; ++seed) {
    const Program whole = generate(seed);
    if (!fails(whole)) continue;
    ++found;
    const Program small = shrink(whole, fails);
    CHECK(small ==
          Program{.seed = small.seed,
                  .shape = {1},
                  .steps = {Step{
                      "choose_if", {}, {small.steps[0].bodies[0], small.steps[0].bodies[1]}}}});
    CHECK(count_steps(small.steps) == 2);
  }
}

}  // namespace
}  // namespace metronome::random_programs
