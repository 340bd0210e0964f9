// A model of bytes: what comes next in a text.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "models/tasks/task.h"
#include "models/text/data.h"

namespace metronome::models {

constexpr std::int64_t kBytes = 256;

struct TextOptions {
  bool trains = true;        ///< else it has no loss, and is not told what follows
  std::int64_t length = 64;  ///< bytes of a step, in each row
  std::int64_t rows = 32;
  double lr = 3e-3;           ///< at the first step
  std::int64_t steps = 5000;  ///< over which the learning rate falls to zero, along half a cosine
};

/// Its states, "hidden" and "cell", f32 [1, rows, width], hold where the text of earlier steps has
/// led to.
struct TextModel {
  Graph graph;
  Value bytes;   ///< i64 [length, rows], from 0 to 255
  Value logits;  ///< f32 [length, rows, 256]
  Value next;    ///< i64 [length, rows]: the byte that follows each; where it trains
  Value losses;  ///< f32 [length, rows]: nats of each `next`; where it trains
};

TextModel text(const TextOptions& options);

std::unique_ptr<TrainingTask> make_text(const TaskOptions& options);
DeclaredTask declare_text(const TaskOptions& options);

/// The task over a text of one's own.
std::unique_ptr<TrainingTask> make_text_of(TextSplit split, const TaskOptions& options);

}  // namespace metronome::models
