#include <fmt/core.h>

#include <random>
#include <vector>

#include "metronome/metronome.h"
namespace mt = metronome;

int main() {
  mt::Graph g("first");
  mt::Value x = g.input("x", mt::f32, {64, 16}), target = g.input("target", mt::f32, {64, 1});
  mt::Layer block = [](mt::Value h) { return h.through(mt::linear(32)).through(mt::gelu); };
  mt::Value y = x.through(mt::linear(32)).repeat(4, mt::residual(block)).through(mt::linear(1));
  g.minimize(mt::mse_loss(y, target), mt::Adam{.lr = 1e-3});

  mt::Executable step = mt::compile(g);
  std::vector<float> data(64 * 16), sums(64);
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  for (int i = 0; i < 64 * 16; ++i) sums[i / 16] += data[i] = normal(random);
  const mt::Tensor rows = mt::from_span(data, {64, 16}), wanted = mt::from_span(sums, {64, 1});
  for (int i = 0; i < 1000; ++i) step.run({{x, rows}, {target, wanted}});
  fmt::print("loss {:.6f} after {} steps\n", step.read_scalar(g.loss()), step.updates());
}
