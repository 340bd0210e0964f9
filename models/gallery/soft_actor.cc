// An actor that draws its actions, and is paid for being random: critics, then the actor by the
// updated critics, then the price of being random.
//
//   next --- actor, noise -- later, its log density -- target critics -- min --.
//                           reward + 0.95 (min - price * log density) = aim
//   state, action --------------------------------- critics --- (critics - aim)^2 ---- Adam
//   state --- actor, noise --- critics, updated --- price * log density - min ---- Adam
//                    '----- log density ----------- price towards an entropy of -1 ---- Adam
//
// Haarnoja and others, "Soft actor-critic algorithms and applications", 2018, on transitions that
// are given.
#include <ATen/core/Tensor.h>

#include <cmath>

#include "models/gallery/learners.h"

namespace metronome::gallery {
namespace {

struct Drawn {
  Value action;   ///< [rows, 1] in (-1, 1)
  Value density;  ///< [rows, 1] its logarithm
};

/// tanh of a normal number, `policy` [rows, 2] being its mean and the logarithm of its deviation.
Drawn draw(Value policy, Value noise) {
  const Value deviation = clamp(policy.slice(1, 1, 2), -5.0, 2.0);
  const Value u = policy.slice(1, 0, 1) + exp(deviation) * noise;
  // log(1 - tanh(u)^2) = 2 (log 2 - u - softplus(-2 u)), which keeps its digits.
  const Value squashed = 2.0 * (std::log(2.0) - u - softplus(-2.0 * u));
  const Value normal = -0.5 * square(noise) - deviation - 0.5 * std::log(2 * M_PI);
  return {tanh(u), normal - squashed};
}

}  // namespace

Example soft_actor(Element element) {
  constexpr std::int64_t kRows = 128, kWidth = 32;
  constexpr double kEntropy = -1;  // of one action

  Graph g("soft_actor");
  const Value state = g.input("state", element, {kRows, 2}),
              next = g.input("next", element, {kRows, 2});
  const Value action = g.input("action", element, {kRows, 1}),
              reward = g.input("reward", element, {kRows, 1}),
              noise = g.input("noise", element, {kRows, 1}),
              next_noise = g.input("next_noise", element, {kRows, 1});

  const auto network = [](Value h, std::int64_t outputs) {
    return h.repeat(2, [](Value v) { return v.through(linear(kWidth)).through(relu); })
        .through(linear(outputs));
  };
  const auto twins = [=](Value pair) { return concat({network(pair, 1), network(pair, 1)}, 1); };
  const Layer critics = shared(twins), policy = shared([=](Value h) { return network(h, 2); });
  const Value price = exp(g.parameter("price", {element, {}}, constant(-2)));

  const Drawn now = draw(state.scope("actor", policy), noise);
  const Drawn later = draw(next.through(policy), next_noise);
  const Value valued = concat({next, later.action}, 1).scope("target_critics", shared(twins));
  const Value aim = reward + 0.95 * (min(valued, {1}, true) - price * later.density);
  const Value both = concat({state, action}, 1).scope("critics", critics);
  g.minimize(mean(square(both - aim)), Adam{.lr = 2e-3},
             {.name = "critics", .parameters = {"critics"}});
  const Value judged = min(concat({state, now.action}, 1).through(critics), {1}, true);
  g.minimize(mean(price * now.density - judged), Adam{.lr = 2e-3},
             {.name = "actor", .parameters = {"actor"}});
  g.minimize(-price * (mean(now.density) + kEntropy), Adam{.lr = 2e-3},
             {.name = "price", .parameters = {"price"}});
  g.follow("target_critics", "critics", {.rate = 0.02});
  g.output("entropy", -mean(now.density));

  const auto batch = [=](std::int64_t step) -> std::vector<Feed> {
    const Transitions t = transitions(kRows, step);
    return {{"state", cast(t.state, element)},
            {"action", cast(t.action, element)},
            {"reward", cast(t.reward, element)},
            {"next", cast(t.next, element)},
            {"noise", cast(normal_numbers(kRows, step, 3), element)},
            {"next_noise", cast(normal_numbers(kRows, step, 5), element)}};
  };
  return {std::move(g), batch, {"loss/actor", "entropy"}};
}

}  // namespace metronome::gallery
