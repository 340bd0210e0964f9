// One layer of long short-term memory over the bytes of a text. A step begins where the last one
// ended, and learns from its own bytes alone.
//
//   bytes [64, 32] -- embedding 96 -- lstm 192 -- linear 256 -- logits [64, 32, 256]
//   states hidden, cell [1, 32, 192] -^      '---- fed to the next step
//   mean of cross_entropy_loss(logits, next) ---- Adam, gradients clipped
#include "models/text/text.h"

namespace metronome::models {

TextModel text(const TextOptions& options) {
  constexpr std::int64_t kWidth = 192, kEmbedded = 96;
  constexpr double kMostNorm = 1.0;

  Graph g("text");
  Value bytes = g.input("bytes", i64, {options.length, options.rows});
  Value hidden = g.state("hidden", {f32, {1, options.rows, kWidth}});
  Value cell = g.state("cell", {f32, {1, options.rows, kWidth}});

  Recurrent read =
      lstm(kWidth)(bytes.through(embedding(kBytes, kEmbedded)), {.hidden = hidden, .cell = cell});
  g.feed(hidden, read.hidden);
  g.feed(cell, read.cell);
  Value logits = read.output.through(linear(kBytes));
  g.output("logits", logits);
  if (!options.trains) return {std::move(g), bytes, logits, {}, {}};

  Value next = g.input("next", i64, {options.length, options.rows});
  Value losses = cross_entropy_loss(logits, next, {.reduction = LossReduction::none});
  g.output("losses", losses);
  g.minimize(mean(losses),
             Adam{.lr = Cosine{.lr = options.lr, .steps = options.steps}, .clip_norm = kMostNorm});
  g.learning_rate();
  g.gradient_norm();
  return {std::move(g), bytes, logits, next, losses};
}

}  // namespace metronome::models
