#include "benchmarks/gpu_check/steps.h"

#include <ATen/core/Tensor.h>
#include <fmt/format.h>

#include <cstring>
#include <utility>

namespace metronome::gpu_check {

std::string different_storage(const Executable& a, const Executable& b) {
  if (a.storages() != b.storages()) return "the storages' paths";
  for (const std::string& path : a.storages()) {
    const at::Tensor x = a.get(path), y = b.get(path);
    if (x.nbytes() != y.nbytes() || std::memcmp(x.data_ptr(), y.data_ptr(), x.nbytes()) != 0) {
      return path;
    }
  }
  return "";
}

std::string different_steps(Executable& a, Executable& b, const models::Model& model, int steps) {
  const benchmarks::Batches batches(model);
  const Value loss = model.graph.loss();
  for (int step = 0; step < steps; ++step) {
    const auto feeds = batches.of_step(static_cast<std::size_t>(step));
    a.run(feeds);
    b.run(feeds);
    const double x = a.read_scalar(loss), y = b.read_scalar(loss);
    if (std::memcmp(&x, &y, sizeof x) != 0) {
      return fmt::format("the loss of step {}: {:.9g} and {:.9g}", step, x, y);
    }
  }
  return different_storage(a, b);
}

models::Model everything_moves() {
  Graph g("everything_moves");
  Value x = g.input("x", f32, {32, 48}), target = g.input("target", f32, {32, 16});
  const auto block = [](Value h) {
    return h.through(linear(64)).through(batch_norm()).through(gelu).through(dropout(0.2));
  };
  Value y = x.repeat(3, block).through(linear(16));
  g.minimize(mse_loss(y, target),
             Adam{.lr = LearningRate(LinearWarmup{1e-2, 20}).then(20, Cosine{1e-2, 80}),
                  .clip_norm = 0.5});
  return models::finish(std::move(g), {x, target}, y);
}

}  // namespace metronome::gpu_check
