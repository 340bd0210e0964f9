// Feeds of a tensor that is strided, repeats its own elements, lies in memory of the executable, or
// comes twice: what is copied.
#include <ATen/ops/_efficientzerotensor.h>
#include <ATen/ops/_neg_view.h>

#include <memory>
#include <string>
#include <vector>

#include "executor/metronome.h"
#include "graph/ir/error.h"
#include "tests/aten.h"
#include "tests/cuda/host_driver.h"
#include "tests/doctest.h"
#include "tests/error_of.h"
#include "tests/executor/targets.h"

namespace metronome::feeds_test {
namespace {

using tests::targets;

/// Shows what each of three inputs was fed.
struct Shown {
  Graph g{"shown"};
  Value a = g.input("a", f32, {3, 3});
  Value b = g.input("b", f32, {3, 3});
  Value c = g.input("c", f32, {3});
  Shown() {
    g.output("a shown", a * 1.0);
    g.output("b shown", b * 1.0);
    g.output("c shown", c * 1.0);
    g.output("aside", g.parameter("w", Type{f32, {3, 3}}, ones()) * 1.0);
  }
  Executable on(const Target& target) const {
    CompileOptions options;
    options.tune = Tune::off;
    options.threads = 1;
    Executable step = compile(g, target, options);
    step.run({{a, counted()}, {b, at::zeros({3, 3})}, {c, at::zeros({3})}});
    return step;
  }
  static at::Tensor counted() { return at::arange(9, at::kFloat).reshape({3, 3}); }
};

TEST_CASE("an input that is fed twice in one call is refused, by value and by name") {
  for (const Target& target : targets()) {
    const Shown s;
    Executable step = s.on(target);
    const at::Tensor ones = at::ones({3, 3}), row = at::ones({3});
    const auto refused = [&](const std::vector<Feed>& feeds, const char* message) {
      CHECK_THROWS_WITH_AS(step.run(feeds), message, RunError);
    };
    refused(
        {{s.a, ones}, {s.a, ones}},
        "graph \"shown\": \"a\" is fed twice in one call, by its feeds 0 and 1; give each input "
        "once");
    refused(
        {{"c", row}, {s.b, ones}, {s.c, row}},
        "graph \"shown\": \"c\" is fed twice in one call, by its feeds 0 and 2; give each input "
        "once");
    refused(
        {{s.a, ones}, {s.b, ones}, {"c", row}, {"b", ones}},
        "graph \"shown\": \"b\" is fed twice in one call, by its feeds 1 and 3; give each input "
        "once");
    step.run();
    CHECK(step.read("a shown").equal(Shown::counted()));  // nothing of them was copied
    CHECK(step.read("b shown").equal(at::zeros({3, 3})));
    step.run({{s.a, ones}});
    CHECK(step.read("a shown").equal(ones));
  }
}

TEST_CASE("a feed that says no input") {
  const Shown s;
  Executable step = s.on(cpu_replay());
  CHECK_THROWS_WITH_AS(step.run({{Value(), at::ones({3})}}),
                       "graph \"shown\": a feed says no input: its value is absent and its name "
                       "empty; the inputs are \"a\", \"b\", \"c\"",
                       RunError);
  CHECK_THROWS_WITH_AS(step.input(Value()),
                       "graph \"shown\": the value that is fed is absent, not an input, which are "
                       "\"a\", \"b\", \"c\"",
                       RunError);
}

TEST_CASE("strided, expanded, negated and zero tensors are copied element by element") {
  for (const Target& target : targets()) {
    const Shown s;
    Executable step = s.on(target);
    const at::Tensor counted = Shown::counted();
    step.run({{s.a, counted.t()}, {s.b, at::arange(3, at::kFloat).expand({3, 3})}});
    CHECK(step.read("a shown").equal(counted.t()));
    CHECK(step.read("b shown").equal(at::arange(3, at::kFloat).expand({3, 3})));
    step.run({{s.a, at::_neg_view(counted)}, {s.b, at::_efficientzerotensor({3, 3}, at::kFloat)}});
    CHECK(step.read("a shown").equal(-counted));
    CHECK(step.read("b shown").equal(at::zeros({3, 3})));
    step.run({{s.a, counted.clone().requires_grad_(true)}, {s.c, counted.flip(0).select(1, 1)}});
    CHECK(step.read("a shown").equal(counted));
    CHECK_FALSE(step.input(s.a).requires_grad());
    CHECK(step.read("c shown").equal(at::tensor({7.0f, 4.0f, 1.0f})));
  }
}

TEST_CASE("a feed whose numbers stand in another order, or are of another type, is told how") {
  Graph g("net");
  const Value x = g.input("x", f32, {2, 3, 8, 9}), m = g.input("m", f64, {4, 5});
  g.output("y", sum(x)), g.output("z", sum(m));
  g.parameter("w", {f32, {6, 2}}, ones());
  Executable step = compile(g, cpu_replay(), tests::plain_options());
  const auto refusal = [&](const std::string& name, const at::Tensor& tensor) {
    return tests::error_of<RunError>([&] { step.run({{name, tensor}}); });
  };
  const std::string feed = "graph \"net\": feed of \"x\": requires f32[2, 3, 8, 9], but the ";
  CHECK(refusal("x", at::zeros({2, 8, 9, 3})) ==
        feed + "tensor is f32[2, 8, 9, 3]; give tensor.permute({0, 3, 1, 2})");
  CHECK(refusal("x", at::zeros({2, 8, 9, 3}, at::kByte)) ==
        feed + "tensor is Byte[2, 8, 9, 3]; give tensor.permute({0, 3, 1, 2}).to(at::kFloat)");
  CHECK(refusal("x", at::zeros({2, 9, 8, 3})) == feed + "tensor is f32[2, 9, 8, 3]");
  CHECK(refusal("x", at::zeros({2, 3, 8, 9}, at::kShort)) ==
        feed + "tensor is Short[2, 3, 8, 9]; give tensor.to(at::kFloat)");
  CHECK(refusal("m", at::zeros({5, 4}, at::kLong)) ==
        "graph \"net\": feed of \"m\": requires f64[4, 5], but the tensor is i64[5, 4]; give "
        "tensor.permute({1, 0}).to(at::kDouble)");
  CHECK_THROWS_WITH_AS(step.set("w", at::zeros({2, 6})),
                       "graph \"net\": set of \"w\": requires f32[6, 2], but the tensor is f32[2, "
                       "6]; give tensor.permute({1, 0})",
                       RunError);
}

TEST_CASE("a sparse tensor is refused") {
  const Shown s;
  Executable step = s.on(cpu_replay());
  CHECK_THROWS_WITH_AS(step.run({{s.a, at::ones({3, 3}).to_sparse()}}),
                       "graph \"shown\": feed of \"a\": requires f32[3, 3], but the tensor is "
                       "Sparse; give tensor.to_dense()",
                       RunError);
}

TEST_CASE("an input's own memory, whole, turned or in part, fed back to it") {
  for (const Target& target : targets()) {
    const Shown s;
    Executable step = s.on(target);
    const at::Tensor a = step.input(s.a), counted = Shown::counted();
    step.run({{s.a, a}});
    CHECK(step.read("a shown").equal(counted));
    step.run({{s.a, a.t()}});  // each element lies where another goes
    CHECK(step.read("a shown").equal(counted.t()));
    CHECK(a.equal(counted.t()));
    step.run({{s.a, a.t()}});
    CHECK(a.equal(counted));
    step.run({{s.a, a.select(0, 1).expand({3, 3})}});
    CHECK(step.read("a shown").equal(counted.select(0, 1).expand({3, 3})));
    step.run({{s.a, counted}});
    step.run({{s.a, a.flatten().as_strided({3, 3}, {1, 3})}});
    CHECK(step.read("a shown").equal(counted.t()));
  }
}

TEST_CASE("inputs that are fed from each other's memory get what it held when the call began") {
  for (const Target& target : targets()) {
    const Shown s;
    Executable step = s.on(target);
    const at::Tensor a = step.input(s.a), b = step.input(s.b), counted = Shown::counted();
    b.fill_(5);
    const at::Tensor fives = b.clone();
    step.run({{s.a, b}, {s.b, a}});
    CHECK(step.read("a shown").equal(fives));
    CHECK(step.read("b shown").equal(counted));
    step.run({{s.b, a.t()}, {s.a, b.t()}, {s.c, b.select(0, 1)}});
    CHECK(step.read("a shown").equal(counted.t()));
    CHECK(step.read("b shown").equal(fives));
    CHECK(step.read("c shown").equal(counted.select(0, 1)));
    step.run({{s.c, a.select(1, 2)}});  // of an input that this call does not feed
    CHECK(step.read("c shown").equal(counted.t().select(1, 2)));
  }
}

TEST_CASE("what was read or got is fed like any other tensor") {
  for (const Target& target : targets()) {
    const Shown s;
    Executable step = s.on(target);
    step.run({{s.b, step.read("a shown").t()}, {s.c, step.get("w").select(0, 0)}});
    CHECK(step.read("b shown").equal(Shown::counted().t()));
    CHECK(step.read("c shown").equal(at::ones({3})));
  }
}

TEST_CASE("a storage is set from its own memory") {
  for (const Target& target : targets()) {
    const Shown s;
    Executable step = s.on(target);
    step.set("w", Shown::counted());
    step.set("w", step.get("w").t());
    CHECK(step.get("w").equal(Shown::counted().t()));
    step.set("w", step.get("w"));
    step.run();
    CHECK(step.read("aside").equal(Shown::counted().t()));
  }
}

}  // namespace
}  // namespace metronome::feeds_test
