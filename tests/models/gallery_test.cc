// The examples of the gallery learn, and compute what eager computes.
#include "models/gallery/gallery.h"

#include <algorithm>
#include <string>
#include <vector>

#include "models/gallery/learners.h"
#include "tests/aten.h"
#include "tests/doctest.h"
#include "tests/executor/options.h"

namespace metronome::gallery_test {
namespace {

using gallery::Example;
using tests::plain_options;

double mean_loss(const Example& example, Executable& step, std::int64_t begin, std::int64_t end) {
  double sum = 0;
  for (std::int64_t i = begin; i < end; ++i) {
    step.run(example.batch(i));
    sum += step.read_scalar(example.graph.loss());
  }
  return sum / static_cast<double>(end - begin);
}

TEST_CASE("a hundred steps of each example are stepwise's bit for bit, and eager's within 1e-9") {
  for (const gallery::Entry& entry : gallery::all()) {
    CAPTURE(entry.name);
    const Example example = entry.make(f64);
    Executable replay = compile(example.graph, cpu_replay(), plain_options());
    Executable walk = compile(example.graph, stepwise(), plain_options());
    Executable oracle = compile(example.graph, eager(), plain_options());
    for (std::int64_t i = 0; i < 100; ++i) {
      for (Executable* e : {&replay, &walk, &oracle}) e->run(example.batch(i));
      CHECK(replay.read_scalar(example.graph.loss()) ==
            doctest::Approx(oracle.read_scalar(example.graph.loss())).epsilon(1e-9));
      for (const std::string& name : example.watched) {
        CAPTURE(name);
        CHECK(at::allclose(replay.read(name), oracle.read(name), 1e-9, 1e-12));
      }
    }
    for (const std::string& path : replay.storages()) {
      CAPTURE(path);
      CHECK(at::equal(replay.get(path), walk.get(path)));
      if (path.starts_with("optimizer/")) continue;
      CHECK((replay.get(path) - oracle.get(path)).abs().max().item<double>() <= 1e-9);
    }
  }
}

TEST_CASE("each example learns: its loss falls") {
  struct Learns {
    std::string name;
    std::int64_t steps;
    double share;  // of the first loss, that is left at most
  };
  // Measured: 0.03, 0.13, 0.14, 0.001 and 0.09.
  for (const Learns& learns :
       {Learns{"u_net", 300, 0.05}, Learns{"mixture", 400, 0.3}, Learns{"halting", 400, 0.3},
        Learns{"recurrent", 500, 0.01}, Learns{"twin_towers", 400, 0.2}}) {
    CAPTURE(learns.name);
    const auto entry = std::ranges::find(gallery::all(), learns.name, &gallery::Entry::name);
    const Example example = entry->make(f32);
    Executable step = compile(example.graph, cpu_replay(), plain_options());
    const double first = mean_loss(example, step, 0, 5);
    mean_loss(example, step, 5, learns.steps - 20);
    const double last = mean_loss(example, step, learns.steps - 20, learns.steps);
    MESSAGE(learns.name << ": loss " << first << ", then " << last);
    CHECK(last < learns.share * first);
  }
}

TEST_CASE("the generator learns to put its points on the ring") {
  const Example example = gallery::adversaries(f32);
  Executable step = compile(example.graph, cpu_replay(), plain_options());
  const auto off = [&](std::int64_t begin, std::int64_t end) {
    double sum = 0;
    for (std::int64_t i = begin; i < end; ++i) {
      step.run(example.batch(i));
      sum += step.read("off").item<double>();
    }
    return sum / static_cast<double>(end - begin);
  };
  const double first = off(0, 5);
  off(5, 1480);
  const double last = off(1480, 1500);
  MESSAGE("off the ring by " << first << ", then " << last);
  CHECK(last < 0.35 * first);
}

/// The loss of an actor of the gallery in forty pushes, beside that of one that never pushes.
double loss_of_actor(const Executable& step) {
  // Its layers, in the order in which they are made.
  std::vector<std::string> layers;
  for (const std::string& path : step.storages()) {
    if (!path.starts_with("actor/") || !path.ends_with("/weight")) continue;
    layers.push_back(path.substr(0, path.rfind('/')));
  }
  REQUIRE(layers.size() == 3);
  const auto layer = [&](std::size_t k, const at::Tensor& x) {
    return at::linear(x, step.get(layers[k] + "/weight"), step.get(layers[k] + "/bias"));
  };
  const auto act = [&](const at::Tensor& state) {
    const at::Tensor h = layer(1, layer(0, state).clamp_min(0)).clamp_min(0);
    return at::tanh(layer(2, h).slice(1, 0, 1));
  };
  at::Tensor pushed = gallery::transitions(64, 9999).state.to(at::kFloat), left = pushed;
  double loss = 0, idle = 0;
  for (int t = 0; t < 40; ++t) {
    const at::Tensor action = act(pushed), none = at::zeros_like(action);
    loss -= gallery::reward_of(pushed, action).mean().item<double>();
    idle -= gallery::reward_of(left, none).mean().item<double>();
    pushed = gallery::pushed(pushed, action);
    left = gallery::pushed(left, none);
  }
  return loss / idle;
}

TEST_CASE("actors learn to push the cart to the middle") {
  for (const std::string name : {"delayed_actor", "soft_actor"}) {
    CAPTURE(name);
    const auto entry = std::ranges::find(gallery::all(), name, &gallery::Entry::name);
    const Example example = entry->make(f32);
    Executable step = compile(example.graph, cpu_replay(), plain_options());
    const double before = loss_of_actor(step);
    for (std::int64_t i = 0; i < 1500; ++i) step.run(example.batch(i));
    const double after = loss_of_actor(step);
    MESSAGE(name << ": " << before << " of what an idle cart loses, then " << after);
    CHECK(after < 0.1);
  }
}

TEST_CASE("the loop learns to halt: sooner where thinking costs more") {
  struct Thought {
    double iterations = 0, ponder = 0;
  };
  const auto train = [](double cost) {
    const Example example = gallery::halting(f32, cost);
    Executable step = compile(example.graph, cpu_replay(), plain_options());
    step.run(example.batch(0));
    CHECK(step.read("iterations").item<double>() == 8);  // untrained, it thinks as long as it may
    mean_loss(example, step, 1, 600);
    Thought thought;
    for (std::int64_t i = 600; i < 620; ++i) {
      step.run(example.batch(i));
      thought.iterations += step.read("iterations").item<double>();
      thought.ponder += step.read("ponder").item<double>();
    }
    thought.iterations /= 20;
    thought.ponder /= 20;
    MESSAGE("cost " << cost << ": " << thought.iterations << " iterations, ponder "
                    << thought.ponder);
    return thought;
  };
  const Thought free = train(0), cheap = train(1e-2), dear = train(1);
  CHECK(free.iterations > dear.iterations + 1);
  CHECK(cheap.iterations > dear.iterations);
  CHECK(free.ponder > cheap.ponder);
  CHECK(cheap.ponder > dear.ponder);
  CHECK(dear.iterations <= 2);
}

}  // namespace
}  // namespace metronome::gallery_test
