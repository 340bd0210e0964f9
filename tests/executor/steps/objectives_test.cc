// Several losses in one step, each with an optimizer and parameters of its own.
//
//   noise -> generator -> fake -> discriminator -> each loss
//                         real -> discriminator -> the discriminator's loss

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "executor/metronome.h"
#include "tests/aten.h"
#include "tests/doctest.h"
#include "tests/error_of.h"
#include "tests/executor/targets.h"

namespace metronome::objectives_test {
namespace {

using tests::error_of;

constexpr std::int64_t kExamples = 8;

/// Both losses are declared, then minimized: each reads what the other was before the step.
struct Adversaries {
  Graph g{"adversaries"};
  Value noise = g.input("noise", f64, {kExamples, 3}), real = g.input("real", f64, {kExamples, 2});
  Value fake, generator_loss, discriminator_loss;
  Objective generator, discriminator;

  /// `option` changes how the generator is trained.
  using Option = std::function<void(Adversaries&, Optimizer&, ObjectiveOptions&)>;

  explicit Adversaries(bool trains_generator = true, bool trains_discriminator = true,
                       const Option& option = {}) {
    fake = noise.scope("generator", [](Value x) {
      return metronome::tanh(x.through(linear(5))).through(linear(2));
    });
    const auto weight = [&](const std::string& name, Shape shape) {
      return g.parameter("discriminator/" + name, {f64, std::move(shape)}, normal(0, 0.5));
    };
    const Value w = weight("w", {4, 2}), b = weight("b", {4}), v = weight("v", {1, 4}),
                c = weight("c", {1});
    const auto judged = [&](Value x) { return linear(metronome::tanh(linear(x, w, b)), v, c); };
    const Value of_fake = judged(fake), of_real = judged(real);
    generator_loss = mean(softplus(-of_fake));
    discriminator_loss = mean(softplus(-of_real)) + mean(softplus(of_fake));
    if (trains_generator) {
      Optimizer optimizer = Adam{.lr = 1e-2};
      ObjectiveOptions options{.name = "generator", .parameters = {"generator"}};
      if (option) option(*this, optimizer, options);
      generator = g.minimize(generator_loss, optimizer, options);
    } else {
      g.freeze("generator");
    }
    if (trains_discriminator) {
      discriminator = g.minimize(discriminator_loss, Sgd{.lr = 5e-2, .momentum = 0.9},
                                 {.name = "discriminator", .parameters = {"discriminator"}});
    } else {
      g.freeze("discriminator");
    }
  }

  std::vector<Feed> feeds(int step) const {
    at::manual_seed(step);
    return {{noise, at::randn({kExamples, 3}, at::kDouble)},
            {real, at::randn({kExamples, 2}, at::kDouble) + 1.0}};
  }
};

void check_hundred_steps(const Adversaries::Option& option, std::int64_t updates) {
  const Adversaries model(true, true, option);
  Executable replay = compile(model.g, cpu_replay(), tests::plain_options());
  Executable apart = compile(model.g, stepwise(), tests::plain_options());
  Executable torch = compile(model.g, eager(), tests::plain_options());
  for (int step = 0; step < 100; ++step) {
    for (Executable* e : {&replay, &apart, &torch}) e->run(model.feeds(step));
  }
  for (const std::string& path : replay.storages()) {
    CAPTURE(path);
    CHECK(at::equal(replay.get(path), apart.get(path)));
    CHECK(at::allclose(replay.get(path), torch.get(path), 1e-9, 1e-11));
  }
  for (const Value& loss : {model.generator.loss(), model.discriminator.loss()}) {
    CHECK(replay.read_scalar(loss) == apart.read_scalar(loss));
    CHECK(replay.read_scalar(loss) == doctest::Approx(torch.read_scalar(loss)).epsilon(1e-9));
  }
  CHECK(replay.replays() == 100);
  CHECK(replay.get("update/generator").item<std::int64_t>() == updates);
  CHECK(replay.get("update/discriminator").item<std::int64_t>() == 100);
}

TEST_CASE("a hundred steps of two adversaries: replay as stepwise to the bit, near eager") {
  using Model = Adversaries;
  using Options = ObjectiveOptions;
  const auto all_of = [](const Model& m) { return mean(m.noise); };
  SUBCASE("as declared") { check_hundred_steps({}, 100); }
  SUBCASE("every third") {
    check_hundred_steps([](Model&, Optimizer&, Options& o) { o.every = 3; }, 34);
  }
  SUBCASE("when") {
    check_hundred_steps([&](Model& m, Optimizer&, Options& o) { o.when = all_of(m) > 0.0; }, 51);
  }
  SUBCASE("skips what is not finite") {
    check_hundred_steps(
        [&](Model& m, Optimizer&, Options& o) {
          // Some gradients are infinite, some none.
          m.generator_loss =
              m.generator_loss * sqrt(maximum(all_of(m), 0.0)) / sqrt(maximum(all_of(m), 0.0));
          o.skip_not_finite = true;
        },
        51);
  }
  SUBCASE("accumulates four") {
    check_hundred_steps([](Model&, Optimizer&, Options& o) { o.accumulate = 4; }, 25);
  }
  SUBCASE("accumulates by weight, when") {
    check_hundred_steps(
        [&](Model& m, Optimizer&, Options& o) {
          o.accumulate = 3, o.weight = square(all_of(m)), o.when = all_of(m) > 0.0;
        },
        17);
  }
  SUBCASE("settable numbers") {
    check_hundred_steps(
        [](Model&, Optimizer& optimizer, Options&) {
          optimizer = AdamW{
              .lr = Settable{0.01}, .weight_decay = Settable{0.1}, .clip_norm = Settable{0.2}};
        },
        100);
  }
  SUBCASE("a plateau") {
    check_hundred_steps(
        [](Model&, Optimizer& optimizer, Options&) {
          optimizer = Adam{.lr = Plateau{.lr = 0.05, .factor = 0.5, .patience = 1, .every = 3}};
        },
        100);
  }
}

TEST_CASE("one step moves each part as that part's objective alone would") {
  const Adversaries both, generator(true, false), discriminator(false, true);
  Executable step = compile(both.g, cpu_replay(), tests::plain_options());
  Executable one = compile(generator.g, cpu_replay(), tests::plain_options());
  Executable other = compile(discriminator.g, cpu_replay(), tests::plain_options());
  for (const DeclaredParameter& p : both.g.parameters()) {
    for (Executable* e : {&one, &other}) e->set(p.path, step.get(p.path));
  }
  step.run(both.feeds(1));
  one.run(generator.feeds(1));
  other.run(discriminator.feeds(1));
  for (const DeclaredParameter& p : both.g.parameters()) {
    CAPTURE(p.path);
    Executable& alone = p.path.starts_with("generator") ? one : other;
    CHECK(at::equal(step.get(p.path), alone.get(p.path)));
  }
}

TEST_CASE("gradients and numbers of each objective, on every target") {
  for (const bool both : {true, false}) {
    std::vector<at::Tensor> slopes;  // by the second objective: of each target
    for (const Target& target : {cpu_replay(), stepwise(), eager(), tests::device_of_host()}) {
      Adversaries model;
      const Value by_discriminator = model.discriminator.gradient(model.fake);
      const Value by_generator = both ? model.generator.gradient(model.fake) : Value();
      const Value slow = model.generator.learning_rate(),
                  fast = model.discriminator.learning_rate();
      const Value norm = model.discriminator.gradient_norm();
      Executable step = compile(model.g, target, tests::plain_options());
      step.run(model.feeds(1));
      CHECK(step.read_scalar(slow) == 1e-2);
      CHECK(step.read_scalar(fast) == 5e-2);
      CHECK(step.read("learning_rate/generator").item<double>() == 1e-2);
      CHECK(step.read_scalar(norm) > 0);
      CHECK(step.read("loss/generator").item<double>() == step.read_scalar(model.generator.loss()));
      slopes.push_back(step.read(by_discriminator).clone());
      if (both) CHECK(!at::allclose(step.read(by_generator), slopes.back()));
    }
    for (const at::Tensor& slope : slopes) CHECK(at::allclose(slope, slopes[0], 1e-12, 1e-15));
  }
}

TEST_CASE("one loss that two optimizers share") {
  for (const Target& target : {cpu_replay(), eager()}) {
    Graph g("shared"), whole("whole");
    Value loss, summed;
    for (Graph* each : {&g, &whole}) {
      const Value x = each->input("x", f64, {4, 3});
      const Value y = metronome::tanh(x.scope("a", linear(2))).scope("b", linear(1));
      (each == &g ? loss : summed) = mean(square(y - 1.0));
    }
    g.minimize(loss, Sgd{.lr = 0.1}, {.name = "a", .parameters = {"a"}});
    g.minimize(loss, Sgd{.lr = 0.05}, {.name = "b", .parameters = {"b"}});
    whole.minimize(summed, Sgd{.lr = 0.1});
    whole.scale_learning_rate("b", 0.5);
    Executable two = compile(g, target, tests::plain_options());
    Executable one = compile(whole, target, tests::plain_options());
    for (const DeclaredParameter& p : g.parameters()) one.set(p.path, two.get(p.path));
    for (Executable* e : {&one, &two}) e->run({{"x", at::ones({4, 3}, at::kDouble)}});
    for (const DeclaredParameter& p : g.parameters()) {
      CHECK(at::allclose(one.get(p.path), two.get(p.path), 1e-12, 1e-15));
    }
  }
}

TEST_CASE("a parameter's gradient by an objective that does not train it") {
  for (const Target& target : {cpu_replay(), eager()}) {
    Graph g("two");
    const Value a = g.parameter("a", {f64, {}}, constant(2)),
                b = g.parameter("b", {f64, {}}, constant(3));
    const Value first = a * b, second = a * a * b;
    const Objective of_a = g.minimize(first, Sgd{.lr = 0.1}, {.name = "a", .parameters = {"a"}});
    const Objective of_b = g.minimize(second, Sgd{.lr = 0.01}, {.name = "b", .parameters = {"b"}});
    const Value da = of_a.gradient(a), db = of_a.gradient(b), second_da = of_b.gradient(a);
    Executable step = compile(g, target, tests::plain_options());
    for (int i = 0; i < 2; ++i) step.run({});
    // a: 2, then 2 - 0.1 b; b: 3, then 3 - 0.01 a^2
    const double a1 = 2 - 0.1 * 3, b1 = 3 - 0.01 * 4;
    CHECK(step.read_scalar(da) == doctest::Approx(b1));
    CHECK(step.read_scalar(db) == doctest::Approx(a1));
    CHECK(step.read_scalar(second_da) == doctest::Approx(2 * a1 * b1));
    CHECK(step.get("a").item<double>() == doctest::Approx(a1 - 0.1 * b1));
    CHECK(step.get("b").item<double>() == doctest::Approx(b1 - 0.01 * a1 * a1));
  }
}

TEST_CASE("graphs that train in one executable have the same objectives") {
  const auto declared = [](std::int64_t rows, const std::string& second, double rate,
                           bool swaps = false) {
    auto g = std::make_unique<Graph>("shapes");
    const Value x = g->input("x", f32, {rows, 2});
    const Value a = mean(square(x.scope("a", linear(1)))),
                b = mean(square(x.scope("b", linear(1))));
    g->minimize(swaps ? b : a, Sgd{.lr = 0.1}, {.name = "a", .parameters = {swaps ? "b" : "a"}});
    g->minimize(swaps ? a : b, Sgd{.lr = rate},
                {.name = second, .parameters = {swaps ? "a" : "b"}});
    return g;
  };
  const auto one = declared(4, "b", 0.1), same = declared(8, "b", 0.1);
  CHECK(error_of([&] { compile({one.get(), same.get()}, cpu_replay(), tests::plain_options()); }) ==
        "nothing");
  Graph seldom("shapes");
  const Value x = seldom.input("x", f32, {8, 2});
  const Value a = mean(square(x.scope("a", linear(1)))), b = mean(square(x.scope("b", linear(1))));
  seldom.minimize(a, Sgd{.lr = 0.1}, {.name = "a", .parameters = {"a"}});
  seldom.minimize(b, Sgd{.lr = 0.1}, {.name = "b", .parameters = {"b"}, .every = 2});
  CHECK(error_of([&] {
          compile({one.get(), &seldom}, cpu_replay(), tests::plain_options());
        }).find("in every replay of 2") != std::string::npos);
  const auto name = declared(8, "c", 0.1), rate = declared(8, "b", 0.2);
  for (const Graph* other : {name.get(), rate.get()}) {
    CHECK(error_of([&] { compile({one.get(), other}, cpu_replay(), tests::plain_options()); }) !=
          "nothing");
  }
  const auto swapped = declared(8, "b", 0.1, true);
  const std::string error =
      error_of([&] { compile({one.get(), swapped.get()}, cpu_replay(), tests::plain_options()); });
  CHECK_MESSAGE(error.find(", trained by \"b\"") != std::string::npos, error);
}

}  // namespace
}  // namespace metronome::objectives_test
