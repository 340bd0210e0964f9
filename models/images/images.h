// Models that read handwritten digits.
#pragma once

#include <cstdint>
#include <memory>

#include "executor/metronome.h"
#include "models/images/data.h"
#include "models/tasks/task.h"

namespace metronome::models {

struct ImageOptions {
  std::int64_t batch = 64;
  double lr = 2e-3;          ///< at the first step
  std::int64_t steps = 920;  ///< over which the learning rate falls to zero, along half a cosine
};

struct ImageModel {
  Graph graph;
  Value pixels;  ///< f32: [batch, 64] of digits, [batch, 1, 28, 28] of mnist
  Value labels;  ///< i64 [batch]
  Value logits;  ///< f32 [batch, 10], read after a step
};

/// A residual tower for `kDigitsData`.
ImageModel digits(const ImageOptions& options);
/// A convolutional network for `kMnistData`.
ImageModel mnist(const ImageOptions& options);

/// Images, and what reads them.
struct ImageKind {
  DataSet data;
  ImageModel (*model)(const ImageOptions&);
  int most_moved;  ///< pixels, in each direction, that half of the training images are moved by
};

inline constexpr ImageKind kDigits{.data = kDigitsData, .model = digits, .most_moved = 1};
inline constexpr ImageKind kMnist{.data = kMnistData, .model = mnist, .most_moved = 2};

std::unique_ptr<TrainingTask> make_digits(const TaskOptions& options);
DeclaredTask declare_digits(const TaskOptions& options);
std::unique_ptr<TrainingTask> make_mnist(const TaskOptions& options);
DeclaredTask declare_mnist(const TaskOptions& options);

}  // namespace metronome::models
