// The optimizers of ops/optimizers/adaptive.h, and schedules, beside the numbers that PyTorch's and
// the authors' formulas gave (expected_updates.py).
#include "ops/optimizers/adaptive.h"

#include <cmath>
#include <string>
#include <vector>

#include "executor/metronome.h"
#include "tests/aten.h"
#include "tests/doctest.h"
#include "tests/error_of.h"
#include "tests/ops/optimizers/expected_updates.h"

namespace metronome::adaptive_test {
namespace {

constexpr int kUpdates = 100;
const CompileOptions kPlain{.threads = 1, .tune = Tune::off};

at::Tensor target_of(int step) {
  return at::linspace(0, 1, 15, at::kDouble).reshape({3, 5}).mul(1.2 * std::sin(0.3 * step));
}

std::vector<double> numbers_in(const at::Tensor& tensor) {
  const at::Tensor flat = tensor.to(at::kDouble).contiguous();
  return {flat.const_data_ptr<double>(), flat.const_data_ptr<double>() + flat.numel()};
}

std::vector<double> joined(std::vector<double> a, const std::vector<double>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

void check_near(const std::vector<double>& made, const std::vector<double>& expected,
                double relative) {
  REQUIRE(made.size() == expected.size());
  double largest = 0;
  for (const double x : expected) largest = std::max(largest, std::abs(x));
  for (std::size_t i = 0; i < made.size(); ++i) {
    CAPTURE(i);
    CHECK(std::abs(made[i] - expected[i]) <= relative * largest);
  }
}

/// Storages of a step after 100 updates, those at `root`: of the problem of expected_updates.py.
std::vector<double> trained(const Optimizer& optimizer, const Target& target, Element element,
                            bool maximize, const std::string& root) {
  Graph g("problem");
  const Value aim = g.input("target", element, {3, 5});
  const Value a = g.parameter("a", {element, {3, 5}}, zeros());
  const Value b = g.parameter("b", {element, {7}}, zeros());
  const Value loss = 0.5 * sum(square(a - aim)) + sum(exp(0.3 * b));
  g.minimize(maximize ? -loss : loss, optimizer);
  Executable step = compile(g, target, kPlain);
  const auto options = at::TensorOptions(element == f64 ? at::kDouble : at::kFloat);
  step.set("a", at::linspace(-2, 2, 15, at::kDouble).reshape({3, 5}).to(options.dtype()));
  step.set("b", at::linspace(1, -1, 7, at::kDouble).to(options.dtype()));
  for (int update = 0; update < kUpdates; ++update) {
    step.run({{aim, target_of(update).to(options.dtype())}});
  }
  return joined(numbers_in(step.get(root + "a")), numbers_in(step.get(root + "b")));
}

void check(const std::string& name, const Optimizer& optimizer, bool maximize = false,
           const std::string& root = "") {
  CAPTURE(name);
  const std::vector<double>& expected = kExpectedParameters.at(name);
  for (const Target& target : {cpu_replay(), eager()}) {
    check_near(trained(optimizer, target, f64, maximize, root), expected, 1e-9);
  }
  check_near(trained(optimizer, cpu_replay(), f32, maximize, root), expected, 2e-4);
}

TEST_CASE("100 updates are PyTorch's") {
  check("rmsprop", RmsProp{.lr = 0.01, .weight_decay = 0.1});
  check("rmsprop_centered", RmsProp{.lr = 0.01, .alpha = 0.9, .momentum = 0.5, .centered = true});
  check(
      "adagrad",
      Adagrad{.lr = 0.1, .lr_decay = 0.01, .weight_decay = 0.1, .initial_accumulator_value = 0.2});
  check("adadelta", Adadelta{.lr = 1.0, .rho = 0.8, .weight_decay = 0.1});
  check("adamax", Adamax{.lr = 0.02, .weight_decay = 0.1});
  check("radam", RAdam{.lr = 0.02, .weight_decay = 0.1});
  check("radam_decoupled", RAdam{.lr = 0.02,
                                 .beta1 = 0.8,
                                 .beta2 = 0.9,
                                 .weight_decay = 0.1,
                                 .decoupled_weight_decay = true});
  check("nadam", NAdam{.lr = 0.02, .weight_decay = 0.1});
  check(
      "nadam_decoupled",
      NAdam{
          .lr = 0.02, .weight_decay = 0.1, .momentum_decay = 0.01, .decoupled_weight_decay = true});
  check("adam_amsgrad", Adam{.lr = 0.02, .beta2 = 0.9, .weight_decay = 0.1, .amsgrad = true});
  check("adamw_amsgrad", AdamW{.lr = 0.02, .beta2 = 0.9, .weight_decay = 0.1, .amsgrad = true});
  check("adam_maximize", Adam{.lr = 0.02, .weight_decay = 0.1, .maximize = true}, true);
  check("sgd_maximize", Sgd{.lr = 0.02, .momentum = 0.9, .weight_decay = 0.1, .maximize = true},
        true);
  check("nadam_maximize", NAdam{.lr = 0.02, .weight_decay = 0.1, .maximize = true}, true);
}

TEST_CASE("100 updates are the authors'") {
  check("lion", Lion{.lr = 0.01, .weight_decay = 0.1});
  check("lamb", Lamb{.lr = 0.01, .weight_decay = 0.1});
  const ScheduleFreeAdamW free{.lr = 0.02, .weight_decay = 0.1};
  check("schedule_free", free);
  check("schedule_free_average", free, false, "average/schedule_free/");
  const ScheduleFreeAdamW warmed_up{.lr = LinearWarmup{.lr = 0.02, .steps = 29, .start = 1.0 / 30},
                                    .beta1 = 0.8,
                                    .beta2 = 0.99,
                                    .weight_decay = 0.1};
  check("schedule_free_warmed_up", warmed_up);
  check("schedule_free_warmed_up_average", warmed_up, false, "average/schedule_free/");
}

TEST_CASE("evaluations have the average of a rule in the place of what it trains alone") {
  for (const Target& target : {cpu_replay(), stepwise(), eager()}) {
    Graph g("free");
    const Value a = g.parameter("a", {f64, {}}, constant(2));
    const Value b = g.parameter("b", {f64, {}}, constant(2));
    g.output("sum", a + b);
    const Value loss = square(a) + square(b);
    g.minimize(loss, ScheduleFreeAdamW{.lr = 0.1}, {.name = "free", .parameters = {"a"}});
    g.minimize(loss, Sgd{.lr = 0.1}, {.name = "plain", .parameters = {"b"}});
    Executable step = compile(g, target, {.modes = {train, evaluate}, .tune = Tune::off});
    step.set("a", at::scalar_tensor(3, at::kDouble));  // the moments begin as it is
    for (int i = 0; i < 10; ++i) step.run();
    const auto number = [&](const char* path) { return step.get(path).item<double>(); };
    CHECK(number("average/schedule_free/a") > number("a"));
    CHECK(number("average/schedule_free/a") < 3);
    step.evaluate({}, {.with = "schedule_free"});
    CHECK(step.read("sum").item<double>() == number("average/schedule_free/a") + number("b"));
    step.evaluate();
    CHECK(step.read("sum").item<double>() == number("a") + number("b"));
    // An average of another name lies beside it.
    CHECK(tests::error_of([&] { step.evaluate({}, {.with = "ema"}); }) ==
          "graph \"free\" has no averages \"ema\" to evaluate with; it has \"schedule_free\"");
  }
}

TEST_CASE("what is set or loaded on the way is where a schedule-free rule goes on") {
  for (const Target& target : {cpu_replay(), stepwise(), eager()}) {
    Graph g("free");
    const Value a = g.parameter("a", {f64, {2}}, ones()), b = g.parameter("b", {f64, {2}}, ones());
    g.minimize(sum(square(a)) + sum(square(b)), ScheduleFreeAdamW{.lr = 0.01});
    Executable step = compile(g, target, kPlain);
    for (int i = 0; i < 20; ++i) step.run();
    const auto near = [&](const char* path, double number) {
      // A gradient larger than those before makes steps of some times the rate.
      CHECK((step.get(path) - number).abs().max().item<double>() < 0.2);
    };
    step.set("a", at::full({2}, 9, at::kDouble));
    for (int i = 0; i < 3; ++i) step.run();
    near("a", 9), near("average/schedule_free/a", 9), near("optimizer/z/a", 9);

    // A part that trained elsewhere with it frozen has no moments.
    Graph part("free");
    const Value c = part.parameter("a", {f64, {2}}, ones()),
                d = part.parameter("b", {f64, {2}}, ones());
    part.minimize(sum(square(c)) + sum(square(d)), ScheduleFreeAdamW{.lr = 0.01});
    part.freeze("b");
    Executable frozen = compile(part, target, kPlain);
    for (int i = 0; i < 20; ++i) frozen.run();
    step.load(frozen.snapshot());
    for (int i = 0; i < 3; ++i) step.run();
    near("b", 1), near("average/schedule_free/b", 1), near("optimizer/z/b", 1);
  }
}

TEST_CASE("a rule's average and one that is declared need different names") {
  Graph g("twice");
  const Value a = g.parameter("a", {f64, {}}, ones(), {"net.cc", 2});
  g.minimize(square(a), ScheduleFreeAdamW{}, {"net.cc", 3});
  g.average("a", {.decay = 0.9, .name = "schedule_free"}, {"net.cc", 4});
  CHECK(tests::error_of([&] { compile(g, cpu_replay(), kPlain); }) ==
        "net.cc:3: schedule_free_adamw cannot keep moment \"schedule_free\" of \"a\"\n"
        "  requires   a path of its own, but an average has \"average/schedule_free/a\"\n"
        "  way out    give the average another name");
  Graph other("other");
  const Value b = other.parameter("b", {f64, {}}, ones());
  other.minimize(square(b), ScheduleFreeAdamW{});
  other.average("b", {.decay = 0.9});
  CHECK_NOTHROW(compile(other, cpu_replay(), kPlain));
}

TEST_CASE("100 updates of matrices by Muon are the authors'") {
  Graph g("matrices");
  const Value aim = g.input("target", f64, {3, 5});
  const Value a = g.parameter("a", {f64, {3, 5}}, zeros());
  const Value b = g.parameter("b", {f64, {5, 3}}, zeros());
  g.minimize(0.5 * sum(square(a - aim)) + 0.5 * sum(square(b - aim.transpose(0, 1))),
             Muon{.weight_decay = 0.1});
  const at::Tensor start = at::linspace(-2, 2, 15, at::kDouble).reshape({3, 5});
  for (const Target& target : {cpu_replay(), stepwise(), eager()}) {
    Executable step = compile(g, target, kPlain);
    step.set("a", start), step.set("b", start.t().contiguous());
    for (int update = 0; update < kUpdates; ++update) step.run({{aim, target_of(update)}});
    check_near(joined(numbers_in(step.get("a")), numbers_in(step.get("b"))),
               kExpectedParameters.at("muon"), 1e-9);
  }
}

TEST_CASE("a lazy Adam that climbs, clipped, leaves rows that are not looked up as they are") {
  for (const bool clips : {false, true}) {
    Graph g("lazy");
    const Value rows = g.input("rows", i64, {2});
    const Value table = g.parameter("table", {f64, {6, 3}}, ones());
    Adam rule{.lr = 0.1, .lazy = true, .maximize = true};
    if (clips) rule.clip_norm = 0.5;
    g.minimize(sum(square(embedding_lookup(table, rows))), rule);
    Executable step = compile(g, cpu_replay(), kPlain);
    step.run({{rows, at::tensor({1, 4}, at::kLong)}});
    step.run({{rows, at::tensor({4, 5}, at::kLong)}});
    const at::Tensor one = step.get("table").select(1, 0);
    const at::Tensor moment = step.get("optimizer/exp_avg/table").select(1, 0);
    for (const int row : {0, 2, 3}) CHECK(one[row].item<double>() == 1);
    for (const int row : {0, 2, 3}) CHECK(moment[row].item<double>() == 0);
    CHECK(one[4].item<double>() > one[1].item<double>());
    CHECK(one[1].item<double>() > 1);
  }
}

TEST_CASE("Muon reads a convolution's kernel as a matrix, and refuses a vector") {
  Graph g("kernel");
  const Value x = g.input("x", f64, {2, 3, 6, 6});
  const Value w = g.parameter("w", {f64, {4, 3, 3, 3}}, normal(0, 0.1));
  const Value flat = g.parameter("flat", {f64, {4, 27}}, zeros());
  g.minimize(sum(square(w.reshape({4, 27}) - 1.0)) + sum(square(flat - 1.0)) + 0.0 * sum(x),
             Muon{});
  Executable step = compile(g, cpu_replay(), kPlain);
  step.set("flat", step.get("w").reshape({4, 27}));
  for (int i = 0; i < 3; ++i) step.run({{x, at::zeros({2, 3, 6, 6}, at::kDouble)}});
  CHECK(at::allclose(step.get("w").reshape({4, 27}), step.get("flat"), 1e-12, 1e-12));
  Graph bias("bias");
  bias.minimize(sum(bias.parameter("b", {f64, {4}}, ones(), {"net.cc", 2})), Muon{}, {"net.cc", 3});
  const std::string said = tests::error_of([&] { compile(bias, cpu_replay(), kPlain); });
  CHECK_MESSAGE(said.find("matrices [rows, columns], or kernels of convolutions, but f64[4]") !=
                    std::string::npos,
                said);
}

TEST_CASE("Muon for matrices and AdamW for the rest, over one loss") {
  Graph g("both");
  const Value x = g.input("x", f64, {8, 5});
  const Value y = tanh(x.through(linear(6))).through(linear(1));
  const Value loss = mean(square(y - sum(x, {1}, true)));
  g.minimize(loss, Muon{.lr = 0.02}, {.name = "matrices", .parameters = {"**/weight"}});
  g.minimize(loss, AdamW{.lr = 0.02}, {.name = "rest", .parameters = {"**/bias"}});
  Executable step = compile(g, cpu_replay(), kPlain);
  const at::Tensor rows = at::sin(at::arange(40, at::kDouble)).reshape({8, 5});
  step.run({{x, rows}});
  const double first = step.read("loss/rest").item<double>();
  for (int i = 0; i < 200; ++i) step.run({{x, rows}});
  CHECK(step.read("loss/rest").item<double>() < 0.2 * first);
}

TEST_CASE("settable numbers, scales and clipping count for all of these optimizers") {
  const auto check_alike = [](auto rule) {
    auto fixed = rule, settable = rule;
    fixed.lr = 0.03, fixed.weight_decay = 0.2, fixed.clip_norm = 0.5;
    settable.lr = Settable{0.03}, settable.weight_decay = Settable{0.2};
    settable.clip_norm = Settable{0.5};
    const auto train = [](const Optimizer& optimizer, const Target& target) {
      Graph g("scaled");
      const Value aim = g.input("target", f64, {3, 5});
      const Value a = g.parameter("a", {f64, {3, 5}}, ones());
      const Value b = g.parameter("b", {f64, {3, 5}}, ones());
      g.scale_learning_rate("b", 0.5);
      g.scale_weight_decay("a", 0);
      g.minimize(sum(square(a * b - aim)), optimizer);
      Executable step = compile(g, target, kPlain);
      for (int i = 0; i < 10; ++i) step.run({{aim, target_of(i)}});
      return joined(numbers_in(step.get("a")), numbers_in(step.get("b")));
    };
    CAPTURE(std::string(rule.name));
    const std::vector<double> made = train(fixed, cpu_replay());
    CHECK(train(settable, cpu_replay()) == made);
    check_near(train(settable, eager()), made, 1e-10);
  };
  check_alike(RmsProp{.momentum = 0.5, .centered = true});
  check_alike(Adagrad{.lr_decay = 0.1});
  check_alike(Adadelta{});
  check_alike(Adamax{});
  check_alike(RAdam{.beta2 = 0.8});
  check_alike(NAdam{});
  check_alike(Lion{});
  check_alike(Lamb{});
  check_alike(Muon{});
  check_alike(ScheduleFreeAdamW{});
}

TEST_CASE("what these optimizers refuse") {
  const auto requires_ = [](const Optimizer& optimizer) {
    const auto wrong = optimizer->mistake();
    return wrong ? wrong->requires_ : "nothing";
  };
  CHECK(requires_(RmsProp{.alpha = 1.5}).find("alpha") != std::string::npos);
  CHECK(requires_(RmsProp{.momentum = -1}).find("momentum of 0 or more, but -1") !=
        std::string::npos);
  CHECK(requires_(Adagrad{.eps = -1}).find("eps of 0 or more, but -1") != std::string::npos);
  CHECK(requires_(Adadelta{.rho = 2}).find("rho") != std::string::npos);
  CHECK(requires_(Adamax{.beta1 = 1}).find("beta1") != std::string::npos);
  CHECK(requires_(RAdam{.beta2 = 0.5}) == "a beta2 above 0.6, but 0.5");
  CHECK(requires_(NAdam{.momentum_decay = -1}).find("momentum_decay") != std::string::npos);
  CHECK(requires_(Lion{.lr = -1}) == "a finite learning rate of 0 or more, but -1");
  CHECK(requires_(Lamb{.clip_norm = 0.0}) == "a finite clip_norm above 0, but 0");
  CHECK(requires_(ScheduleFreeAdamW{.beta1 = 0}) == "a beta1 above 0, but 0");
  CHECK(requires_(Muon{.steps = 0}) == "1 step or more, but 0");
  CHECK(requires_(Adam{.lazy = true, .amsgrad = true}) == "no amsgrad for lazy, but both");
  CHECK(requires_(RmsProp{}) == "nothing");
}

TEST_CASE("attributes name every number") {
  CHECK(RmsProp{.centered = true, .maximize = true}.attributes() ==
        "lr=0.01 alpha=0.99 eps=1e-08 momentum=0 centered weight_decay=0 maximize");
  CHECK(Adagrad{}.attributes() ==
        "lr=0.01 lr_decay=0 initial_accumulator_value=0 eps=1e-10 weight_decay=0");
  CHECK(Adadelta{.clip_norm = 1}.attributes() ==
        "lr=1 rho=0.9 eps=1e-06 weight_decay=0 clip_norm=1");
  CHECK(Adamax{}.attributes() == "lr=0.002 beta1=0.9 beta2=0.999 eps=1e-08 weight_decay=0");
  CHECK(RAdam{.decoupled_weight_decay = true}.attributes() ==
        "lr=0.001 beta1=0.9 beta2=0.999 eps=1e-08 weight_decay=0 decoupled");
  CHECK(NAdam{}.attributes() ==
        "lr=0.002 beta1=0.9 beta2=0.999 eps=1e-08 momentum_decay=0.004 weight_decay=0");
  CHECK(Lion{}.attributes() == "lr=0.0001 beta1=0.9 beta2=0.99 weight_decay=0");
  CHECK(Lamb{}.attributes() == "lr=0.001 beta1=0.9 beta2=0.999 eps=1e-06 weight_decay=0.01");
  CHECK(Muon{}.attributes() == "lr=0.02 momentum=0.95 nesterov steps=5 weight_decay=0");
  CHECK(ScheduleFreeAdamW{.lr = 0.5}.attributes() ==
        "lr=0.5 beta1=0.9 beta2=0.999 eps=1e-08 weight_decay=0");
  CHECK(Adam{.amsgrad = true, .maximize = true}.attributes() ==
        "lr=0.001 beta1=0.9 beta2=0.999 eps=1e-08 weight_decay=0 amsgrad maximize");
}

}  // namespace
}  // namespace metronome::adaptive_test
