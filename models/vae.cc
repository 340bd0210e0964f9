// An autoencoder whose code is a distribution: Kingma and Welling, "Auto-encoding variational
// Bayes", 2014, in the widths of PyTorch's example.
//
//   x [128, 784], from 0 to 1
//   |-- linear 400 -- relu --+-- linear 20: mean
//                            '-- linear 20: logarithm of the variance
//   mean + deviation * noise [128, 20] -- linear 400 -- relu -- linear 784 -- logits
//   sum of their binary cross entropy with x, and of the code's divergence from normal ---- Adam
#include "models/models.h"

namespace metronome::models {

Model vae(Size size, Element element) {
  const std::int64_t rows = batch_at(size, 128), pixels = width_at(size, 784);
  const std::int64_t hidden = width_at(size, 400), latent = width_at(size, 20);

  Graph g("vae");
  const Value x = g.input("x", element, {rows, pixels});
  const Value noise = g.input("noise", element, {rows, latent});

  const Value seen =
      x.scope("encoder", [=](Value h) { return h.through(linear(hidden)).through(relu); });
  const Value mean = seen.scope("mean", linear(latent));
  const Value log_variance = seen.scope("log_variance", linear(latent));
  const Value code = mean + exp(0.5 * log_variance) * noise;
  const Value logits = code.scope("decoder", [=](Value h) {
    return h.through(linear(hidden)).through(relu).through(linear(pixels));
  });

  const Value divergence = -0.5 * sum(1.0 + log_variance - square(mean) - exp(log_variance));
  const Value off = bce_with_logits_loss(logits, x, {.reduction = LossReduction::sum});
  g.minimize(off + divergence, Adam{.lr = 1e-3});
  return finish(std::move(g), {x, noise}, logits, {.numbers = Numbers::uniform});
}

}  // namespace metronome::models
