// A model as it is asked for its answer: inference in place of training.
#pragma once

#include "executor/metronome.h"
#include "models/models.h"

namespace metronome::benchmarks {

/// The name of the only output of `answering`.
inline constexpr const char* kAnswer = "answer";

/// A model whose graph has its answer as an output; its inputs are those that the answer needs.
models::Model answering(const models::ModelEntry& entry, models::Size size);

/// The options of an executable that only answers.
CompileOptions answer_options(int threads);

}  // namespace metronome::benchmarks
