// Trains on images: fills batches in place, replays, counts right answers.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "executor/run/batches.h"
#include "models/images/images.h"
#include "models/tasks/task.h"

namespace metronome::models {

/// The model for each size of batch that an epoch has.
struct ImageShapes {
  std::int64_t batch = 0;  ///< of all ranks
  LastBatch last = LastBatch::keep;
  std::int64_t steps_per_epoch = 0;
  std::vector<ImageModel> models;  ///< for full batches, then for a short last one
};

/// Models for epochs over `examples` images, each of which every epoch trains on once; but a single
/// image left over is dropped, as batch norm needs two, and so is what is left over where several
/// ranks share a batch. Throws RunError where a batch has more rows than there are images, or ranks
/// cannot share it.
ImageShapes image_shapes(const ImageKind& kind, std::int64_t examples, const TaskOptions& options);

/// Reads images, and trains a model of their kind on four fifths of them.
class ImageTask : public TrainingTask {
 public:
  /// `kind` must live as long.
  ImageTask(const ImageKind& kind, Split split, const TaskOptions& options);

  std::string parts() const override;
  std::vector<GraphFor> graphs() const override;
  Value loss() const override { return shapes_.models[0].graph.loss(); }
  std::unique_ptr<Training> training(Executable& step) const override;

  const ImageKind& kind() const { return kind_; }
  const Split& split() const { return split_; }
  const ImageShapes& shapes() const { return shapes_; }
  std::uint64_t seed() const { return options_.seed; }
  const Share& share() const { return options_.share; }

 private:
  const ImageKind& kind_;
  Split split_;
  TaskOptions options_;
  ImageShapes shapes_;
};

}  // namespace metronome::models
