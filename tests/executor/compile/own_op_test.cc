// Ops of a user's own that have the rule `lower` run on every target.
#include <ATen/ops/abs.h>

#include "executor/metronome.h"
#include "graph/emit/scope.h"
#include "tests/aten.h"
#include "tests/doctest.h"

namespace metronome::own_op_test {
namespace {

/// x / (1 + |x|).
struct SoftSign {
  static constexpr std::string_view name = "soft_sign";
  bool operator==(const SoftSign&) const = default;
  Types infer(std::span<const Type> in) const { return {in[0]}; }
  Values lower(std::span<const Value> in) const { return {in[0] / (1 + abs(in[0]))}; }
};

/// Two soft signs, one after the other: made of an op that is made of others.
struct Twice {
  static constexpr std::string_view name = "twice";
  bool operator==(const Twice&) const = default;
  Types infer(std::span<const Type> in) const { return {in[0]}; }
  Values lower(std::span<const Value> in) const {
    return {apply(SoftSign{}, {apply(SoftSign{}, {in[0]}, Line::here())}, Line::here())};
  }
};

TEST_CASE("an op of other ops and its gradient, on each target") {
  Graph g("own");
  const Value x = g.parameter("x", {f32, {2, 3}}, zeros());
  const Value y = apply(Twice{}, {x}, Line::here());
  g.output("y", y);
  const Value gradient = g.gradient(x);
  g.minimize(sum(y), Sgd{.lr = 0});

  // Twice over it is x / (1 + 2 |x|), whose derivative is 1 / (1 + 2 |x|)^2.
  const at::Tensor data = at::linspace(-2, 3, 6).reshape({2, 3});
  const at::Tensor below = 1 + 2 * at::abs(data);
  for (const Target& target : {cpu_replay(), stepwise(), eager()}) {
    Executable step = compile(g, target, {.modes = {train, evaluate}});
    step.set("x", data);
    step.run();
    CHECK(at::allclose(step.read(y), data / below, 1e-6, 1e-7));
    CHECK(at::allclose(step.read(gradient), 1 / (below * below), 1e-5, 1e-7));
    step.evaluate();
    CHECK(at::allclose(step.read(y), data / below, 1e-6, 1e-7));
  }
}

}  // namespace
}  // namespace metronome::own_op_test
