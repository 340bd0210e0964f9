// A feedback loop that decides for itself how often it runs, ten times at most.
//
//   x [128, 512] -- linear -- gelu -- layer_norm -- h
//   h --+----------------------------------(+)--+-- ... -- linear -- y ---- mse_loss ---- Adam
//       |-- linear -- gelu -- layer_norm --|    |                  target
//       |                                       '-- linear [512, 1] -- mean > 0: halt
//       '----- up to ten times, shared weights, until halt
#include "models/models.h"

namespace metronome::models {

Model feedback_adaptive(Size size, Element element) {
  const std::int64_t rows = batch_at(size, 128), width = width_at(size, 512);

  Graph g("feedback_adaptive");
  Value x = g.input("x", element, {rows, width});
  Value target = g.input("target", element, {rows, width});

  auto block = [=](Value h) {
    return h.through(linear(width)).through(gelu).through(layer_norm());
  };
  auto halt = [](Value h) { return mean(h.through(linear(1))) > 0.0; };
  Value h = x.through(block).loop(residual(block)).until(halt, 10);
  g.output("iterations", iterations(h));

  Value y = h.through(linear(width));
  g.minimize(mse_loss(y, target), Adam{.lr = 1e-3});
  return finish(std::move(g), {x, target}, y);
}

}  // namespace metronome::models
