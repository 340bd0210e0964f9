// A gated recurrent unit over fifty steps of a sequence, from a state of zeros.
//
//   x [128, 50, 256] -- steps x0 ... x49
//           x0        x1              x49
//            |         |               |
//   0 ----- gru ----- gru -- ... ---- gru -- h [128, 512] -- linear -- y ---- mse_loss ---- Adam
//            '------ shared weights ---'                           target
#include "models/models.h"

namespace metronome::models {

Model gru_seq(Size size, Element element) {
  const std::int64_t rows = batch_at(size, 128), hidden = width_at(size, 512);
  const std::int64_t width = width_at(size, 256);
  constexpr std::int64_t kSteps = 50;

  Graph g("gru_seq");
  Value x = g.input("x", element, {rows, kSteps, width});
  Value target = g.input("target", element, {rows, width});

  Recurrent sequence = gru(hidden, {.batch_first = true})(x);
  Value y = sequence.hidden.reshape({rows, hidden}).through(linear(width));

  g.minimize(mse_loss(y, target), Adam{.lr = 1e-3});
  return finish(std::move(g), {x, target}, y);
}

}  // namespace metronome::models
