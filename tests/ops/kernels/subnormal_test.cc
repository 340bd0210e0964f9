// Tails that vanish: subnormal numbers slow a kernel and every product that reads them severalfold.
#include <ATen/ops/gelu_backward.h>

#include "executor/metronome.h"
#include "tests/aten.h"
#include "tests/doctest.h"

namespace metronome::subnormal_test {
namespace {

TEST_CASE("gelu's gradient has no subnormal tail") {
  Graph g("tails");
  const Value x = g.input("x", f32, {4001});
  const Value w = g.parameter("w", Type{f32, {4001}}, zeros());
  const Value h = x + w;
  g.minimize(sum(gelu(h)) * 1e-6, Sgd{.lr = 0});
  const Value gradient = g.gradient(h);
  CompileOptions options;
  options.tune = Tune::off;
  Executable step = compile(g, cpu_replay(), options);
  const at::Tensor points = at::linspace(-40, 40, 4001);
  step.run({{x, points}});
  const at::Tensor size = step.read(gradient).abs();
  CHECK((size > 0).logical_and(size < 1.1754944e-38).sum().item<std::int64_t>() == 0);
  const at::Tensor exact = at::gelu_backward(at::full({4001}, 1e-6), points);
  CHECK(at::allclose(step.read(gradient), exact, 1e-5, 1e-12));
}

}  // namespace
}  // namespace metronome::subnormal_test
