#include "models/images/training.h"

#include <ATen/core/Tensor.h>
#include <fmt/format.h>

#include <algorithm>
#include <random>
#include <span>
#include <utility>

#include "graph/ir/error.h"

namespace metronome::models {
namespace {

// The image moved by some pixels; what comes in from outside is black.
void copy_moved(std::span<const float> image, std::int64_t side, int down, int right, float* out) {
  for (std::int64_t y = 0; y < side; ++y) {
    for (std::int64_t x = 0; x < side; ++x) {
      const std::int64_t from_y = y - down, from_x = x - right;
      const bool inside = from_y >= 0 && from_y < side && from_x >= 0 && from_x < side;
      *out++ = inside ? image[static_cast<std::size_t>(from_y * side + from_x)] : 0.0f;
    }
  }
}

class ImageTraining : public Training {
 public:
  ImageTraining(const ImageTask& task, Executable& step)
      : Training(step, task.shapes().steps_per_epoch),
        task_(task),
        shapes_(task.shapes()),
        order_(task.split().train.count(), shapes_.batch, task.seed(), shapes_.last) {}

  void epoch(const std::function<void(double loss)>& after_step) override;
  Score test() override;

 private:
  /// The next step is one of the batch shape of `models[shape]`; `fill` writes there.
  void pick(std::size_t shape);
  void fill(std::int64_t row, const Images& images, std::int64_t index, int down, int right);

  const ImageTask& task_;
  const ImageShapes& shapes_;
  BatchOrder order_;
  std::optional<std::size_t> picked_;
  float* pixels_ = nullptr;         ///< input memory, [batch, side, side]
  std::int64_t* labels_ = nullptr;  ///< input memory, [batch]
};

void ImageTraining::epoch(const std::function<void(double loss)>& after_step) {
  const std::int64_t epoch = epochs_done();
  const std::vector<std::int64_t> order = order_.epoch(epoch);
  // Half of the images are moved by a few pixels, so that they teach more than themselves.
  const int most = task_.kind().most_moved;
  const std::uint64_t moves = 2 * most + 1;
  std::seed_seq sequence{task_.seed() & 0xffffffff, task_.seed() >> 32,
                         static_cast<std::uint64_t>(epoch)};
  std::mt19937_64 random(sequence);
  for (std::int64_t at = 0; at < steps_per_epoch(); ++at) {
    const std::int64_t rows = order_.size(at);
    pick(rows == shapes_.batch ? 0 : 1);
    const std::int64_t own = rows / task_.share().ranks, first = own * task_.share().rank;
    for (std::int64_t row = 0; row < rows; ++row) {
      const std::uint64_t draw = random();
      const bool moved = draw % 2 == 0;
      const int down = moved ? static_cast<int>(draw / 2 % moves) - most : 0;
      const int right = moved ? static_cast<int>(draw / 2 / moves % moves) - most : 0;
      if (row < first || row >= first + own) continue;  // another rank's
      fill(row - first, task_.split().train, order[at * shapes_.batch + row], down, right);
    }
    step().run();
    after_step(step().read_scalar(task_.loss()));
  }
}

Score ImageTraining::test() {
  const Images& images = task_.split().test;
  const Share& share = task_.share();
  const std::int64_t batch = shapes_.batch / share.ranks;
  std::int64_t right = 0;
  pick(0);
  // Ranks take turns, batch by batch.
  for (std::int64_t begin = share.rank * batch; begin < images.count();
       begin += share.ranks * batch) {
    const std::int64_t rows = std::min(batch, images.count() - begin);
    for (std::int64_t row = 0; row < batch; ++row) {
      // A last short batch is filled up with its last image.
      fill(row, images, begin + std::min(row, rows - 1), 0, 0);
    }
    step().evaluate();
    const at::Tensor logits = step().read(shapes_.models[0].logits);
    for (std::int64_t row = 0; row < rows; ++row) {
      const float* first = logits.data_ptr<float>() + row * kClasses;
      const std::int64_t answer = std::max_element(first, first + kClasses) - first;
      right += answer == images.labels[static_cast<std::size_t>(begin + row)];
    }
  }
  const double all = share.sum(static_cast<double>(right));
  const double part = all / static_cast<double>(images.count());
  return {part, fmt::format("accuracy {:5.1f} %", 100 * part),
          fmt::format("{:.2f} % right ({:.0f} of {})", 100 * part, all, images.count())};
}

void ImageTraining::pick(std::size_t shape) {
  if (picked_ == shape) return;
  pixels_ = step().input(shapes_.models[shape].pixels).data_ptr<float>();
  labels_ = step().input(shapes_.models[shape].labels).data_ptr<std::int64_t>();
  picked_ = shape;
}

void ImageTraining::fill(std::int64_t row, const Images& images, std::int64_t index, int down,
                         int right) {
  copy_moved(images.image(index), images.side, down, right,
             pixels_ + row * images.side * images.side);
  labels_[row] = images.labels[static_cast<std::size_t>(index)];
}

std::unique_ptr<TrainingTask> make(const ImageKind& kind, const TaskOptions& options) {
  const Images images =
      read_images(kind.data, data_path(kind.data.variable, "the digits", "their CSV file"));
  return std::make_unique<ImageTask>(kind, split_images(images, options.seed), options);
}

DeclaredTask declare(const ImageKind& kind, const TaskOptions& options) {
  ImageModel model = kind.model({.batch = options.batch, .lr = options.lr});
  return {std::move(model.graph), {model.pixels, model.labels}};
}

}  // namespace

ImageShapes image_shapes(const ImageKind& kind, std::int64_t examples, const TaskOptions& options) {
  if (options.batch > examples) {
    throw RunError(
        fmt::format("a batch of {} digits, but there are {} to train on", options.batch, examples));
  }
  const std::int64_t left_over = examples % options.batch, own = options.batch_of_rank();
  const bool keeps = left_over > 1 && !options.share.whole_batches;
  ImageShapes shapes{
      options.batch, keeps || left_over == 0 ? LastBatch::keep : LastBatch::drop, 0, {}};
  shapes.steps_per_epoch = BatchOrder(examples, options.batch, 0, shapes.last).batches_per_epoch();
  const std::int64_t steps = options.epochs * shapes.steps_per_epoch;
  shapes.models.push_back(kind.model({own, options.lr, steps}));
  if (keeps) shapes.models.push_back(kind.model({left_over, options.lr, steps}));
  return shapes;
}

ImageTask::ImageTask(const ImageKind& kind, Split split, const TaskOptions& options)
    : kind_(kind),
      split_(std::move(split)),
      options_(options),
      shapes_(image_shapes(kind, split_.train.count(), options)) {}

std::string ImageTask::parts() const {
  const std::int64_t left_out = split_.train.count() % shapes_.batch;
  const std::string note =
      !options_.share.whole_batches || left_out == 0
          ? ""
          : fmt::format("; each epoch leaves out {}, which are no whole batch of {}", left_out,
                        shapes_.batch);
  return fmt::format("{} digits to train on, {} to test with{}", split_.train.count(),
                     split_.test.count(), note);
}

std::vector<GraphFor> ImageTask::graphs() const {
  std::vector<GraphFor> graphs;
  for (const ImageModel& model : shapes_.models) graphs.push_back({&model.graph});
  return graphs;
}

std::unique_ptr<Training> ImageTask::training(Executable& step) const {
  return std::make_unique<ImageTraining>(*this, step);
}

std::unique_ptr<TrainingTask> make_digits(const TaskOptions& options) {
  return make(kDigits, options);
}
DeclaredTask declare_digits(const TaskOptions& options) { return declare(kDigits, options); }
std::unique_ptr<TrainingTask> make_mnist(const TaskOptions& options) {
  return make(kMnist, options);
}
DeclaredTask declare_mnist(const TaskOptions& options) { return declare(kMnist, options); }

}  // namespace metronome::models
