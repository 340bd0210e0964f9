// A twin critic in every step; the actor, and the targets of both, in every second one.
//
//   next --- target actor -- + noise -- target critics -- min --.
//                                            reward + 0.95 min = aim
//   state, action ---------------------------- critics ---------- (critics - aim)^2 ---- Adam
//   state --- actor --- first of the critics, updated ---------- its mean, every 2 ---- Adam
//
// Fujimoto, van Hoof and Meger, "Addressing function approximation error in actor-critic methods",
// 2018 (TD3), on transitions that are given.
#include <ATen/core/Tensor.h>

#include "models/gallery/learners.h"

namespace metronome::gallery {

Example delayed_actor(Element element) {
  constexpr std::int64_t kRows = 128, kWidth = 32;

  Graph g("delayed_actor");
  const Value state = g.input("state", element, {kRows, 2}),
              next = g.input("next", element, {kRows, 2});
  const Value action = g.input("action", element, {kRows, 1}),
              reward = g.input("reward", element, {kRows, 1});

  const auto network = [](Value h) {
    return h.repeat(2, [](Value v) { return v.through(linear(kWidth)).through(relu); })
        .through(linear(1));
  };
  const auto policy = [=](Value seen) { return tanh(network(seen)); };
  const auto twins = [=](Value pair) { return concat({network(pair), network(pair)}, 1); };
  const Layer critics = shared(twins);

  const Value still = next.scope("target_actor", policy);
  const Value noise = clamp(0.2 * randn_like(still, "noise"), -0.5, 0.5);
  const Value later = clamp(still + noise, -1, 1);
  const Value valued = concat({next, later}, 1).scope("target_critics", shared(twins));
  const Value aim = reward + 0.95 * min(valued, {1}, true);
  const Value both = concat({state, action}, 1).scope("critics", critics);
  g.minimize(mean(square(both - aim)), Adam{.lr = 2e-3},
             {.name = "critics", .parameters = {"critics"}});
  const Value chosen = concat({state, state.scope("actor", policy)}, 1).through(critics);
  g.minimize(-mean(chosen.slice(1, 0, 1)), Adam{.lr = 2e-3},
             {.name = "actor", .parameters = {"actor"}, .every = 2});
  g.follow("target_critics", "critics", {.rate = 0.02, .every = 2});
  g.follow("target_actor", "actor", {.rate = 0.02});

  const auto batch = [=](std::int64_t step) { return feed_transitions(kRows, step, element); };
  return {std::move(g), batch, {"loss/actor"}};
}

}  // namespace metronome::gallery
