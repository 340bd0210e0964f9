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
  std::int64_t length = 64;  ///< bytes of a step, in each row
  std::int64_t rows = 32;
  double lr = 3e-3;           ///< at the first step
  std::int64_t steps = 5000;  ///< over which the learning rate falls to zero, along half a cosine
};

struct TextModel {
  Graph graph;
  Value bytes;                   ///< i64 [length, rows], from 0 to 255
  Value next;                    ///< i64 [length, rows]: the byte that follows each
  Value hidden, cell;            ///< f32 [1, rows, width]: where the text before has led to
  Value logits;                  ///< f32 [length, rows, 256]
  Value losses;                  ///< f32 [length, rows]: nats of each `next`
  Value last_hidden, last_cell;  ///< after the last byte, as `hidden` and `cell`
};

TextModel text(const TextOptions& options);

std::unique_ptr<Task> make_text(const TaskOptions& options);
Declared declare_text(const TaskOptions& options);

/// The task over a text of one's own.
std::unique_ptr<Task> make_text_of(TextSplit split, const TaskOptions& options);

}  // namespace metronome::models
