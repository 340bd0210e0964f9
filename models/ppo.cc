// Proximal policy optimization: Schulman and others, 2017, in the widths, rates and details of
// CleanRL's program for a cart and its pole. A step is fed one minibatch.
//
//   state [128, 4]
//   |-- linear 64 -- tanh -- linear 64 -- tanh -- linear 2 -- action's log density, entropy --.
//   |        ratio to the log density before, clipped, times the advantage, normalised -- loss |
//   |-- linear 64 -- tanh -- linear 64 -- tanh -- linear 1 -- (value - aim)^2, clipped --------+
//                               all gradients clipped to a norm of 0.5 ---- Adam --------------'
#include <numbers>

#include "models/models.h"

namespace metronome::models {
namespace {

constexpr std::int64_t kCartSeen = 4, kCartActions = 2;
constexpr double kClip = 0.2, kEntropyWeight = 0.01, kValueWeight = 0.5;

/// Its last layer begins `gain` times orthogonal.
Layer network(std::int64_t width, std::int64_t outputs, double gain) {
  const auto layer = [](std::int64_t out, double by) {
    return linear(out, {.weight_init = orthogonal(by), .bias_init = zeros()});
  };
  return [=](Value h) {
    return h
        .repeat(2,
                [=](Value v) { return v.through(layer(width, std::numbers::sqrt2)).through(tanh); })
        .through(layer(outputs, gain));
  };
}

}  // namespace

Model ppo(Size size, Element element) {
  const std::int64_t rows = rows_at(size, 4, 32, 128), width = width_at(size, 64);

  Graph g("ppo");
  const auto input = [&](const char* name) { return g.input(name, element, {rows}); };
  const Value state = g.input("state", element, {rows, kCartSeen});
  const Value action = g.input("action", i64, {rows});
  const Value before = input("log_prob"), gained = input("advantage");
  const Value aim = input("return"), valued = input("value");

  const Value value = state.scope("critic", network(width, 1, 1)).reshape({rows});
  const Value logits = state.scope("actor", network(width, kCartActions, 0.01));
  const distributions::Categorical policy{logits};
  const Value ratio = exp(policy.log_prob(action) - before);
  // One row by itself has no deviation.
  const Value advantage =
      rows > 1 ? (gained - mean(gained)) / (stddev(gained) + 1e-8) : gained - mean(gained);
  const Value gain = minimum(advantage * ratio, advantage * clamp(ratio, 1 - kClip, 1 + kClip));
  const Value near = valued + clamp(value - valued, -kClip, kClip);
  const Value off = 0.5 * mean(maximum(square(value - aim), square(near - aim)));
  g.minimize(kValueWeight * off - mean(gain) - kEntropyWeight * mean(policy.entropy()),
             Adam{.lr = 2.5e-4, .eps = 1e-5, .clip_norm = 0.5});
  return finish(std::move(g), {state, action, before, gained, aim, valued}, logits,
                {.vocabulary = kCartActions});
}

}  // namespace metronome::models
