// A transformer that gives back the tokens it reads: wide products, attention between them, and the
// widest at the end, one logit for each word.
//
//   tokens [32, 128] -- embedding 512 -- + positions -- h
//   h --+-- attention, 8 heads --(+)-- norm --+-- linear 2048 -- gelu -- linear --(+)-- norm --
//       |-------------------------|           |------------------------------------|
//       '--------------------------------------- x 4 --------------------------------------'
//   h -- linear 8192 -- logits ---- cross_entropy_loss(logits, tokens) ---- Adam
#include "models/models.h"

namespace metronome::models {

Model transformer(Size size, Element element) {
  const std::int64_t rows = batch_at(size, 32), length = size_at(size, 16, 64, 128);
  const std::int64_t vocabulary = size_at(size, 256, 2048, 8192);
  const std::int64_t width = width_at(size, 512), hidden = width_at(size, 2048);
  constexpr std::int64_t kHeads = 8, kLayers = 4;
  constexpr double kSlow = 1e-4;

  Graph g("transformer");
  Value tokens = g.input("x", i64, {rows, length});

  const Layer layer = transformer_encoder_layer(
      width, kHeads, {.dim_feedforward = hidden, .dropout = 0, .activation = gelu});
  Value logits = tokens.through(embedding(vocabulary, width, {.element = element}))
                     .through(positions(length))
                     .repeat(kLayers, layer)
                     .through(linear(vocabulary));

  g.minimize(cross_entropy_loss(logits, tokens), Adam{.lr = kSlow});
  return finish(std::move(g), {tokens}, logits, {.vocabulary = vocabulary});
}

}  // namespace metronome::models
