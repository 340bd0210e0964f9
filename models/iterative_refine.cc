// The same block eight times, with the same weights: their gradients are joined over the passes.
//
//   x [256, 1024] -- linear -- gelu -- layer_norm -- h
//   h --+----------------------------------(+)-- ... -- linear -- y ---- mse_loss ---- Adam
//       |-- linear -- gelu -- layer_norm --|                      target
//       '----- x 8, shared weights --------'
#include "models/models.h"

namespace metronome::models {

Model iterative_refine(Size size, Element element) {
  const std::int64_t rows = batch_at(size, 256), width = width_at(size, 1024);

  Graph g("iterative_refine");
  Value x = g.input("x", element, {rows, width});
  Value target = g.input("target", element, {rows, width});

  auto block = [=](Value h) {
    return h.through(linear(width)).through(gelu).through(layer_norm());
  };
  Value y = x.through(block).loop(residual(block)).times(8).through(linear(width));

  g.minimize(mse_loss(y, target), Adam{.lr = 1e-3});
  return finish(std::move(g), {x, target}, y);
}

}  // namespace metronome::models
