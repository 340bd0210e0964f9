// Soft actor-critic: Haarnoja and others, "Soft actor-critic algorithms and applications", 2018,
// in the widths and rates of CleanRL's program for a hopper. A step is fed a batch of transitions.
//
//   next [256, 11] --- actor -- drawn, its log density -- target critics -- min --.
//                        reward + 0.99 (1 - done) (min - price * log density) = aim
//   state, action [256, 3] ---------------- critics --- (critics - aim)^2 ---- Adam
//   state --- actor -- drawn -- critics, updated --- price * log density - min ---- Adam
//                       '----- log density ------ price towards an entropy of -3 ---- Adam
//   target critics follow the critics
#include <numbers>

#include "models/models.h"

namespace metronome::models {
namespace {

constexpr std::int64_t kHopperSeen = 11, kHopperActions = 3;
constexpr double kDiscount = 0.99, kEntropy = -kHopperActions, kFollows = 0.005;
constexpr double kLeast = -5, kMost = 2;  // the logarithm of an action's deviation

struct Choice {
  Value action, log_prob;
};

/// tanh of normal numbers, of which `noise` are the draws.
Choice choose(const Value& of, const Value& noise) {
  const Value loc = of.slice(1, 0, kHopperActions),
              wide = tanh(of.slice(1, kHopperActions, 2 * kHopperActions));
  const Value scale = exp(kLeast + 0.5 * (kMost - kLeast) * (wide + 1.0));
  const Value drawn = loc + scale * noise;
  // The logarithm of tanh's slope, which keeps its digits.
  const Value slope = 2.0 * (std::numbers::ln2 - drawn - softplus(-2.0 * drawn));
  return {tanh(drawn), distributions::DiagonalNormal{loc, scale}.log_prob(drawn) - sum(slope, {1})};
}

}  // namespace

Model sac(Size size, Element element) {
  const std::int64_t rows = rows_at(size, 4, 100, 256), width = size_at(size, 16, 64, 256);

  Graph g("sac");
  const auto input = [&](const char* name, std::int64_t columns) {
    return g.input(name, element, {rows, columns});
  };
  const Value state = input("state", kHopperSeen), action = input("action", kHopperActions);
  const Value reward = input("reward", 1), next = input("next", kHopperSeen);
  const Value done = g.input("done", i64, {rows, 1});
  const Value noise = input("noise", kHopperActions),
              next_noise = input("next_noise", kHopperActions);

  const auto network = [=](Value h, std::int64_t outputs) {
    return h.repeat(2, [=](Value v) { return v.through(linear(width)).through(relu); })
        .through(linear(outputs));
  };
  const auto twins = [=](Value pair) { return concat({network(pair, 1), network(pair, 1)}, 1); };
  const Layer actor = shared([=](Value seen) { return network(seen, 2 * kHopperActions); });
  const Layer critics = shared(twins);

  const Value acts = state.scope("actor", actor);
  const Value best = tanh(acts.slice(1, 0, kHopperActions));  // what a tried actor does
  const Choice now = choose(acts, noise);
  const Choice later = choose(next.through(actor), next_noise);
  const Value price = exp(g.parameter("log_price", {element, {}}, zeros()));
  const Value valued = concat({next, later.action}, 1).scope("target", shared(twins));
  const Value worth = (min(valued, {1}) - price * later.log_prob).reshape({rows, 1});
  const Value aim = reward + kDiscount * (1.0 - done.cast(element)) * worth;
  const Value both = concat({state, action}, 1).scope("critics", critics);
  g.minimize(2.0 * mse_loss(both, stop_gradient(concat({aim, aim}, 1))), Adam{.lr = 1e-3},
             {.name = "critics", .parameters = {"critics"}});
  const Value judged = min(concat({state, now.action}, 1).through(critics), {1});
  g.minimize(mean(stop_gradient(price) * now.log_prob - judged), Adam{.lr = 3e-4},
             {.name = "actor", .parameters = {"actor"}});
  g.minimize(-price * (mean(stop_gradient(now.log_prob)) + kEntropy), Adam{.lr = 1e-3},
             {.name = "price", .parameters = {"log_price"}});
  g.follow("target", "critics", {.rate = kFollows});
  return finish(std::move(g), {state, action, reward, next, done, noise, next_noise}, best,
                {.vocabulary = 2});
}

}  // namespace metronome::models
