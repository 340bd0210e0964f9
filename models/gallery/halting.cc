// A loop that learns when to halt: each row takes the states that it passed, weighed by how
// likely it was to halt there; the loop ends once all rows have.
//
//   x [32, 8] -- linear -- h --.
//   .--------------------------'
//   |  h -- linear -- tanh --+-- h ------------------------------.
//   |                        '-- linear 1 -- sigmoid -- p        |   up to 8 times, one set of
//   |  share = p, or what is left of 1 if p is more              |   weights, until each row's
//   |  answer += share h    spent += share    ponder += 1        |   shares sum to 1
//   '------------------------------------------------------------'
//   answer -- linear -- y        mse_loss(y, target) + cost * ponder ---- Adam
//
// Graves, "Adaptive computation time for recurrent neural networks", 2016: shares are his halting
// probabilities p_t^n, and ponder is his N(t) + R(t), whose gradient flows through the remainder R
// alone.
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/roll.h>
#include <ATen/ops/tanh.h>

#include "models/gallery/gallery.h"

namespace metronome::gallery {

Example halting(Element element, double ponder_cost) {
  constexpr std::int64_t kRows = 32, kWidth = 8, kMost = 8;
  constexpr double kNearlyAll = 0.95;  // a row halts at 1 - epsilon, or it never could at once
  constexpr double kPatience = 2;      // of the logits: a share begins near 0.12, so eight passes

  Graph g("halting");
  Value x = g.input("x", element, {kRows, kWidth});
  Value target = g.input("target", element, {kRows, kWidth});

  auto think = [=](const Values& carried) -> Values {
    const Value answer = carried[1], spent = carried[2], ponder = carried[3];
    const Value h = carried[0].through(linear(kWidth)).through(tanh);
    const Value p = sigmoid(h.through(linear(1)) - kPatience);
    const Value runs = (spent < kNearlyAll).cast(element);  // 0 for rows that halted before
    const Value halts = spent + p > kNearlyAll;
    const Value left = 1.0 - spent;
    const Value share = runs * where(halts, left, p);
    return {h, answer + share * h, spent + share, ponder + runs * (1.0 + where(halts, left, 0.0))};
  };
  auto all_halted = [=](const Values& carried) { return min(carried[2]) > kNearlyAll; };

  const Value h = x.through(linear(kWidth));
  const Value none = 0.0 * sum(h, -1, true);
  const Values thought = loop({h, 0.0 * h, none, none}, think).until(all_halted, kMost);
  // Rows that were still thinking at the end halt there.
  const Value left = 1.0 - thought[2];
  const Value y = (thought[1] + left * thought[0]).through(linear(kWidth));
  const Value ponder = mean(thought[3] + left);

  g.output("iterations", iterations(thought[0]));
  g.output("ponder", ponder);
  g.minimize(mse_loss(y, target) + ponder_cost * ponder, Adam{.lr = 5e-3});

  const auto batch = [=](std::int64_t step) -> std::vector<Feed> {
    const at::Tensor in = hash_numbers(kRows, kWidth, step);
    // A turn by one column and a bend, four times over: one step of it is easy to learn.
    at::Tensor wanted = in;
    for (int k = 0; k < 4; ++k) wanted = at::tanh(at::roll(wanted, 1, 1) * 1.5);
    return {{"x", cast(in, element)}, {"target", cast(wanted, element)}};
  };
  return {std::move(g), batch, {"iterations", "ponder"}};
}

}  // namespace metronome::gallery
