// Options of compile: what evaluation computes, threads, optimizers that eager has not.
#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "executor/metronome.h"
#include "executor/metronome/op.h"
#include "graph/ir/error.h"
#include "ops/own/own_ops.h"
#include "tests/aten.h"
#include "tests/cuda/host_driver.h"
#include "tests/doctest.h"
#include "tests/executor/targets.h"

namespace mine {
namespace {

using namespace metronome;

int counted = 0;

/// x, and how many threads libtorch may use meanwhile.
struct Counts {
  static constexpr std::string_view name = "counts";
  static constexpr bool differentiable = false;
  bool operator==(const Counts&) const = default;
  Types infer(std::span<const Type> in) const { return {in[0]}; }
};
CpuKernel bind(const Counts&, const CpuLaunch&) {
  return CpuKernel([] {});
}
Tensors reference(const Counts&, const Tensors& in) {
  counted = at::get_num_threads();
  return {in[0] + 0};
}

}  // namespace
}  // namespace mine

namespace metronome::options_test {
namespace {

using tests::targets;

/// A classifier: only the loss reads the labels.
struct Classifier {
  Graph g{"classifier"};
  Value x = g.input("x", f32, {4, 3});
  Value labels = g.input("labels", i64, {4});
  Value logits = x.through(linear(5));
  Value best = argmax(logits, 1);
  Classifier() {
    g.output("logits", logits);
    g.output("best", best);
    g.gradient(x);
    g.minimize(cross_entropy_loss(logits, labels), Sgd{.lr = 0.1});
  }
};

CompileOptions plain(std::vector<Mode> modes = {train, evaluate},
                     std::vector<std::string> outputs = {}) {
  CompileOptions options;
  options.modes = std::move(modes);
  options.evaluate_outputs = std::move(outputs);
  options.tune = Tune::off;
  options.threads = 1;
  return options;
}

TEST_CASE("evaluation asks for the inputs of what it computes, and for no others") {
  const at::Tensor x = at::arange(12, at::kFloat).reshape({4, 3});
  for (const Target& target : targets()) {
    const Classifier c;
    Executable all = compile(c.g, target, plain());
    CHECK_THROWS_WITH_AS(all.evaluate({{c.x, x}}),
                         "graph \"classifier\": input \"labels\" i64[4] was never fed", RunError);
    Executable some = compile(c.g, target, plain({train, evaluate}, {"logits", "best"}));
    some.evaluate({{c.x, x}});
    all.evaluate({{c.x, x}, {c.labels, at::zeros({4}, at::kLong)}});
    // Another plan may put the bias elsewhere, and so round elsewhere.
    CHECK(at::allclose(some.read("logits"), all.read("logits"), 1e-6, 1e-6));
    CHECK(some.read(c.best).equal(all.read(c.best)));
    CHECK_THROWS_WITH_AS(some.read_scalar(c.g.loss()),
                         "graph \"classifier\": no step has produced \"loss\" yet, as evaluations "
                         "do not compute it: "
                         "call run(), or add it to CompileOptions::evaluate_outputs",
                         RunError);
    CHECK_THROWS_WITH_AS(some.read_scalar(c.g.loss(), 0),
                         "graph \"classifier\": no step has produced \"loss\" yet, as evaluations "
                         "do not compute it: "
                         "call run(), or add it to CompileOptions::evaluate_outputs",
                         RunError);
    // Training computes all of them.
    some.run({{c.labels, at::zeros({4}, at::kLong)}});
    all.run();
    CHECK(some.read_scalar(c.g.loss()) == all.read_scalar(c.g.loss()));
    some.evaluate();
    CHECK_THROWS_WITH_AS(some.read_scalar(c.g.loss(), 2),
                         "graph \"classifier\": step 2 was one to evaluate, which computes no "
                         "\"loss\"",
                         RunError);
  }
}

TEST_CASE("the loss may be all that evaluation computes") {
  const Classifier c;
  Executable step = compile(c.g, cpu_replay(), plain({evaluate}, {"loss"}));
  Executable all = compile(c.g, cpu_replay(), plain());
  for (Executable* each : {&step, &all}) {
    each->evaluate({{c.x, at::ones({4, 3})}, {c.labels, at::zeros({4}, at::kLong)}});
  }
  CHECK(step.read_scalar(c.g.loss()) == all.read_scalar(c.g.loss()));
  CHECK_THROWS_WITH_AS(
      step.read("best"),
      "graph \"classifier\": no step computes \"best\": it was compiled to evaluate "
      "alone; add mt::train to CompileOptions::modes, or it to "
      "CompileOptions::evaluate_outputs",
      RunError);
  CHECK_THROWS_WITH_AS(
      step.read("gradient of x"),
      "graph \"classifier\": no step computes \"gradient of x\": it was compiled to "
      "evaluate alone, which makes no gradients and no update; add mt::train to "
      "CompileOptions::modes",
      RunError);
}

TEST_CASE("fewer outputs, fewer kernels") {
  const Classifier c;
  const Executable all = compile(c.g, cpu_replay(), plain());
  const Executable some = compile(c.g, cpu_replay(), plain({train, evaluate}, {"logits"}));
  CHECK(some.report().plan(evaluate).kernels < all.report().plan(evaluate).kernels);
  CHECK(some.report().plan(train).kernels == all.report().plan(train).kernels);
}

TEST_CASE("names that evaluation does not know, and no evaluation to limit") {
  const Classifier c;
  for (const Target& target : {cpu_replay(), eager()}) {
    for (const char* name : {"logit", "gradient of x", ""}) {
      CHECK_THROWS_WITH_AS(
          compile(c.g, target, plain({train, evaluate}, {"logits", name})),
          fmt::format("graph \"classifier\": CompileOptions::evaluate_outputs names \"{}\", but an "
                      "evaluation keeps \"logits\", \"best\", \"loss\"",
                      name)
              .c_str(),
          RunError);
    }
    CHECK_THROWS_WITH_AS(compile(c.g, target, plain({train}, {"logits"})),
                         "graph \"classifier\": CompileOptions::evaluate_outputs is given, but no "
                         "evaluation; add mt::evaluate to CompileOptions::modes",
                         RunError);
  }
}

TEST_CASE("a graph that keeps nothing") {
  Graph g("idle");
  const Value x = g.input("x", f32, {2});
  relu(x);
  for (const Target& target : {cpu_replay(), stepwise(), eager(), null()}) {
    CHECK_THROWS_WITH_AS(
        compile(g, target, plain({train})),
        "graph \"idle\" computes nothing that is kept\n"
        "  requires   a loss, an output, a named value, or a state or buffer that is assigned\n"
        "  way out    declare what to read: Graph::output(name, value)",
        GraphError);
  }
  x.named("h");
  compile(g, cpu_replay(), plain({train}));
  Graph counts("counts");
  const Value n = counts.state("n", Type{f32, {}});
  counts.feed(n, n + 1.0);
  Executable step = compile(counts, cpu_replay(), plain({train}));
  step.run();
  CHECK(step.get("n").item<float>() == 1);
}

TEST_CASE("threads far beyond the cores are refused, a few more are not") {
  const Classifier c;
  const int cores = static_cast<int>(std::thread::hardware_concurrency());
  const int most = std::max(16, 4 * cores);
  const std::string machine = fmt::format("{} core{}", cores, cores == 1 ? "" : "s");
  for (const Target& target : {cpu_replay(), stepwise(), eager()}) {
    CompileOptions options = plain();
    for (const int threads : {100000, most + 1}) {
      options.threads = threads;
      CHECK_THROWS_WITH_AS(
          compile(c.g, target, options),
          fmt::format(
              "graph \"classifier\": CompileOptions::threads is {}, but this machine has {}; "
              "give {} or fewer, best {}, or 0 for as many as libtorch uses",
              threads, machine, most, cores)
              .c_str(),
          RunError);
    }
    options.threads = cores + 1;
    CHECK(compile(c.g, target, options).report().threads == cores + 1);
  }
}

TEST_CASE("initial values are the same on any number of threads") {
  // More bytes than one thread makes by itself, in storages of unlike sizes.
  Graph g("large");
  const Value x = g.input("x", f32, {1, 512});
  const Value h = x.through(linear(4096)).through(tanh).through(linear(512)).through(linear(3));
  g.minimize(mean(square(h)), Adam{});
  const auto compiled = [&](int threads) {
    return compile(g, cpu_replay(), {.threads = threads, .tune = Tune::off});
  };
  const Executable one = compiled(1);
  for (const int threads : {2, 3}) {
    const Executable several = compiled(threads);
    for (const std::string& path : one.storages()) {
      CHECK_MESSAGE(several.get(path).equal(one.get(path)), path);
    }
  }
}

TEST_CASE("eager keeps to its threads, and leaves libtorch's as they were") {
  const int before = at::get_num_threads();
  at::set_num_threads(2);
  Graph g("threads");
  g.minimize(sum(apply(mine::Counts{}, {g.input("x", f32, {4})}, Line::here()) *
                 g.parameter("w", {f32, {4}}, ones())),
             Sgd{.lr = 0.1});
  for (const int threads : {1, 3}) {
    CompileOptions options = plain({train, evaluate});
    options.threads = threads;
    options.ops = own_ops<mine::Counts>();
    Executable e = compile(g, eager(), options);
    e.run({{"x", at::ones({4})}});
    CHECK(mine::counted == threads);
    CHECK(at::get_num_threads() == 2);
    mine::counted = 0;
    e.evaluate({{"x", at::ones({4})}});
    CHECK(mine::counted == threads);
    CHECK(at::get_num_threads() == 2);
  }
  at::set_num_threads(before);
}

TEST_CASE("so are as many as libtorch was told to use") {
  const Classifier c;
  CompileOptions options = plain();
  options.threads = 0;
  const int cores = static_cast<int>(std::thread::hardware_concurrency());
  const int most = std::max(16, 4 * cores), before = at::get_num_threads();
  at::set_num_threads(most + 1);
  CHECK_THROWS_WITH_AS(
      compile(c.g, cpu_replay(), options),
      fmt::format("graph \"classifier\": libtorch uses {} threads, but this machine has {} core{}; "
                  "call at::set_num_threads, set OMP_NUM_THREADS or give "
                  "CompileOptions::threads: at most {}",
                  most + 1, cores, cores == 1 ? "" : "s", most)
          .c_str(),
      RunError);
  at::set_num_threads(before);
}

/// p - lr * sign(g): Bernstein et al., "signSGD", 2018.
struct SignSgd {
  static constexpr std::string_view name = "sign_sgd";
  double lr = 0.5;
  bool operator==(const SignSgd&) const = default;
  std::string attributes() const { return fmt::format("lr={}", lr); }
  std::vector<Moment> moments() const { return {}; }
  Values scalars(Value, double) const { return {}; }
  Values update(Value parameter, Value gradient, std::span<const Value>,
                std::span<const Value>) const {
    return {parameter - sign(gradient) * lr};
  }
};

TEST_CASE("an optimizer of the user's own: planned by Metronome, refused where libtorch trains") {
  Graph g("own");
  const Value x = g.input("x", f32, {2});
  g.minimize(sum(x * g.parameter("w", Type{f32, {2}}, ones())), SignSgd{});
  for (const Target& target : {cpu_replay(), stepwise()}) {
    Executable step = compile(g, target, plain({train}));
    step.run({{x, at::tensor({3.0f, -2.0f})}});
    CHECK(step.get("w").equal(at::tensor({0.5f, 1.5f})));
  }
  CHECK_THROWS_WITH_AS(
      compile(g, eager(), plain({train})),
      "graph \"own\": eager trains by libtorch's own optimizers, and the optimizer \"sign_sgd\" is "
      "none of them; compile for another target, such as cpu_replay or stepwise, or minimize with "
      "Adam, AdamW or Sgd",
      RunError);
  Executable evaluated = compile(g, eager(), plain({evaluate}));
  evaluated.evaluate({{x, at::tensor({3.0f, -2.0f})}});
  CHECK(evaluated.read_scalar(g.loss()) == 1);
}

}  // namespace
}  // namespace metronome::options_test
