// Four residual blocks with batch norm and dropout, and a learning rate that falls along a cosine.
//
//   pixels [64, 64] -- linear 128 --+------------------------------------------(+)-- linear 10 --
//   logits
//                                   |-- linear -- batch_norm -- gelu -- dropout --|
//                                   '------------------ x 4 ----------------------'
//   cross_entropy_loss(logits, labels) ---- Adam
#include "models/images/images.h"

namespace metronome::models {

ImageModel digits(const ImageOptions& options) {
  constexpr std::int64_t kWidth = 128, kBlocks = 4;
  constexpr double kDropped = 0.1;

  Graph g("digits");
  Value pixels = g.input("pixels", f32, {options.batch, kDigitsData.pixels()});
  Value labels = g.input("labels", i64, {options.batch});

  auto block = [](Value h) {
    return h.through(linear(kWidth)).through(batch_norm()).through(gelu).through(dropout(kDropped));
  };
  Value logits =
      pixels.through(linear(kWidth)).repeat(kBlocks, residual(block)).through(linear(kClasses));

  g.output("logits", logits);
  g.minimize(cross_entropy_loss(logits, labels),
             Adam{.lr = Cosine{.lr = options.lr, .steps = options.steps}});
  g.learning_rate();
  return {std::move(g), pixels, labels, logits};
}

}  // namespace metronome::models
