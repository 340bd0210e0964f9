// A pendulum that learns to stand up, and what it is: graphs alone, which are fed nothing.
#pragma once

#include <cstdint>
#include <memory>

#include "models/tasks/task.h"

namespace metronome::models {

/// Pendulums, each at its angle, 0 upright, and its speed, in radians and radians a second:
/// f32 [rows, 1]. They are those of Gymnasium's Pendulum-v1.
struct Pendulums {
  Value angle, speed;

  /// [rows, 3]: cosine and sine of the angle, and the speed.
  Value seen() const;
  /// After a twentieth of a second under a torque [rows, 1] of -2 to 2.
  Pendulums pushed(const Value& torque) const;
  /// [rows, 1]: what that costs, below 0.
  Value reward(const Value& torque) const;
};

struct PendulumOptions {
  std::int64_t batch = 100;  ///< transitions that a step learns from
  double lr = 1e-3;
};

/// A step acts once, in a pendulum of its own that begins anew after 200 steps, keeps what came of
/// it, and learns from a batch of what is kept: critics, the actor by the updated critics, the
/// price of being sure. Haarnoja and others, "Soft actor-critic algorithms and applications", 2018.
Graph learning_pendulum(const PendulumOptions& options);

/// The actor's likeliest actions in `rows` pendulums at once. An evaluation that advances states
/// makes one move of each.
struct PlayingPendulums {
  Graph graph;
  Value reward;  ///< f32[], the mean of all of them
};
PlayingPendulums playing_pendulums(std::int64_t rows);

std::unique_ptr<TrainingTask> make_pendulum(const TaskOptions& options);
DeclaredTask declare_pendulum(const TaskOptions& options);

}  // namespace metronome::models
