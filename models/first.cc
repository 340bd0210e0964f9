#include <ATen/ATen.h>
#include <fmt/core.h>

#include "executor/metronome.h"
namespace mt = metronome;

int main() {
  mt::Graph g("first");
  mt::Value x = g.input("x", mt::f32, {64, 16}), target = g.input("target", mt::f32, {64, 1});
  mt::Layer block = [](mt::Value h) { return h.through(mt::linear(32)).through(mt::gelu); };
  mt::Value y = x.through(mt::linear(32)).repeat(4, mt::residual(block)).through(mt::linear(1));
  g.minimize(mt::mse_loss(y, target), mt::Adam{.lr = 1e-3});

  mt::Executable step = mt::compile(g);
  at::manual_seed(1);
  const at::Tensor data = at::randn({64, 16}), sums = data.sum(1, true);
  for (int i = 0; i < 1000; ++i) step.run({{x, data}, {target, sums}});
  fmt::print("loss {:.6f} after {} steps\n", step.read_scalar(g.loss()), step.updates());
}
