// A plain stack of wide layers: the GEMMs dominate.
//
//   x [256, 1024]
//   |-- linear 2048 -- gelu -- layer_norm --|
//   |-- linear 2048 -- gelu -- layer_norm --|  x 3
//   |-- linear 1024
//   y ---- mse_loss ---- Adam
//   target
#include "models/models.h"

namespace metronome::models {

Model mlp(Size size, Element element) {
  const std::int64_t rows = batch_at(size, 256);
  const std::int64_t width = width_at(size, 1024), hidden = width_at(size, 2048);

  Graph g("mlp");
  Value x = g.input("x", element, {rows, width});
  Value target = g.input("target", element, {rows, width});

  auto block = [=](Value h) {
    return h.through(linear(hidden)).through(gelu).through(layer_norm());
  };
  Value y = x.repeat(4, block).through(linear(width));

  g.minimize(mse_loss(y, target), Adam{.lr = 1e-3});
  return finish(std::move(g), {x, target}, y);
}

}  // namespace metronome::models
