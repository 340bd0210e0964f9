// Two views of the same things through one tower: each row must find its twin among all rows.
//
//   left  [32, 16] -- tower --.  z / |z|
//                     ^        (left right^T / 0.1) -- cross_entropy_loss with 0, 1, 2, ... both
//                     ways
//   right [32, 16] -- tower --'
//            one set of weights: linear -- gelu -- linear -- gelu -- linear
//
// InfoNCE: van den Oord, Li and Vinyals, "Representation learning with contrastive predictive
// coding", 2018, equation 4, taken both ways.
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/cat.h>

#include <numeric>

#include "models/gallery/gallery.h"

namespace metronome::gallery {

Example twin_towers(Element element) {
  constexpr std::int64_t kRows = 32, kWidth = 16;
  constexpr double kTemperature = 0.1;

  Graph g("twin_towers");
  Value left = g.input("left", element, {kRows, kWidth});
  Value right = g.input("right", element, {kRows, kWidth});
  std::vector<double> numbers(kRows);
  std::iota(numbers.begin(), numbers.end(), 0.0);
  Value twins = g.constant(numbers, {i64, {kRows}});

  Layer tower = shared([](Value h) {
    h = h.repeat(2, [](Value v) { return v.through(linear(32)).through(gelu); }).through(linear(8));
    return h / sqrt(sum_squares(h, -1, true) + 1e-6);
  });
  Value likeness = matmul(left.through(tower), right.through(tower).transpose(0, 1)) / kTemperature;

  g.output("found", accuracy(likeness, twins));
  g.minimize(
      (cross_entropy_loss(likeness, twins) + cross_entropy_loss(likeness.transpose(0, 1), twins)) /
          2.0,
      Adam{.lr = 3e-3});

  const auto batch = [=](std::int64_t step) -> std::vector<Feed> {
    // Both views show the thing, in a third of the columns; the others differ.
    const at::Tensor thing = hash_numbers(kRows, kWidth / 3, step);
    const auto view = [&](double salt) {
      return cast(at::cat({thing, hash_numbers(kRows, kWidth - kWidth / 3, step, salt)}, 1),
                  element);
    };
    return {{"left", view(1)}, {"right", view(2)}};
  };
  return {std::move(g), batch, {"found"}};
}

}  // namespace metronome::gallery
