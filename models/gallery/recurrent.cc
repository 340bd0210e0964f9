// A gated recurrent cell that lives on from one training step to the next; gradients flow through
// the four inputs of a step and stop at its beginning.
//
//         .------ state: what the last step left -------------------------------------.
//         v                                                                           |
//   h [16, 24] --+--- cell ---+--- cell ---+--- cell ---+--- cell --- feed back ------'
//                |     ^      |     ^      |     ^      |     ^
//                |     x0     |     x1     |     x2     |     x3       x [4, 16, 1]
//                      |            |            |            |
//                      y0           y1           y2           y3 ---- mse_loss with x two before
//
// The cell is the GRU of Cho et al., "Learning phrase representations using RNN encoder-decoder",
// 2014, with one set of weights.
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/cat.h>

#include "models/gallery/gallery.h"

namespace metronome::gallery {

Example recurrent(Element element) {
  constexpr std::int64_t kLength = 4, kRows = 16, kWidth = 24;

  Graph g("recurrent");
  Value x = g.input("x", element, {kLength, kRows, 1});
  Value heard = g.input("heard", element, {kLength, kRows, 1});

  auto cell = [=](Value h, Value in) {
    const Value both = concat({h, in}, -1);
    const Value keep = both.through(linear(kWidth)).through(sigmoid);
    const Value reset = both.through(linear(kWidth)).through(sigmoid);
    const Value fresh = concat({h * reset, in}, -1).through(linear(kWidth)).through(tanh);
    return keep * h + (1.0 - keep) * fresh;
  };
  Value h = g.state("h", {element, {kRows, kWidth}});
  Values ys = g.unroll(kLength, h, [=](Value state, int step) -> Unrolled {
    const Value in = x.slice(0, step, step + 1).reshape({kRows, 1});
    const Value next = cell(state, in);
    return {next, next.through(linear(1))};
  });

  g.minimize(mse_loss(stack(ys, 0), heard), Adam{.lr = 1e-2, .clip_norm = 1.0});

  const auto batch = [=](std::int64_t step) -> std::vector<Feed> {
    // Step by step the same endless sequence goes on; row t of [kLength, kRows] is said at time t.
    const at::Tensor said = hash_numbers(kLength, kRows, step);
    const at::Tensor before = hash_numbers(kLength, kRows, step - 1);
    const at::Tensor heard = at::cat({before.slice(0, kLength - 2), said.slice(0, 0, kLength - 2)});
    return {{"x", cast(said.unsqueeze(-1), element)},
            {"heard", cast(heard.unsqueeze(-1), element)}};
  };
  return {std::move(g), batch};
}

}  // namespace metronome::gallery
