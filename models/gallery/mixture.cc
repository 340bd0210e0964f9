// A sparse mixture of experts: each row meets the two of four experts that the router weighs most,
// and no expert takes more rows than it has slots for.
//
//   x [64, 8] --+-- linear 4 -- softmax -------- weights
//               |                                   |
//               |                                 route ---- balance_loss, dropped
//               |-- linear 16 -- gelu -- linear 8 --|
//               |            x 4 experts           (sum of two)--(+)-- linear 1 -- y
//               '-----------------------------------------------'
//   mse_loss(y, target) + 0.01 balance ---- Adam
//
// Shazeer et al., "Outrageously large neural networks", 2017; the balance of Fedus et al., "Switch
// Transformers", 2021.
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/where.h>

#include "models/gallery/gallery.h"

namespace metronome::gallery {

Example mixture(Element element) {
  constexpr std::int64_t kRows = 64, kWidth = 8;
  constexpr int kExperts = 4;

  Graph g("mixture");
  Value x = g.input("x", element, {kRows, kWidth});
  Value target = g.input("target", element, {kRows, 1});

  auto router = [](Value h) { return h.through(linear(kExperts)).through(softmax()); };
  auto expert = [](int) -> Layer {
    return
        [](Value h) { return h.through(linear(2 * kWidth)).through(gelu).through(linear(kWidth)); };
  };
  Value routed = x.route(router, expert, {.top = 2, .capacity = 1.25});
  Value y = (x + routed).through(linear(1));

  Value balance = balance_loss(routed);
  g.output("dropped", dropped(routed));
  g.output("balance", balance);
  g.minimize(mse_loss(y, target) + 0.01 * balance, Adam{.lr = 5e-3});

  const auto batch = [=](std::int64_t step) -> std::vector<Feed> {
    const at::Tensor h = hash_numbers(kRows, kWidth, step);
    // The signs of the first two columns choose which of four functions holds.
    const at::Tensor a = h.slice(1, 0, 1), b = h.slice(1, 1, 2), c = h.slice(1, 2, 3);
    const at::Tensor wanted =
        at::where(a > 0, at::where(b > 0, c, -c), at::where(b > 0, a + b, b * c));
    return {{"x", cast(h, element)}, {"target", cast(wanted, element)}};
  };
  return {std::move(g), batch, {"dropped", "balance"}};
}

}  // namespace metronome::gallery
