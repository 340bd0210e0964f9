// A sparse mixture: each row runs through two of eight experts, each of which has slots for a fixed
// number of rows; what finds none is dropped, and a loss keeps the experts evenly busy.
//
//   x [256, 512] -- linear -- gelu -- h --+-- linear 8 -- softmax -- weights --.-- balance loss
//                                         |                                    |
//                     two of the eight of |-- linear -- gelu -- layer_norm --. |
//                           each row, 80  |            x 8 experts          (sum)-- linear -- y
//                      rows of an expert  '-- linear -- gelu -- layer_norm --'
//   mse_loss(y, target) + 0.01 * balance loss ---- Adam
#include "models/models.h"

namespace metronome::models {

Model routed_sparse(Size size, Element element) {
  const std::int64_t rows = batch_at(size, 256), width = width_at(size, 512);
  constexpr int kExperts = 8;

  Graph g("routed_sparse");
  Value x = g.input("x", element, {rows, width});
  Value target = g.input("target", element, {rows, width});

  auto router = [](Value h) { return h.through(linear(kExperts)).through(softmax()); };
  auto expert = [=](int) -> Layer {
    return [=](Value h) { return h.through(linear(width)).through(gelu).through(layer_norm()); };
  };
  Value mixed =
      x.through(linear(width)).through(gelu).route(router, expert, {.top = 2, .capacity = 1.25});
  g.output("dropped", dropped(mixed));

  Value y = mixed.through(linear(width));
  Value loss = mse_loss(y, target) + 0.01 * balance_loss(mixed);
  g.minimize(loss, Adam{.lr = 1e-3});
  return finish(std::move(g), {x, target}, y);
}

}  // namespace metronome::models
