// The op by itself: its numbers and gradient beside libtorch's, on each target, and its mistakes.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include "soft_cap.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <doctest/doctest.h>

#include <string>

namespace example {
namespace {

constexpr double kLimit = 2;

TEST_CASE("soft_cap and its gradient are libtorch's on each target") {
  mt::Graph g("capped");
  const mt::Value x = g.parameter("x", {mt::f32, {3, 5}}, mt::zeros());
  const mt::Value y = soft_cap(x, kLimit);
  g.output("y", y);
  const mt::Value gradient = g.gradient(x);
  g.minimize(mt::sum(y), mt::Sgd{.lr = 0});

  const at::Tensor data = at::linspace(-9, 9, 15).reshape({3, 5});
  const at::Tensor bent = at::tanh(data / kLimit);
  for (const mt::Target& target : {mt::cpu_replay(), mt::stepwise(), mt::eager()}) {
    mt::Executable step = mt::compile(g, target);
    step.set("x", data);
    step.run();
    CHECK(at::allclose(step.read(y), kLimit * bent, 1e-6, 1e-6));
    CHECK(at::allclose(step.read(gradient), 1 - bent * bent, 1e-5, 1e-6));
  }
}

std::string mistake_of(mt::Element element, double limit) {
  mt::Graph g("capped");
  const mt::Value x = g.input("x", element, {4}, {"model.cc", 6});
  g.output("y", soft_cap(x, limit, {"model.cc", 7}));
  try {
    g.validate();
  } catch (const mt::GraphError& error) {
    return error.what();
  }
  return "no mistake";
}

TEST_CASE("what soft_cap refuses is told with the caller's line") {
  CHECK(mistake_of(mt::f32, 0) ==
        "model.cc:7: soft_cap cannot join the graph as \"soft_cap\"\n"
        "  operand 0  f32[4]  \"x\"  model.cc:6\n"
        "  requires   a finite limit above 0, but 0");
  CHECK(mistake_of(mt::i64, 1) ==
        "model.cc:7: soft_cap cannot join the graph as \"soft_cap\"\n"
        "  operand 0  i64[4]  \"x\"  model.cc:6\n"
        "  requires   a floating element type, but i64\n"
        "  way out    cast it: x.cast(mt::f32)");
  CHECK(mistake_of(mt::f32, 1) == "no mistake");
}

TEST_CASE("a target on a device needs @metronome//:cuda") {
  mt::Graph g("capped");
  g.output("y", soft_cap(g.input("x", mt::f32, {4}), kLimit));
  CHECK_THROWS_WITH_AS(
      mt::compile(g, mt::cuda_graph()),
      "graph \"capped\": this program is linked without CUDA; let its Bazel target "
      "depend on @metronome//:cuda too",
      mt::RunError);
  CHECK_THROWS_AS(mt::compile(g, mt::null()), mt::RunError);
  CHECK_THROWS_AS(mt::compile(g, mt::stepwise(mt::cuda_device())), mt::RunError);
}

}  // namespace
}  // namespace example
