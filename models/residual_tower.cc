// Twelve residual blocks between two linear layers: many small operations around one size of GEMM.
//
//   x [256, 1024]
//   |-- linear --+----------------------------------(+)-- linear -- y ---- mse_loss ---- Adam
//                |-- linear -- gelu -- layer_norm --|               target
//                '------------- x 12 ---------------'
#include "models/models.h"

namespace metronome::models {

Model residual_tower(Size size, Element element) {
  const std::int64_t rows = batch_at(size, 256), width = width_at(size, 1024);

  Graph g("residual_tower");
  Value x = g.input("x", element, {rows, width});
  Value target = g.input("target", element, {rows, width});

  auto block = [=](Value h) {
    return h.through(linear(width)).through(gelu).through(layer_norm());
  };
  Value y = x.through(linear(width)).repeat(12, residual(block)).through(linear(width));

  g.minimize(mse_loss(y, target), Adam{.lr = 1e-3});
  return finish(std::move(g), {x, target}, y);
}

}  // namespace metronome::models
