// A task trains on rows of a text side by side. Each row reads a part of its own from beginning to
// end, 64 bytes a step, and its states go on from step to step:
//
//   text     |..............|..............|..............|    three rows
//   step 0    ####           ####           ####
//   step 1        ####           ####           ####
//
// An epoch moves all beginnings by one number, as if the text were a ring. A test reads the
// held-out text in the same way, by evaluations that advance the states, and gives bits a byte. A
// sample comes from a second graph of one row and one byte: each byte is drawn from the last step's
// logits and fed to the next.
#include <ATen/core/Tensor.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <utility>

#include "graph/ir/error.h"
#include "models/text/text.h"

namespace metronome::models {
namespace {

constexpr std::int64_t kLength = 64, kSampled = 400;
/// The temperature of samples: below 1 likely bytes become likelier.
constexpr double kTemperature = 0.7;

std::int64_t byte_of(std::string_view text, std::int64_t index) {
  return static_cast<unsigned char>(text[static_cast<std::size_t>(index)]);
}

const EvaluateOptions kAdvance = {.states = States::advance};

class TextTask : public TrainingTask {
 public:
  TextTask(TextSplit split, const TaskOptions& options)
      : split_(std::move(split)),
        options_(options),
        steps_per_epoch_((std::ssize(split_.train) / options.batch - 1) / kLength),
        model_(shape(kLength, options.batch_of_rank(), true)),
        single_(shape(1, 1, false)) {
    if (steps_per_epoch_ < 1) {
      throw RunError(fmt::format("a batch of {} rows of {} bytes, but the text has {}",
                                 options.batch, kLength + 1, split_.train.size()));
    }
    if (split_.test.size() < 2) {
      throw RunError(
          fmt::format("{} bytes to test with, but at least 2 are needed: each but the "
                      "first is told from those before it",
                      split_.test.size()));
    }
  }

  std::string parts() const override {
    return fmt::format("{} bytes to train on, {} to test with", split_.train.size(),
                       split_.test.size());
  }
  std::vector<GraphFor> graphs() const override {
    return {{&model_.graph, {train, advance}}, {&single_.graph, {advance}}};
  }
  Value loss() const override { return model_.graph.loss(); }
  std::vector<std::string_view> update_numbers() const override {
    return {"learning_rate", "gradient_norm"};
  }
  std::unique_ptr<Training> training(Executable& step) const override;

  const TextSplit& split() const { return split_; }
  const TextModel& model() const { return model_; }
  const TextModel& single() const { return single_; }
  std::int64_t rows() const { return options_.batch; }  ///< of all ranks
  std::int64_t rows_of_rank() const { return options_.batch_of_rank(); }
  std::int64_t first_row() const { return options_.share.rank * rows_of_rank(); }
  const Share& share() const { return options_.share; }
  std::uint64_t seed() const { return options_.seed; }
  std::int64_t steps_per_epoch() const { return steps_per_epoch_; }

 private:
  TextModel shape(std::int64_t length, std::int64_t rows, bool trains) const {
    return text({.trains = trains,
                 .length = length,
                 .rows = rows,
                 .lr = options_.lr,
                 .steps = options_.epochs * steps_per_epoch_});
  }

  TextSplit split_;
  TaskOptions options_;
  std::int64_t steps_per_epoch_;
  TextModel model_;
  TextModel single_;  ///< of one byte, for samples
};

class TextTraining : public Training {
 public:
  TextTraining(const TextTask& task, Executable& step)
      : Training(step, task.steps_per_epoch()), task_(task) {}

  void epoch(const std::function<void(double loss)>& after_step) override;
  Score test() override;
  std::string sample() override;

 private:
  /// Row r of all ranks' next step takes bytes from `begin(r)` on, and where those end zeros.
  template <class Begin>
  void fill(std::string_view text, const Begin& begin, bool ring);

  const TextTask& task_;
};

template <class Begin>
void TextTraining::fill(std::string_view text, const Begin& begin, bool ring) {
  const std::int64_t rows = task_.rows_of_rank(), size = std::ssize(text);
  auto* bytes = step().input(task_.model().bytes).data_ptr<std::int64_t>();
  auto* next = step().input(task_.model().next).data_ptr<std::int64_t>();
  for (std::int64_t row = 0; row < rows; ++row) {
    const std::int64_t first = begin(task_.first_row() + row);
    const auto at = [&](std::int64_t place) -> std::int64_t {
      if (ring) return byte_of(text, place % size);
      return place < size ? byte_of(text, place) : 0;
    };
    for (std::int64_t t = 0; t < kLength; ++t) {
      bytes[t * rows + row] = at(first + t);
      next[t * rows + row] = at(first + t + 1);
    }
  }
}

void TextTraining::epoch(const std::function<void(double loss)>& after_step) {
  // Rows begin elsewhere in each epoch, as if the text were a ring.
  std::seed_seq sequence{task_.seed() & 0xffffffff, task_.seed() >> 32,
                         static_cast<std::uint64_t>(epochs_done())};
  const std::string& text = task_.split().train;
  const auto turned = static_cast<std::int64_t>(std::mt19937_64(sequence)() % text.size());
  const std::int64_t row_bytes = std::ssize(text) / task_.rows();
  step().reset();
  for (std::int64_t at = 0; at < steps_per_epoch(); ++at) {
    fill(text, [&](std::int64_t row) { return turned + row * row_bytes + at * kLength; }, true);
    step().run();
    after_step(step().read_scalar(task_.loss()));
  }
}

Score TextTraining::test() {
  const std::string& text = task_.split().test;
  // Each byte but the first is told from those before it in its row.
  const std::int64_t rows = task_.rows(), told = std::ssize(text) - 1;
  const std::int64_t row_bytes = (told + rows - 1) / rows;
  double nats = 0;
  step().reset();
  for (std::int64_t at = 0; at < row_bytes; at += kLength) {
    fill(text, [&](std::int64_t row) { return row * row_bytes + at; }, false);
    step().evaluate({}, kAdvance);
    const at::Tensor losses = step().read(task_.model().losses);
    const float* of = losses.data_ptr<float>();
    const std::int64_t own = task_.rows_of_rank();
    for (std::int64_t row = 0; row < own; ++row) {
      const std::int64_t begin = (task_.first_row() + row) * row_bytes;
      const std::int64_t left = std::min(row_bytes, told - begin) - at;
      for (std::int64_t t = 0; t < std::min(left, kLength); ++t) nats += of[t * own + row];
    }
  }
  step().reset();
  const double bits = task_.share().sum(nats) / static_cast<double>(told) / std::log(2.0);
  return {bits, fmt::format("{:.3f} bits a byte", bits),
          fmt::format("{:.3f} bits a byte, of {} bytes that it never saw", bits, told)};
}

std::string TextTraining::sample() {
  const TextModel& model = task_.single();
  std::mt19937_64 random(task_.seed());
  std::string made = "%\n";
  step().reset();
  for (std::int64_t i = 0; std::ssize(made) < kSampled; ++i) {
    step().input(model.bytes).fill_(byte_of(made, i));
    step().evaluate({}, kAdvance);
    if (i + 1 < std::ssize(made)) continue;
    const at::Tensor logits = step().read(model.logits);
    const float* of = logits.data_ptr<float>();
    const float most = *std::max_element(of, of + kBytes);
    std::vector<double> weights;
    for (std::int64_t b = 0; b < kBytes; ++b)
      weights.push_back(std::exp((of[b] - most) / kTemperature));
    // Own arithmetic: the standard's distributions differ between libraries.
    double sum = 0;
    for (const double weight : weights) sum += weight;
    double point = static_cast<double>(random() >> 11) * 0x1p-53 * sum;
    std::size_t chosen = 0;
    while (chosen + 1 < weights.size() && point >= weights[chosen]) point -= weights[chosen++];
    made += static_cast<char>(chosen);
  }
  step().reset();
  return made.substr(2);
}

std::unique_ptr<Training> TextTask::training(Executable& step) const {
  return std::make_unique<TextTraining>(*this, step);
}

}  // namespace

std::unique_ptr<TrainingTask> make_text_of(TextSplit split, const TaskOptions& options) {
  return std::make_unique<TextTask>(std::move(split), options);
}

std::unique_ptr<TrainingTask> make_text(const TaskOptions& options) {
  const std::string folder =
      data_path("METRONOME_TEXT", "the text", "a folder of files of fortunes");
  return make_text_of(split_records(read_records(folder), options.seed), options);
}

DeclaredTask declare_text(const TaskOptions& options) {
  TextModel model = text({.rows = options.batch, .lr = options.lr});
  return {std::move(model.graph), {model.bytes, model.next}};
}

}  // namespace metronome::models
