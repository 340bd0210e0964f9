// Averages of parameters: kept by the step, evaluated with, saved and loaded; and parameters that
// follow others.
#include <cmath>

#include "graph/ir/error.h"
#include "tests/error_of.h"
#include "tests/executor/logged.h"
#include "tests/executor/targets.h"
#include "tests/executor/temporary_folder.h"

namespace metronome::averages_test {
namespace {

using tests::OnEveryTarget;
using tests::plain_options;
using tests::targets;

Line at_line(int number) { return {"net.cc", number}; }

at::Tensor batch(int step, std::int64_t rows = 5) {
  return at::sin(at::arange(rows * 3, at::TensorOptions(at::kDouble)) * 0.7 + step)
      .reshape({rows, 3});
}

struct Net {
  explicit Net(std::int64_t rows = 5, bool trains = true) {
    x = g.input("x", f64, {rows, 3});
    y = x.through(linear(4)).through(batch_norm()).through(tanh).through(linear(2));
    g.output("y", y);
    if (trains) g.minimize(mean(square(y - 0.25)), Adam{.lr = 0.05, .eps = 1e-2});
  }
  Graph g{"net"};
  Value x, y;
};

CompileOptions both_modes() {
  CompileOptions options = plain_options();
  options.modes = {train, evaluate};
  return options;
}

const char* const kPaths[] = {"linear/weight",   "linear/bias",     "batch_norm/weight",
                              "batch_norm/bias", "linear_1/weight", "linear_1/bias"};

std::string average(const std::string& name, const std::string& path) {
  return "average/" + name + "/" + path;
}

TEST_CASE("averages follow the parameters of each step, with and without bias correction") {
  Net net;
  net.g.average("**", {.decay = 0.9});
  net.g.average("linear", {.decay = 0.99, .name = "slow", .bias_correction = false});
  OnEveryTarget runs(net.g);
  std::vector<std::map<std::string, at::Tensor>> expected(runs.executables.size());
  for (std::size_t k = 0; k < runs.executables.size(); ++k) {
    for (const std::string path : kPaths) {
      const at::Tensor parameter = runs.executables[k].get(path);
      CHECK(at::equal(runs.executables[k].get(average("ema", path)), parameter));
      expected[k][average("ema", path)] = at::zeros_like(parameter);
      if (path.starts_with("linear/")) expected[k][average("slow", path)] = parameter;
    }
  }
  for (int step = 0; step < 6; ++step) {
    CAPTURE(step);
    runs.run({{net.x, batch(step)}});
    for (std::size_t k = 0; k < runs.executables.size(); ++k) {
      CAPTURE(k);
      for (auto& [path, sum] : expected[k]) {
        CAPTURE(path);
        const bool corrected = path.starts_with("average/ema/");
        const double decay = corrected ? 0.9 : 0.99;
        const std::string of = path.substr(path.find('/', 8) + 1);
        sum = sum * decay + runs.executables[k].get(of) * (1 - decay);
        const at::Tensor is = corrected ? sum / (1 - std::pow(decay, step + 1)) : sum;
        CHECK(at::allclose(runs.executables[k].get(path), is, 1e-10, 1e-12));
      }
    }
  }
  CHECK(runs.replay().storages().size() ==
        3 + 6 + 2 + 2 * 6 + 6 + 2);  // counters, parameters, buffers, moments, averages
}

TEST_CASE("they change nothing of the step") {
  Net kept, plain;
  kept.g.average("**", {.decay = 0.9});
  Executable a = compile(kept.g, cpu_replay(), plain_options());
  Executable b = compile(plain.g, cpu_replay(), plain_options());
  for (int step = 0; step < 4; ++step) a.run({{"x", batch(step)}}), b.run({{"x", batch(step)}});
  for (const std::string& path : b.storages()) CHECK(a.get(path).equal(b.get(path)));
}

TEST_CASE("an evaluation with averages is one of a model that has them as parameters") {
  Net net, large(50, false);
  const Average ema = net.g.average("**", {.decay = 0.8}),
                slow = net.g.average("linear", {.decay = 0.99, .name = "slow"});
  for (const Target& target : targets()) {
    Executable step =
        compile({{&net.g, {train, evaluate}}, {&large.g, {evaluate}}}, target, plain_options());
    Executable other = compile(net.g, target, both_modes());
    for (int i = 0; i < 3; ++i) step.run({{"x", batch(i)}});
    other.load(step.snapshot());
    for (const std::string path : kPaths) other.set(path, step.get(average("ema", path)));
    step.evaluate({{"x", batch(7)}}, {.with = ema});
    other.evaluate({{"x", batch(7)}});
    CHECK(step.read("y").equal(other.read("y")));
    CHECK(step.read_scalar(net.g.loss()) == other.read_scalar(net.g.loss()));
    // By name, in another shape; what has no average of that name is the parameter itself.
    step.evaluate({{"x", batch(8, 50)}}, {.with = "ema"});
    const at::Tensor with = step.read("y").clone();
    step.evaluate({{"x", batch(8, 50)}}, {.with = slow});
    const at::Tensor with_slow = step.read("y").clone();
    step.evaluate({{"x", batch(8, 50)}});
    const at::Tensor without = step.read("y").clone();
    CHECK_FALSE(with.equal(without));
    CHECK_FALSE(with_slow.equal(without));
    CHECK_FALSE(with_slow.equal(with));
    // It trains on as if nothing had been.
    const at::Tensor weight = step.get("linear/weight");
    step.run({{"x", batch(3)}});
    CHECK_FALSE(step.get("linear/weight").equal(weight));
  }
}

TEST_CASE("the report tells of evaluations with averages, and counts them apart") {
  Net net;
  net.g.average("**", {.decay = 0.8});
  const Executable step = compile(net.g, cpu_replay(), both_modes());
  REQUIRE(step.report().plans.size() == 3);
  CHECK(name_of(step.report().plans[2]) == "evaluate with \"ema\"");
  CHECK(step.report().plan(evaluate).average.empty());
  CHECK_THROWS_AS(step.report().plan(evaluate, 1), RunError);
}

TEST_CASE("averages that are not there") {
  Net net, none;
  net.g.average("**", {.decay = 0.8});
  const auto refusal = [](const Net& of) {
    Executable step = compile(of.g, cpu_replay(), both_modes());
    return tests::error_of<RunError>([&] { step.evaluate({{of.x, batch(0)}}, {.with = "slow"}); });
  };
  CHECK(refusal(net) == "graph \"net\" has no averages \"slow\" to evaluate with; it has \"ema\"");
  CHECK(refusal(none) ==
        "graph \"net\" has no averages \"slow\" to evaluate with; it has none: declare some with "
        "Graph::average");
}

TEST_CASE("checkpoints keep averages; where they have none, averages begin as the parameters") {
  const TemporaryFolder folder;
  const std::string with = folder.file("with.safetensors"),
                    without = folder.file("without.safetensors");
  Net kept, plain;
  const Average ema = kept.g.average("**", {.decay = 0.8});
  Executable a = compile(kept.g, cpu_replay(), both_modes());
  Executable b = compile(plain.g, cpu_replay(), both_modes());
  for (int step = 0; step < 3; ++step) a.run({{"x", batch(step)}}), b.run({{"x", batch(step)}});
  a.save(with), b.save(without);

  Executable resumed = compile(kept.g, cpu_replay(), both_modes());
  CHECK(resumed.load(with).empty());
  for (Executable* e : {&a, &resumed}) e->run({{"x", batch(3)}});
  for (const std::string& path : a.storages()) CHECK(a.get(path).equal(resumed.get(path)));

  // Another line tells of other kernel choices.
  CHECK(b.load(with)[0] == with + ": ignored 6 averages that nothing keeps here");
  CHECK(resumed.load(without)[0] ==
        without + ": lacks 6 averages: they begin as the file's parameters");
  for (const std::string path : kPaths) {
    CHECK(resumed.get(average("ema", path)).equal(resumed.get(path)));
  }
  b.load(without);
  CHECK(resumed.load(b.snapshot())[0] ==
        "the snapshot of graph \"net\": lacks 6 averages: they begin as the snapshot's parameters");
}

/// An actor-critic's critic and its slow target.
struct Critic {
  Critic() {
    const Value value = x.scope("critic", net), later = x.scope("target", net);
    g.output("later", later);
    g.minimize(mean(square(value - stop_gradient(later) * 0.9 - 1.0)), Sgd{.lr = 0.1});
  }
  static Value net(Value h) { return h.through(linear(4)).through(tanh).through(linear(1)); }
  Graph g{"critic"};
  Value x = g.input("x", f64, {5, 3});
};

TEST_CASE("a target network begins as the one that it follows, and follows it") {
  Critic net;
  net.g.follow("target", "critic", {.decay = 0.9});
  OnEveryTarget runs(net.g);
  std::vector<at::Tensor> expected;
  for (Executable& e : runs.executables) {
    CHECK(e.get("target/linear/weight").equal(e.get("critic/linear/weight")));
    expected.push_back(e.get("target/linear_1/weight"));
  }
  for (int step = 0; step < 4; ++step) {
    runs.run({{net.x, batch(step)}});
    for (std::size_t k = 0; k < expected.size(); ++k) {
      Executable& e = runs.executables[k];
      expected[k] = expected[k] * 0.9 + e.get("critic/linear_1/weight") * 0.1;
      CHECK(at::allclose(e.get("target/linear_1/weight"), expected[k], 1e-10, 1e-12));
      CHECK_FALSE(e.get("target/linear_1/weight").equal(e.get("critic/linear_1/weight")));
    }
  }
}

template <class Declare>
std::string mistakes_of(const Declare& declare) {
  Critic net;
  declare(net.g);
  return tests::error_of<GraphError>([&] { net.g.validate(); });
}

TEST_CASE("mistakes") {
  CHECK(mistakes_of([](Graph& g) { g.average("**", {.decay = 1.5}, at_line(3)); }) ==
        "net.cc:3: average(\"**\", {.decay = 1.5}) cannot be kept\n"
        "  requires   a decay of 0 or more and below 1, but 1.5");
  CHECK(mistakes_of([](Graph& g) {
          g.average("critic", {.decay = 0.9}, at_line(3));
          g.average("target", {.decay = 0.9}, at_line(4));
        }) ==
        "net.cc:4: average(\"target\", {.decay = 0.9}) cannot be kept\n"
        "  requires   a new name, but \"ema\" was given at net.cc:3\n"
        "  way out    give it one: {.name = \"slow\"}");
  CHECK(mistakes_of([](Graph& g) { g.average("critics", {.decay = 0.9}, at_line(3)); }) ==
        "net.cc:3: average(\"critics\", {.decay = 0.9}) finds nothing\n"
        "  requires   the path of a parameter or of a scope that holds some, made before\n"
        "  way out    near it are: \"critic\"");
  CHECK(mistakes_of(
            [](Graph& g) { g.follow("target", "critic/linear", {.decay = 0.9}, at_line(3)); }) ==
        "net.cc:3: follow(\"target\", \"critic/linear\", {.decay = 0.9}) cannot be kept\n"
        "  requires   a parameter \"critic/linear/linear/weight\" for \"target/linear/weight\" to "
        "follow");
  CHECK(mistakes_of([](Graph& g) {
          g.follow("target/linear", "critic/linear_1", {.decay = 0.9}, at_line(3));
        }) ==
        "net.cc:3: follow(\"target/linear\", \"critic/linear_1\", {.decay = 0.9}) cannot be kept\n"
        "  requires   equal types, but \"target/linear/weight\" is f64[4, 3] and "
        "\"critic/linear_1/weight\" f64[1, 4]");
  CHECK(mistakes_of([](Graph& g) { g.follow("target/*", "critic", {.decay = 0.9}, at_line(3)); }) ==
        "net.cc:3: follow(\"target/*\", \"critic\", {.decay = 0.9}) cannot be kept\n"
        "  requires   two paths without globs, of parameters or of scopes that hold some");
  CHECK(mistakes_of([](Graph& g) {
          g.follow("target", "critic", {.decay = 0.9}, at_line(3));
          g.follow("target", "critic", {.decay = 0.9}, at_line(4));
        }) ==
        "net.cc:4: follow(\"target\", \"critic\", {.decay = 0.9}) cannot be kept\n"
        "  requires   a parameter that follows no other, but \"target/linear/weight\" does");
  CHECK(mistakes_of([](Graph& g) {
          g.follow("target/linear/bias", "critic/linear/bias", {.decay = 0.9}, at_line(3));
          g.thaw("target");
        }) ==
        "net.cc:3: \"target/linear/bias\" follows another parameter and is trained\n"
        "  requires   parameters that are frozen, as Graph::follow leaves them\n"
        "  way out    leave out what thaws it");
  Graph loose("net");
  loose.output("y", loose.input("x", f64, {5, 3}).through(linear(2)));
  loose.average("linear", {.decay = 0.9});
  CHECK_THROWS_WITH_AS(loose.validate(),
                       "graph \"net\": what follows parameters has no loss\n"
                       "  requires   one Graph::minimize(loss, optimizer)",
                       GraphError);
  Graph taken("net");
  taken.input("x", f64, {5, 3}).scope("average", linear(2));
  CHECK_THROWS_AS(taken.validate(), GraphError);
}

TEST_CASE("a rate and a decay are two words for one pace, and exactly one is given") {
  Critic by_rate, by_decay;
  by_rate.g.follow("target", "critic", {.rate = 0.25});
  by_rate.g.average("critic", {.rate = 0.25});
  by_decay.g.follow("target", "critic", {.decay = 0.75});
  by_decay.g.average("critic", {.decay = 0.75});
  Executable a = compile(by_rate.g, cpu_replay(), plain_options());
  Executable b = compile(by_decay.g, cpu_replay(), plain_options());
  for (int step = 0; step < 3; ++step) {
    a.run({{by_rate.x, batch(step)}});
    b.run({{by_decay.x, batch(step)}});
  }
  for (const std::string& path : a.storages()) CHECK(a.get(path).equal(b.get(path)));

  const auto followed = [](FollowOptions options) {
    return mistakes_of([&](Graph& g) { g.follow("target", "critic", options, at_line(3)); });
  };
  CHECK(followed({.rate = 1}) == "nothing");
  CHECK(followed({.rate = 0.005, .decay = 0.995}) ==
        "net.cc:3: follow(\"target\", \"critic\", {.rate = 0.005, .decay = 0.995}) cannot be kept\n"
        "  requires   a rate or a decay, but both are given, 0.005 and 0.995");
  CHECK(followed({}) ==
        "net.cc:3: follow(\"target\", \"critic\", {}) cannot be kept\n"
        "  requires   a rate or a decay, but neither is given");
  CHECK(followed({.rate = 0}) ==
        "net.cc:3: follow(\"target\", \"critic\", {.rate = 0}) cannot be kept\n"
        "  requires   a rate above 0 and up to 1, but 0");
  CHECK(mistakes_of([](Graph& g) { g.follow("critic", "critic", {.rate = 1}, at_line(3)); }) ==
        "net.cc:3: follow(\"critic\", \"critic\", {.rate = 1}) cannot be kept\n"
        "  requires   another path than that of \"critic/linear/weight\", to follow");
  CHECK(
      mistakes_of([](Graph& g) { g.average("critic", {.rate = 0.2, .decay = 0.9}, at_line(3)); }) ==
      "net.cc:3: average(\"critic\", {.rate = 0.2, .decay = 0.9}) cannot be kept\n"
      "  requires   a rate or a decay, but both are given, 0.2 and 0.9");
}

TEST_CASE("what follows has no average") {
  CHECK(mistakes_of([](Graph& g) {
          g.follow("target", "critic", {.rate = 1}, at_line(3));
          g.average("target", {.decay = 0.9}, at_line(4));
        }) ==
        "net.cc:4: average(\"target\", {.decay = 0.9}) cannot be kept\n"
        "  requires   parameters of which some follow no other, but all that it finds do");
  CHECK(mistakes_of([](Graph& g) {
          g.follow("target", "critic", {.rate = 1}, at_line(3));
          g.average("**", {.decay = 0.9}, at_line(4));
        }) == "nothing");
}

TEST_CASE("graphs that train together keep equal averages") {
  Net a(5), b(7);
  a.g.average("linear", {.decay = 0.9}, at_line(3));
  b.g.average("linear", {.decay = 0.8}, at_line(4));
  const std::string text =
      tests::error_of<GraphError>([&] { compile({&a.g, &b.g}, cpu_replay(), plain_options()); });
  CAPTURE(text);
  CHECK(text.find("with decay=0.9 bias_correction") != text.npos);
  CHECK(text.find("with decay=0.8 bias_correction") != text.npos);
}

}  // namespace
}  // namespace metronome::averages_test
