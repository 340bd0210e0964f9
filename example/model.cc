//   x [64, 4] -- linear 32 --.
//   .------------------------'
//   |  h --+-- linear 32 -- gelu --(+)-- h --.
//   |      '-----------------------'         |  three times, each with its own weights
//   '----------------------------------------'
//   h -- linear 4 -- soft_cap 5 -- cross_entropy_loss(target) ---- Adam
#include "model.h"

#include <ATen/Functions.h>

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
  at::manual_seed(static_cast<std::uint64_t>(step));
  const at::Tensor x = at::randn({kRows, kWidth});
  const auto sign_of = [&](std::int64_t a, std::int64_t b) {
    return x.select(1, a).mul(x.select(1, b)).gt(0).to(at::kLong);
  };
  return {x, sign_of(0, 1).mul(2).add(sign_of(2, 3))};
}

}  // namespace example
