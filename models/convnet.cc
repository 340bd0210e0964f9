// Convolutions that halve an image step by step, and a classifier over what is left of it.
//
//   x [128, 3, 64, 64]
//   |-- conv2d 3x3 -- batch_norm -- relu -- max_pool2d 2 --|   x 4: 64, 128, 256, 512 channels
//   |-- conv2d 3x3, 512 -- batch_norm -- relu
//   |-- adaptive_avg_pool2d 1 -- flatten -- linear 100
//   y ---- mse_loss ---- Adam
//   target
#include "models/models.h"

namespace metronome::models {

Model convnet(Size size, Element element) {
  const std::int64_t images = batch_at(size, 128), edge = size_at(size, 16, 32, 64);
  const std::int64_t width = size_at(size, 8, 32, 64), classes = width_at(size, 100);

  Graph g("convnet");
  Value x = g.input("x", element, {images, 3, edge, edge});
  Value target = g.input("target", element, {images, classes});

  auto seen = [](std::int64_t channels) -> Layer {
    return [=](Value h) {
      return h.through(conv2d(channels, 3, {.padding = 1})).through(batch_norm()).through(relu);
    };
  };
  auto halved = [=](Value h, int level) {
    return h.through(seen(width << level)).through(max_pool2d(2));
  };
  Value h = x.repeat(4, halved).through(seen(8 * width));
  Value y = h.through(adaptive_avg_pool2d(1)).through(flatten()).through(linear(classes));

  g.minimize(mse_loss(y, target), Adam{.lr = 1e-3});
  return finish(std::move(g), {x, target}, y);
}

}  // namespace metronome::models
