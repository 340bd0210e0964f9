// Three convolutions, and a classifier over what is left of the image.
//
//   pixels [64, 1, 28, 28]
//   |-- conv2d 3x3 -- batch_norm -- relu -- max_pool2d 2 --|   16 channels, 14x14
//   |-- conv2d 3x3 -- batch_norm -- relu -- max_pool2d 2 --|   32 channels, 7x7
//   |-- conv2d 3x3 -- batch_norm -- relu -- max_pool2d 2 --|   64 channels, 3x3
//   |-- flatten -- dropout -- linear 10 -- logits
//   cross_entropy_loss(logits, labels) ---- Adam
#include "models/images/images.h"

namespace metronome::models {

ImageModel mnist(const ImageOptions& options) {
  constexpr std::int64_t kChannels = 16, kSide = kMnistData.side;
  constexpr double kDropped = 0.2;

  Graph g("mnist");
  Value pixels = g.input("pixels", f32, {options.batch, 1, kSide, kSide});
  Value labels = g.input("labels", i64, {options.batch});

  auto halved = [](Value h, int level) {
    return h.through(conv2d(kChannels << level, 3, {.padding = 1}))
        .through(batch_norm())
        .through(relu)
        .through(max_pool2d(2));
  };
  Value logits = pixels.repeat(3, halved)
                     .through(flatten())
                     .through(dropout(kDropped))
                     .through(linear(kClasses));

  g.output("logits", logits);
  g.minimize(cross_entropy_loss(logits, labels),
             Adam{.lr = Cosine{.lr = options.lr, .steps = options.steps}});
  g.learning_rate();
  return {std::move(g), pixels, labels, logits};
}

}  // namespace metronome::models
