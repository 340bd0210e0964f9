// An actor that draws its actions, and is paid for being random: critics, then the actor by the
// updated critics, then the price of being random.
//
//   next --- actor -- drawn, its log density -- target critics -- min --.
//                           reward + 0.95 (min - price * log density) = aim
//   state, action -------------------------- critics --- (critics - aim)^2 ---- Adam
//   state --- actor -- drawn -- critics, updated --- price * log density - min ---- Adam
//                       '----- log density --------- price towards an entropy of -1 ---- Adam
//
// Haarnoja and others, "Soft actor-critic algorithms and applications", 2018, on transitions that
// are given.
#include <ATen/core/Tensor.h>

#include "models/gallery/learners.h"

namespace metronome::gallery {

Example soft_actor(Element element) {
  constexpr std::int64_t kRows = 128, kWidth = 32;
  constexpr double kEntropy = -1;  // of one action

  Graph g("soft_actor");
  const Value state = g.input("state", element, {kRows, 2}),
              next = g.input("next", element, {kRows, 2});
  const Value action = g.input("action", element, {kRows, 1}),
              reward = g.input("reward", element, {kRows, 1});

  const auto network = [](Value h, std::int64_t outputs) {
    return h.repeat(2, [](Value v) { return v.through(linear(kWidth)).through(relu); })
        .through(linear(outputs));
  };
  const auto twins = [=](Value pair) { return concat({network(pair, 1), network(pair, 1)}, 1); };
  const Layer critics = shared(twins), policy = shared([=](Value h) { return network(h, 2); });
  const Value price = exp(g.parameter("price", {element, {}}, constant(-2)));

  const auto acting = [](const Value& of) {
    return distributions::SquashedNormal{of.slice(1, 0, 1), exp(clamp(of.slice(1, 1, 2), -5, 2))};
  };
  const distributions::Draw now = acting(state.scope("actor", policy)).rsample("now");
  const distributions::Draw later = acting(next.through(policy)).rsample("later");
  const Value valued = concat({next, later.value}, 1).scope("target_critics", shared(twins));
  const Value worth = min(valued, {1}) - price * later.log_prob;
  const Value aim = reward + 0.95 * worth.reshape({kRows, 1});
  const Value both = concat({state, action}, 1).scope("critics", critics);
  g.minimize(mean(square(both - aim)), Adam{.lr = 2e-3},
             {.name = "critics", .parameters = {"critics"}});
  const Value judged = min(concat({state, now.value}, 1).through(critics), {1});
  g.minimize(mean(price * now.log_prob - judged), Adam{.lr = 2e-3},
             {.name = "actor", .parameters = {"actor"}});
  g.minimize(-price * (mean(now.log_prob) + kEntropy), Adam{.lr = 2e-3},
             {.name = "price", .parameters = {"price"}});
  g.follow("target_critics", "critics", {.rate = 0.02});
  g.output("entropy", -mean(now.log_prob));

  const auto batch = [=](std::int64_t step) { return feed_transitions(kRows, step, element); };
  return {std::move(g), batch, {"loss/actor", "entropy"}};
}

}  // namespace metronome::gallery
