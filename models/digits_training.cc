#include "models/digits_training.h"

#include <fmt/format.h>

#include <algorithm>
#include <random>
#include <span>
#include <vector>

#include "graph/ir/error.h"

namespace metronome::models {
namespace {

constexpr int kSide = 8;

// The image moved by some pixels; what comes in from outside is black.
void copy_moved(const Digit& digit, int down, int right, std::span<float, kPixels> out) {
  for (int y = 0; y < kSide; ++y) {
    for (int x = 0; x < kSide; ++x) {
      const int from_y = y - down, from_x = x - right;
      const bool inside = from_y >= 0 && from_y < kSide && from_x >= 0 && from_x < kSide;
      out[y * kSide + x] = inside ? digit.pixels[from_y * kSide + from_x] : 0.0f;
    }
  }
}

}  // namespace

std::vector<const Graph*> DigitsShapes::graphs() const {
  std::vector<const Graph*> graphs;
  for (const DigitsModel& model : models) graphs.push_back(&model.graph);
  return graphs;
}

DigitsShapes digits_shapes(std::int64_t examples, std::int64_t epochs, DigitsOptions options) {
  if (options.batch > examples) {
    throw RunError(
        fmt::format("a batch of {} digits, but there are {} to train on", options.batch, examples));
  }
  const std::int64_t left_over = examples % options.batch;
  DigitsShapes shapes{options.batch, left_over == 1 ? LastBatch::drop : LastBatch::keep, {}};
  options.steps = epochs * BatchOrder(examples, options.batch, 0, shapes.last).batches_per_epoch();
  shapes.models.push_back(digits(options));
  if (left_over > 1) {
    options.batch = left_over;
    shapes.models.push_back(digits(options));
  }
  return shapes;
}

DigitsTraining::DigitsTraining(const DigitsShapes& shapes, const DigitsSplit& data,
                               Executable& step, std::uint64_t seed)
    : shapes_(shapes),
      data_(data),
      step_(step),
      seed_(seed),
      order_(static_cast<std::int64_t>(data.train.size()), shapes.batch, seed, shapes.last) {}

std::int64_t DigitsTraining::epochs_done() const {
  if (step_.replays() % steps_per_epoch() != 0) {
    throw RunError(
        fmt::format("the checkpoint was written after {} steps, which are no whole epochs of {} "
                    "steps: resume with the "
                    "batch that it was trained with",
                    step_.replays(), steps_per_epoch()));
  }
  return step_.replays() / steps_per_epoch();
}

void DigitsTraining::epoch(const std::function<void(double loss)>& after_step) {
  const std::int64_t epoch = epochs_done();
  const std::vector<std::int64_t> order = order_.epoch(epoch);
  // Half of the digits are moved by up to one pixel, so that 1,437 of them teach more than
  // themselves.
  std::seed_seq sequence{seed_ & 0xffffffff, seed_ >> 32, static_cast<std::uint64_t>(epoch)};
  std::mt19937_64 random(sequence);
  for (std::int64_t step = 0; step < steps_per_epoch(); ++step) {
    const std::int64_t rows = order_.size(step);
    pick(rows == shapes_.batch ? 0 : 1);
    for (std::int64_t row = 0; row < rows; ++row) {
      const std::uint64_t draw = random();
      const bool moved = draw % 2 == 0;
      const int down = moved ? static_cast<int>(draw / 2 % 3) - 1 : 0;
      const int right = moved ? static_cast<int>(draw / 6 % 3) - 1 : 0;
      const auto example = static_cast<std::size_t>(order[step * shapes_.batch + row]);
      fill(row, data_.train[example], down, right);
    }
    step_.run();
    after_step(step_.read_scalar(shapes_.models[0].graph.loss()));
  }
}

Score DigitsTraining::test() {
  Score score;
  score.rows = static_cast<std::int64_t>(data_.test.size());
  pick(0);
  const std::int64_t batch = shapes_.batch;
  for (std::int64_t begin = 0; begin < score.rows; begin += batch) {
    const std::int64_t rows = std::min(batch, score.rows - begin);
    for (std::int64_t row = 0; row < batch; ++row) {
      // A last short batch is filled up with its last digit.
      fill(row, data_.test[begin + std::min(row, rows - 1)], 0, 0);
    }
    step_.evaluate();
    const at::Tensor logits = step_.read(shapes_.models[0].logits);
    for (std::int64_t row = 0; row < rows; ++row) {
      const float* first = logits.data_ptr<float>() + row * kClasses;
      const std::int64_t answer = std::max_element(first, first + kClasses) - first;
      score.right += answer == data_.test[begin + row].label;
    }
  }
  return score;
}

void DigitsTraining::pick(std::size_t shape) {
  if (picked_ == shape) return;
  pixels_ = step_.input(shapes_.models[shape].pixels).data_ptr<float>();
  labels_ = step_.input(shapes_.models[shape].labels).data_ptr<std::int64_t>();
  picked_ = shape;
}

void DigitsTraining::fill(std::int64_t row, const Digit& digit, int down, int right) {
  copy_moved(digit, down, right, std::span<float, kPixels>(pixels_ + row * kPixels, kPixels));
  labels_[row] = digit.label;
}

}  // namespace metronome::models
