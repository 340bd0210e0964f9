// An autoencoder of images: convolutions halve them down to a code, their transposes bring them
// back.
//
//   x [64, 3, 64, 64]
//   |-- conv2d 4x4, stride 2 -- batch_norm -- relu --|             x 4: 64, 128, 256, 512 channels
//   |-- conv_transpose2d 4x4, stride 2 -- batch_norm -- relu --|   x 3: 256, 128, 64
//   |-- conv_transpose2d 4x4, stride 2, 3 channels -- tanh
//   y ---- mse_loss(y, x) ---- Adam
#include "models/models.h"

namespace metronome::models {

Model conv_autoenc(Size size, Element element) {
  const std::int64_t images = batch_at(size, 64), edge = size_at(size, 16, 32, 64);
  constexpr std::int64_t kColors = 3;
  const std::int64_t width = size_at(size, 8, 32, 64);

  Graph g("conv_autoenc");
  Value x = g.input("x", element, {images, kColors, edge, edge});

  auto down = [](std::int64_t channels) -> Layer {
    return [=](Value h) {
      return h.through(conv2d(channels, 4, {.stride = 2, .padding = 1}))
          .through(batch_norm())
          .through(relu);
    };
  };
  auto up = [](std::int64_t channels) {
    return conv_transpose2d(channels, 4, {.stride = 2, .padding = 1});
  };
  Value h = x.through(down(width)).through(down(2 * width)).through(down(4 * width));
  h = h.through(down(8 * width));
  for (const std::int64_t channels : {4 * width, 2 * width, width}) {
    h = h.through(up(channels)).through(batch_norm()).through(relu);
  }
  Value y = h.through(up(kColors)).through(tanh);

  g.minimize(mse_loss(y, x), Adam{.lr = 1e-3});
  return finish(std::move(g), {x}, y);
}

}  // namespace metronome::models
