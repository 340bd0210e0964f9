// A feedback loop of ten passes over a narrow stream: short kernels, so launches dominate.
//
//   x [128, 512] -- linear -- gelu -- layer_norm -- h
//   h --+----------------------------------(+)-- ... -- linear -- y ---- mse_loss ---- Adam
//       |-- linear -- gelu -- layer_norm --|                      target
//       '----- x 10, shared weights -------'
#include "models/models.h"

namespace metronome::models {

Model feedback_fixed(Size size, Element element) {
  const std::int64_t rows = batch_at(size, 128), width = width_at(size, 512);

  Graph g("feedback_fixed");
  Value x = g.input("x", element, {rows, width});
  Value target = g.input("target", element, {rows, width});

  auto block = [=](Value h) {
    return h.through(linear(width)).through(gelu).through(layer_norm());
  };
  Value y = x.through(block).loop(residual(block)).times(10).through(linear(width));

  g.minimize(mse_loss(y, target), Adam{.lr = 1e-3});
  return finish(std::move(g), {x, target}, y);
}

}  // namespace metronome::models
