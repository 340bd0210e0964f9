#include <fmt/format.h>

#include <cstdlib>
#include <memory>
#include <string_view>

#include "models/images/training.h"
#include "tests/doctest.h"
#include "tests/models/task_run.h"

namespace metronome::images_test {
namespace {

constexpr std::uint64_t kSeed = 11;

struct Run : tests::TaskRun {
  explicit Run(int epochs, Target target = cpu_replay(), bool poison = false,
               std::string_view name = "digits", std::int64_t batch = 64)
      : TaskRun(models::find_task(name)->make(
                    {.epochs = epochs, .batch = batch, .lr = 2e-3, .seed = kSeed}),
                target,
                {.modes = {train, evaluate}, .seed = kSeed, .threads = 1, .poison = poison}) {}
};

TEST_CASE("a residual tower learns to read digits") {
  Run run(20);
  const double before = run.training->test().value;
  run.train_to(20);
  const models::Score score = run.training->test();
  CHECK(before < 0.3);
  CHECK(score.words ==
        fmt::format("{:.2f} % right ({:.0f} of 360)", 100 * score.value, 360 * score.value));
  CHECK(score.value >= 0.97);
}

TEST_CASE("a convolutional network learns to read MNIST's digits, resumed from a checkpoint, too") {
  const std::string file = fmt::format("{}/mnist.safetensors", std::getenv("TEST_TMPDIR"));
  Run run(3, cpu_replay(), false, "mnist");
  run.train_to(1);
  run.step.save(file);
  run.train_to(3);
  CHECK(run.training->test().value >= 0.95);
  Run resumed(3, cpu_replay(), false, "mnist");
  CHECK(resumed.step.load(file).empty());
  resumed.train_to(3);
  CHECK(difference(run, resumed) == "");
}

TEST_CASE("testing changes nothing that training sees") {
  Run tested(2), untested(2);
  tested.train_to(1);
  tested.training->test();
  tested.train_to(2);
  untested.train_to(2);
  CHECK(difference(tested, untested) == "");
}

TEST_CASE("a run resumed from a checkpoint is the uninterrupted one, bit for bit") {
  const std::string file = fmt::format("{}/digits.safetensors", std::getenv("TEST_TMPDIR"));
  Run whole(3), first(3), second(3);
  whole.train_to(3);
  first.train_to(1);
  first.step.save(file);
  CHECK(second.step.load(file).empty());
  CHECK(second.training->epochs_done() == 1);
  second.train_to(3);
  CHECK(difference(whole, second) == "");
}

TEST_CASE("with batch norm and dropout a replay is its kernels one by one, bit for bit") {
  Run replayed(1), one_by_one(1, stepwise());
  replayed.train_to(1);
  one_by_one.train_to(1);
  CHECK(difference(replayed, one_by_one) == "");
  CHECK(replayed.training->test().words == one_by_one.training->test().words);
}

TEST_CASE("two digits runs of one seed are equal in every bit, poisoned or not") {
  Run first(1), second(1), poisoned(1, cpu_replay(), true);
  first.train_to(1);
  second.train_to(1);
  poisoned.train_to(1);
  CHECK(difference(first, second) == "");
  CHECK(difference(first, poisoned) == "");
}

TEST_CASE("eager trains the digits from the same storage to the same accuracy") {
  Run planned(5), by_eager(5, eager());
  planned.train_to(1);
  by_eager.train_to(1);
  CHECK(by_eager.loss == doctest::Approx(planned.loss).epsilon(0.02));
  planned.train_to(5);
  by_eager.train_to(5);
  CHECK(by_eager.training->test().value > 0.9);
}

TEST_CASE("an epoch trains on every digit: the last batch is short, and a plan of its own") {
  Run run(1);
  CHECK(run.training->steps_per_epoch() == 23);
  const Report& report = run.step.report();
  CHECK(report.plan(train, 0).batch == "pixels [64, 64], labels [64]");
  CHECK(report.plan(train, 1).batch == "pixels [29, 64], labels [29]");
  run.train_to(1);
  CHECK(run.step.updates() == 23);
  CHECK(run.step.read("logits").sizes() == at::IntArrayRef({29, 10}));
}

TEST_CASE("a single digit left over is dropped, as batch norm needs two") {
  const auto shapes_of = [](std::int64_t examples) {
    return models::image_shapes(models::kDigits, examples, {.batch = 64});
  };
  CHECK(shapes_of(129).models.size() == 1);
  CHECK(shapes_of(130).models.size() == 2);
  CHECK(shapes_of(128).models.size() == 1);
}

TEST_CASE("a batch larger than the data, or not the checkpoint's, is refused") {
  CHECK_THROWS_WITH_AS(models::image_shapes(models::kDigits, 1437, {.batch = 1500}),
                       "a batch of 1500 digits, but there are 1437 to train on", RunError);

  const std::string file = fmt::format("{}/other.safetensors", std::getenv("TEST_TMPDIR"));
  Run trained(1);
  trained.train_to(1);
  trained.step.save(file);
  Run other(1, cpu_replay(), false, "digits", 32);
  other.step.load(file);
  CHECK_THROWS_WITH_AS(other.training->epochs_done(),
                       "the checkpoint was written after 23 steps, which are no whole epochs of 45 "
                       "steps: resume with the batch that it was trained with",
                       RunError);
}

}  // namespace
}  // namespace metronome::images_test
