// Eight short compositions, each with the numbers that it learns from. `bazel run
// //models:train_gallery` trains them. Two whole programs lie beside them: segmentation.h and
// routed_language.h.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "executor/metronome.h"

namespace metronome::gallery {

struct Example {
  Graph graph;
  /// Returns the feeds of training step `step`, counted from 0.
  std::function<std::vector<Feed>(std::int64_t step)> batch;
  /// Scalar outputs worth watching beside the loss.
  std::vector<std::string> watched = {};
};

/// A U of convolutions whose levels are joined to what comes back up: removes noise from waves.
Example u_net(Element element = f32);

/// Experts of which each row meets the two that the router weighs most: a function that is another
/// in each of four regions. Watched: "dropped", "balance".
Example mixture(Element element = f32);

/// A loop that learns when to halt: a map applied several times. `ponder_cost` weighs how long it
/// thinks against how well it answers. Watched: "iterations", "ponder".
Example halting(Element element = f32, double ponder_cost = 0.01);

/// A gated recurrent cell that lives on from step to step: repeats what it heard two numbers ago.
Example recurrent(Element element = f32);

/// Two views of each thing through one tower, that find each other among all others. Watched:
/// "found", the share of rows that do.
Example twin_towers(Element element = f32);

/// A generator and a discriminator against each other: points on a ring. Watched: "loss/generator",
/// and "off", how far the points lie from the ring.
Example adversaries(Element element = f32);

/// Two critics, and an actor that learns in every second step: TD3 on given transitions of a cart
/// (learners.h). Watched: "loss/actor".
Example delayed_actor(Element element = f32);

/// Critics, an actor that draws its actions, and the price of being random: SAC on the same
/// transitions. Watched: "loss/actor", "entropy".
Example soft_actor(Element element = f32);

/// Numbers in (-1, 1) that look random and are the same on every run, [rows, width] in f64; others
/// for each step and salt.
at::Tensor hash_numbers(std::int64_t rows, std::int64_t width, std::int64_t step, double salt = 0);
at::Tensor cast(const at::Tensor& numbers, Element element);

struct Entry {
  std::string_view name;
  Example (*make)(Element element);
};
std::span<const Entry> all();

}  // namespace metronome::gallery
