// The whole of reinforcement learning in one graph:
//
//   angle, speed -- seen -- actor, drawn -- torque -- pushed --.     states: fed back
//                     |        |                         |      '-- reward
//                     '--------'---- replay buffer ------'------------'
//   a batch of it:  state, action, reward, next
//     next --- actor -- drawn, its log density -- target critics -- min --.
//                             reward + 0.99 (min - price * log density) = aim
//     state, action -------------------------- critics --- (critics - aim)^2 ---- Adam
//     state --- actor -- drawn -- critics, updated --- price * log density - min ---- Adam
//                         '----- log density --------- price towards an entropy of -1 ---- Adam
#include "models/pendulum/pendulum.h"

#include <numbers>
#include <utility>

namespace metronome::models {
namespace {

constexpr double kPi = std::numbers::pi;
constexpr double kSecondsAMove = 0.05, kMostTorque = 2, kMostSpeed = 8, kGravity = 10;
constexpr std::int64_t kMoves = 200;     // of an episode
constexpr std::int64_t kAtRandom = 500;  // moves before the actor acts
constexpr std::int64_t kWidth = 64, kCapacity = 10'000;
constexpr double kDiscount = 0.99, kEntropy = -1, kFollows = 0.01;

Value network(Value h, std::int64_t outputs) {
  return h.repeat(2, [](Value v) { return v.through(linear(kWidth)).through(relu); })
      .through(linear(outputs));
}

Value policy(Value seen) { return network(seen, 2); }

Value twins(Value pair) { return concat({network(pair, 1), network(pair, 1)}, 1); }

distributions::SquashedNormal acting(const Value& by) {
  return {by.slice(1, 0, 1), exp(clamp(by.slice(1, 1, 2), -5, 2))};
}

/// From one bound to the other, as likely everywhere.
Value between(Graph& g, const std::string& draw, double low, double high) {
  return rand(g.seed(), draw, {f32, {1, 1}}) * (high - low) + low;
}

}  // namespace

Value Pendulums::seen() const { return concat({cos(angle), sin(angle), speed}, 1); }

Pendulums Pendulums::pushed(const Value& torque) const {
  const Value faster = speed + (1.5 * kGravity * sin(angle) + 3.0 * torque) * kSecondsAMove;
  const Value limited = clamp(faster, -kMostSpeed, kMostSpeed);
  return {angle + limited * kSecondsAMove, limited};
}

Value Pendulums::reward(const Value& torque) const {
  // The angle from -pi to pi.
  const Value turns = floor((angle + kPi) / (2 * kPi));
  const Value off = angle - turns * (2 * kPi);
  return -(square(off) + 0.1 * square(speed) + 0.001 * square(torque));
}

Graph learning_pendulum(const PendulumOptions& options) {
  Graph g("pendulum");
  const Layer actor = shared(policy), critics = shared(twins);
  const Value angle = g.state("angle", {f32, {1, 1}}, constant(kPi));
  const Value speed = g.state("speed", {f32, {1, 1}});
  const Value move = g.state("move", {i64, {}});

  // Act.
  const Pendulums now{angle, speed};
  const Value seen = now.seen();
  const Value drawn = acting(seen.scope("actor", actor)).rsample("act").value;
  const Value random = between(g, "random", -1, 1);
  const Value action = stop_gradient(where(g.replay() < kAtRandom, random, drawn));
  const Value torque = action * kMostTorque;
  const Pendulums then = now.pushed(torque);
  const Value ends = move + 1.0 == static_cast<double>(kMoves);
  g.feed(angle, where(ends, between(g, "angle", -kPi, kPi), then.angle));
  g.feed(speed, where(ends, between(g, "speed", -1, 1), then.speed));
  g.feed(move, where(ends, 0.0, move + 1.0));
  const ReplayBuffer memory(
      "memory", kCapacity,
      {{"state", seen}, {"action", action}, {"reward", now.reward(torque)}, {"next", then.seen()}});

  // Learn.
  const Values batch = memory.sample(options.batch, "batch");
  const Value &state = batch[0], &next = batch[3];
  const Value price = exp(g.parameter("price", {f32, {}}, zeros()));
  const distributions::Draw choice = acting(state.through(actor)).rsample("now");
  const distributions::Draw later = acting(next.through(actor)).rsample("later");
  const Value valued = concat({next, later.value}, 1).scope("target", shared(twins));
  const Value worth = min(valued, {1}) - price * later.log_prob;
  const Value aim = batch[2] + kDiscount * worth.reshape({options.batch, 1});
  const Value both = concat({state, batch[1]}, 1).scope("critics", critics);
  g.minimize(mean(square(both - stop_gradient(aim))), Adam{.lr = options.lr},
             {.name = "critics", .parameters = {"critics"}});
  const Value judged = min(concat({state, choice.value}, 1).through(critics), {1});
  g.minimize(mean(price * choice.log_prob - judged), Adam{.lr = options.lr},
             {.name = "actor", .parameters = {"actor"}});
  g.minimize(-price * (mean(stop_gradient(choice.log_prob)) + kEntropy), Adam{.lr = options.lr},
             {.name = "price", .parameters = {"price"}});
  g.follow("target", "critics", {.rate = kFollows});
  return g;
}

PlayingPendulums playing_pendulums(std::int64_t rows) {
  Graph g("playing");
  const Value angle = g.state("playing/angle", {f32, {rows, 1}}, uniform(-kPi, kPi));
  const Value speed = g.state("playing/speed", {f32, {rows, 1}}, uniform(-1, 1));
  const Pendulums now{angle, speed};
  const Value torque = kMostTorque * tanh(now.seen().scope("actor", shared(policy)).slice(1, 0, 1));
  const Pendulums then = now.pushed(torque);
  g.feed(angle, then.angle);
  g.feed(speed, then.speed);
  const Value reward = mean(now.reward(torque));
  g.output("reward", reward);
  return {std::move(g), reward};
}

}  // namespace metronome::models
