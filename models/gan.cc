// A generator and a discriminator against each other, as in Goodfellow and others, "Generative
// adversarial nets", 2014: of linear layers, with the generator's loss that does not saturate.
//
//   noise [128, 20] -- linear 400 -- leaky_relu -- linear 784 -- tanh -- images
//   real [128, 784], images -- linear 400 -- leaky_relu -- linear 1 --.
//                        softplus(-of real) + softplus(of images) ---- Adam of the discriminator
//                   softplus(-of images), by it as it is now ---- Adam of the generator
#include "models/models.h"

namespace metronome::models {

Model gan(Size size, Element element) {
  constexpr double kSlope = 0.2;
  const Adam adam{.lr = 2e-4, .beta1 = 0.5};
  const std::int64_t rows = batch_at(size, 128), pixels = width_at(size, 784);
  const std::int64_t hidden = width_at(size, 400), latent = width_at(size, 20);

  Graph g("gan");
  const Value noise = g.input("noise", element, {rows, latent});
  const Value real = g.input("real", element, {rows, pixels});

  const auto network = [=](Value h, std::int64_t outputs) {
    return h.through(linear(hidden)).through(leaky_relu(kSlope)).through(linear(outputs));
  };
  const Layer judge = shared([=](Value images) { return network(images, 1); });
  const Value images =
      noise.scope("generator", [=](Value h) { return network(h, pixels).through(tanh); });

  const Value of_real = real.scope("discriminator", judge);
  const Value of_images = stop_gradient(images).through(judge);
  g.minimize(mean(softplus(-of_real)) + mean(softplus(of_images)), adam,
             {.name = "discriminator", .parameters = {"discriminator"}});
  g.minimize(mean(softplus(-images.through(judge))), adam,
             {.name = "generator", .parameters = {"generator"}});
  return finish(std::move(g), {noise, real}, images);
}

}  // namespace metronome::models
