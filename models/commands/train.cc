#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <utility>

#include "graph/ir/error.h"
#include "models/commands/beside_eager.h"
#include "models/commands/commands.h"
#include "models/commands/files.h"
#include "models/commands/progress.h"
#include "models/digits_training.h"

namespace metronome::commands {
namespace {

constexpr double kMiB = 1024.0 * 1024.0;

struct Arguments {
  std::string model;
  std::int64_t epochs = 40;
  std::int64_t batch = models::DigitsOptions{}.batch;
  std::uint64_t seed = 0;
  double lr = models::DigitsOptions{}.lr;
  std::string checkpoint = "digits.safetensors";
  std::optional<std::string> resume;
  int threads = 1;
  bool no_save = false;
  bool no_compare = false;
};

void print_plan(const Report& report) {
  fmt::print("plan    {} ({}), {} thread{}, {} parameters, compiled in {:.2f} s\n", report.target,
             report.isa, report.threads, report.threads == 1 ? "" : "s", report.parameter_count,
             report.compile_seconds);
  for (const PlanReport& plan : report.plans) {
    fmt::print(
        "  {}: {} kernels declared, {} planned; arena {:.2f} MiB (lower bound {:.2f}, without "
        "sharing {:.2f})\n",
        name_of(plan), plan.kernels_declared, plan.kernels, plan.arena_bytes / kMiB,
        plan.lower_bound / kMiB, plan.unshared_bytes / kMiB);
  }
}

// A checkpoint goes on with its own seed: the shuffling and the split depend on it.
void resume(Executable& step, const Arguments& arguments) {
  for (const std::string& line : step.load(*arguments.resume)) fmt::print("resume  {}\n", line);
  const auto seed = static_cast<std::uint64_t>(*step.get("seed").data_ptr<std::int64_t>());
  if (seed == arguments.seed) return;
  throw RunError(fmt::format("{}: was trained with the seed {}, not {}: resume with --seed {}",
                             *arguments.resume, seed, arguments.seed, seed));
}

int train_digits(const Arguments& arguments) {
  if (!arguments.no_save) expect_writable(arguments.checkpoint);
  const std::string file = models::digits_file();
  const models::DigitsSplit data = models::split_digits(models::read_digits(file), arguments.seed);
  const auto examples = static_cast<std::int64_t>(data.train.size());
  const models::DigitsShapes shapes = models::digits_shapes(
      examples, arguments.epochs, {.batch = arguments.batch, .lr = arguments.lr});
  const CompileOptions options{
      .modes = {train, evaluate}, .seed = arguments.seed, .threads = arguments.threads};
  fmt::print("data    {} digits to train on, {} to test with\n", data.train.size(),
             data.test.size());

  Executable step = compile(shapes.graphs(), cpu_replay(), options);
  print_plan(step.report());
  models::DigitsTraining training(shapes, data, step, arguments.seed);
  if (arguments.resume) resume(step, arguments);

  if (training.epochs_done() >= arguments.epochs) {
    fmt::print("nothing left to train: {} epochs are done\n", training.epochs_done());
  }
  Progress progress(training.epochs_done(), arguments.epochs, training.steps_per_epoch());
  models::Score score;
  while (training.epochs_done() < arguments.epochs) {
    training.epoch([&](double loss) { progress.after_step(loss); });
    score = training.test();
    progress.after_epoch(score.accuracy());
  }
  progress.finish();
  score = training.test();
  fmt::print("test    {:.2f} % right ({} of {})\n", 100 * score.accuracy(), score.right,
             score.rows);
  if (!arguments.no_save) {
    step.save(arguments.checkpoint);
    fmt::print("saved   {} ({:.2f} MiB)\n", arguments.checkpoint,
               static_cast<double>(std::filesystem::file_size(arguments.checkpoint)) / kMiB);
  }
  if (!arguments.no_compare) {
    compare_with_eager(shapes, data, options, arguments.resume, arguments.epochs);
  }
  return 0;
}

}  // namespace

void add_train(CLI::App& app, Action& chosen) {
  const auto arguments = std::make_shared<Arguments>();
  CLI::App* verb =
      add_verb(app, "train",
               "Trains, tests and saves, then runs the same training beside libtorch's eager one.",
               chosen, [arguments] {
                 if (arguments->model.empty()) throw UsageError("say what to train: digits.");
                 return train_digits(*arguments);
               });
  verb->add_option("model", arguments->model, "digits: a residual tower reads handwritten digits")
      ->check(one_of({"digits"}));
  verb->add_option("--epochs", arguments->epochs, "Passes over the training digits, in all")
      ->check(whole_number(1, 100000))
      ->capture_default_str();
  verb->add_option("--batch", arguments->batch, "Digits of a step")
      ->check(whole_number(2, 100000))
      ->capture_default_str();
  verb->add_option("--seed", arguments->seed, "Of initial values, dropout, shuffling and the split")
      ->check(whole_number(0, 1LL << 62))
      ->capture_default_str();
  verb->add_option("--lr", arguments->lr,
                   "Learning rate of the first step; it falls to 0 along a cosine")
      ->check(positive_number())
      ->capture_default_str();
  verb->add_option("--checkpoint", arguments->checkpoint, "Where to save what was trained")
      ->capture_default_str();
  verb->add_option("--resume", arguments->resume,
                   "Go on from a checkpoint, with its seed, --batch and --epochs");
  verb->add_option("--threads", arguments->threads, "Threads of both sides")
      ->check(whole_number(1, 1024))
      ->capture_default_str();
  verb->add_flag("--no-save", arguments->no_save, "Save no checkpoint");
  verb->add_flag("--no-compare", arguments->no_compare, "Leave out the training beside eager");
}

}  // namespace metronome::commands
