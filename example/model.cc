//   x [64, 4] -- linear 32 --.
//   .------------------------'
//   |  h --+-- linear 32 -- gelu --(+)-- h --.
//   |      '-----------------------'         |  three times, each with its own weights
//   '----------------------------------------'
//   h -- linear 4 -- soft_cap 5 -- cross_entropy_loss(target) ---- Adam
#include "model.h"

#include <random>

#include "soft_cap.h"

namespace example {

Model make_model() {
  mt::Graph g("quadrants");
  const mt::Value x = g.input("x", mt::f32, {kRows, kWidth});
  const mt::Value target = g.input("target", mt::i64, {kRows});

  const mt::Layer block = [](mt::Value h) { return h.through(mt::linear(32)).through(mt::gelu); };
  const mt::Value h = x.through(mt::linear(32)).repeat(3, mt::residual(block));
  const mt::Value logits = soft_cap(h.through(mt::linear(kClasses)), 5);

  const mt::Value accuracy = mt::accuracy(logits, target);
  g.output("accuracy", accuracy);
  g.minimize(mt::cross_entropy_loss(logits, target), mt::Adam{.lr = 3e-3});
  return {std::move(g), x, target, accuracy};
}

Batch batch_of(std::int64_t step) {
  std::mt19937_64 random(static_cast<std::uint64_t>(step));
  std::normal_distribution<float> normal;
  Batch batch;
  for (std::int64_t row = 0; row < kRows; ++row) {
    float x[kWidth];
    for (float& number : x) batch.x.push_back(number = normal(random));
    batch.target.push_back((x[0] * x[1] > 0 ? 2 : 0) + (x[2] * x[3] > 0 ? 1 : 0));
  }
  return batch;
}

}  // namespace example
