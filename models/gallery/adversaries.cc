// Two networks against each other: one makes points of noise, the other tells them from points on a
// ring. Each step trains the judge, then the maker by the judge as it now is.
//
//   noise [64, 4] -- generator --- points [64, 2] --+-- discriminator -- its loss ---- Adam
//                                  real   [64, 2] --'        |
//                                  points [64, 2] -- discriminator, updated -- loss ---- Adam
//
// Goodfellow and others, "Generative adversarial nets", 2014, with the generator's loss of section
// 3.
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/cos.h>
#include <ATen/ops/sin.h>

#include "models/gallery/gallery.h"

namespace metronome::gallery {

Example adversaries(Element element) {
  constexpr std::int64_t kRows = 64, kNoise = 4, kWidth = 32;

  Graph g("adversaries");
  const Value noise = randn(g.seed(), "noise", {element, {kRows, kNoise}});
  const Value real = g.input("real", element, {kRows, 2});

  const auto network = [](std::int64_t outputs) -> Layer {
    return [=](Value h) {
      h = h.repeat(2, [](Value v) { return v.through(linear(kWidth)).through(silu); });
      return h.through(linear(outputs));
    };
  };
  const Layer judge = shared(network(1));
  const Value points = noise.scope("generator", network(2));
  const Value of_real = real.scope("discriminator", judge), of_points = points.through(judge);
  g.minimize(mean(softplus(-of_real)) + mean(softplus(of_points)), Adam{.lr = 2e-3, .beta1 = 0.5},
             {.name = "discriminator", .parameters = {"discriminator"}});
  g.minimize(mean(softplus(-points.through(judge))), Adam{.lr = 2e-3, .beta1 = 0.5},
             {.name = "generator", .parameters = {"generator"}});
  g.output("off", mean(abs(sqrt(sum(square(points), {1})) - 1.0)));

  const auto batch = [=](std::int64_t step) -> std::vector<Feed> {
    const at::Tensor angles = hash_numbers(kRows, 1, step, 1) * 3.14159265;
    return {{"real", cast(at::cat({at::cos(angles), at::sin(angles)}, 1), element)}};
  };
  return {std::move(g), batch, {"loss/generator", "off"}};
}

}  // namespace metronome::gallery
