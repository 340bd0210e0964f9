// A dense mixture: eight experts run for every row, weighted by a softmax router.
//
//   x [256, 512] -- linear -- gelu -- h --+-- linear 8 -- softmax -- weights ---.
//                                         |-- linear -- gelu -- layer_norm --.  |
//                                         |            x 8 experts           (sum)-- linear -- y
//                                         '-- linear -- gelu -- layer_norm --'
//   mse_loss(y, target) ---- Adam
#include "models/models.h"

namespace metronome::models {

Model gated_routing(Size size, Element element) {
  const std::int64_t rows = batch_at(size, 256), width = width_at(size, 512);
  constexpr int kExperts = 8;

  Graph g("gated_routing");
  Value x = g.input("x", element, {rows, width});
  Value target = g.input("target", element, {rows, width});

  auto router = [](Value h) { return h.through(linear(kExperts)).through(softmax()); };
  auto expert = [=](int) -> Layer {
    return [=](Value h) { return h.through(linear(width)).through(gelu).through(layer_norm()); };
  };
  Value y = x.through(linear(width)).through(gelu).gate(router, expert).through(linear(width));

  g.minimize(mse_loss(y, target), Adam{.lr = 1e-3});
  return finish(std::move(g), {x, target}, y);
}

}  // namespace metronome::models
