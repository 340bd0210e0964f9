// Two layers of long short-term memory over fifty steps of a sequence, from states of zeros.
//
//   x [128, 50, 256] -- steps x0 ... x49
//            x0         x1               x49
//             |          |                |
//   0, 0 -- lstm ----- lstm -- ... ---- lstm
//             |          |                |
//   0, 0 -- lstm ----- lstm -- ... ---- lstm -- h [128, 512] -- linear -- y ---- mse_loss ---- Adam
//             '- shared weights a layer --'                           target
#include "models/models.h"

namespace metronome::models {

Model lstm_seq(Size size, Element element) {
  const std::int64_t rows = batch_at(size, 128), hidden = width_at(size, 512);
  const std::int64_t width = width_at(size, 256);
  constexpr std::int64_t kSteps = 50, kLayers = 2;

  Graph g("lstm_seq");
  Value x = g.input("x", element, {rows, kSteps, width});
  Value target = g.input("target", element, {rows, width});

  Recurrent sequence = lstm(hidden, {.layers = kLayers, .batch_first = true})(x);
  Value last = sequence.hidden.slice(0, kLayers - 1, kLayers).reshape({rows, hidden});
  Value y = last.through(linear(width));

  g.minimize(mse_loss(y, target), Adam{.lr = 1e-3});
  return finish(std::move(g), {x, target}, y);
}

}  // namespace metronome::models
