// `./metronome train` takes these steps; under `--ranks` each process takes them, and rank 0 alone
// writes files:
//
//   ranks     are launched or joined; files that will be written are tried at once
//   compile   the task's graphs, for training and evaluation; `--resume` loads a checkpoint
//   train     epoch by epoch: all steps, then a test of the data held out. `Progress`, `RunPoints`
//             and `TracedSteps` see each step
//   end       a last test, a sample of what the model makes, the checkpoint, the trace
//   compare   one rank alone trains again beside libtorch's eager mode, unless it is told not to
#include <ATen/core/Tensor.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "graph/ir/error.h"
#include "models/commands/arguments.h"
#include "models/commands/beside_eager.h"
#include "models/commands/commands.h"
#include "models/commands/device.h"
#include "models/commands/files.h"
#include "models/commands/progress.h"
#include "models/commands/ranks.h"
#include "models/tasks/task.h"

namespace metronome::commands {
namespace {

constexpr double kMiB = 1024.0 * 1024.0;

struct Arguments {
  std::string model;
  std::string device = "cpu";
  // Absent: the task's own.
  std::optional<std::int64_t> epochs;
  std::optional<std::int64_t> batch;
  std::optional<double> lr;
  std::optional<int> threads;
  std::optional<int> ranks;
  std::optional<std::string> checkpoint;
  std::uint64_t seed = 0;
  std::optional<std::string> resume;
  std::optional<std::string> trace;
  std::optional<std::string> log;
  std::optional<std::string> watch;
  bool no_save = false;
  bool no_compare = false;
};

void print_plan(const Report& report) {
  const std::string threads =
      fmt::format("{} thread{}", report.threads, report.threads == 1 ? "" : "s");
  const std::string place = report.device.empty() ? fmt::format("({}), {}", report.isa, threads)
                                                  : fmt::format("({})", report.device);
  fmt::print("plan    {} {}, {} parameters, compiled in {:.2f} s\n", report.target, place,
             report.parameter_count, report.compile_seconds);
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

// Made by a model, so any bytes: lines of what can be printed.
std::string indent_printable(const std::string& text) {
  std::string lines = "  ";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '\n') {
      lines += "\n  ";
    } else {
      lines += byte >= ' ' && byte <= '~' ? c : '?';
    }
  }
  return lines;
}

// The most memory that this process has held, in MiB.
double peak_memory() {
  rusage used{};
  static_cast<void>(getrusage(RUSAGE_SELF, &used));
  return static_cast<double>(used.ru_maxrss) / 1024;
}

// Points of a training, in a log and on a page: of each step its loss and the numbers of its
// update, of each epoch its score, its speed and the memory, at its last step. A log that fails
// says so and ends; the training goes on.
class RunPoints {
 public:
  RunPoints(const Executable& step, std::vector<std::string_view> numbers)
      : step_(step), numbers_(std::move(numbers)) {}

  void begin_log(const std::string& folder, bool resumed) {
    log_.emplace(folder, MonitorOptions{.first_step = resumed ? step_.replays() + 1 : 0});
  }
  void begin_page(const Endpoint& at, std::string_view title, std::int64_t steps) {
    page_.emplace(
        "",
        MonitorOptions{
            .port = at.port, .address = at.address, .title = std::string(title), .steps = steps});
    fmt::print("watch   {}\n", page_->page());
    std::fflush(stdout);
  }
  // Runs the training; its page tells how it ended.
  template <class Body>
  void around(const Body& body) {
    try {
      body();
    } catch (const std::exception& error) {
      note(error.what());
      throw;
    }
    page_.reset();
  }
  void after_step(double loss) {
    add([&](Monitor& monitor) {
      const std::int64_t at = step_.replays();
      monitor.scalar("loss", at, loss);
      for (const std::string_view name : numbers_) {
        monitor.scalar(name, at, *step_.read(name).data_ptr<double>());
      }
    });
  }
  void after_epoch(double score) {
    const auto now = std::chrono::steady_clock::now();
    const double seconds = std::chrono::duration<double>(now - since_).count();
    const std::int64_t at = step_.replays();
    add([&](Monitor& monitor) {
      monitor.scalar("test", at, score);
      monitor.scalar("steps_per_second", at, static_cast<double>(at - from_) / seconds);
      monitor.scalar("peak_memory_mib", at, peak_memory());
      monitor.flush();
    });
    if (page_ && !has_fault_) {
      const std::optional<std::string> fault = step_.fault();
      has_fault_ = fault.has_value();
      if (has_fault_) note(*fault);
    }
    since_ = now;
    from_ = at;
  }

 private:
  template <class Add>
  void add(const Add& points) {
    if (page_) points(*page_);
    if (!log_) return;
    try {
      points(*log_);
    } catch (const RunError& error) {
      const std::string said =
          fmt::format("the log ends before step {}: {}", step_.replays(), error.what());
      fmt::print(stderr, "\nmetronome: {}\n", said);
      note(said);
      log_.reset();
    }
  }
  void note(std::string_view text) {
    if (page_) page_->note(text);
  }

  const Executable& step_;
  std::vector<std::string_view> numbers_;
  std::optional<Monitor> log_, page_;
  bool has_fault_ = false;
  std::chrono::steady_clock::time_point since_ = std::chrono::steady_clock::now();
  std::int64_t from_ = step_.replays();
};

// The steps of a training that are traced: not the first ones, which touch memory for the first
// time, unless there are no others.
class TracedSteps {
 public:
  TracedSteps(Executable& step, const std::optional<std::string>& file, std::int64_t steps)
      : step_(step),
        file_(file),
        steps_(steps),
        first_(std::clamp<std::int64_t>(steps - kTraced, 0, kBefore)) {
    begin();
  }

  void after_step() {
    ++taken_;
    begin();
  }
  void write() const {
    if (!file_) return;
    if (steps_ == 0) {
      fmt::print("trace   none: no step was left to take\n");
      return;
    }
    const Trace trace = step_.trace();
    write_whole(*file_, to_json(trace));
    fmt::print("trace   {} ({} steps from step {} on, for ui.perfetto.dev or chrome://tracing)\n",
               *file_, trace.steps.size(), first_);
  }

 private:
  static constexpr std::int64_t kBefore = 10, kTraced = 5;

  void begin() {
    if (file_ && steps_ > 0 && taken_ == first_) step_.start_trace(kTraced);
  }

  Executable& step_;
  const std::optional<std::string>& file_;
  std::int64_t steps_, first_, taken_ = 0;
};

int train_task(const models::TaskEntry& entry, const Arguments& arguments) {
  const std::string checkpoint =
      arguments.checkpoint.value_or(fmt::format("{}.safetensors", entry.name));
  if (const auto status = launch_ranks(arguments.ranks)) return *status;
  const JoinedRanks ranks = join_ranks(arguments.ranks);
  if (!arguments.no_save) ranks.on_first([&] { expect_writable(checkpoint); });
  if (arguments.trace) ranks.on_first([&] { expect_writable(*arguments.trace); });
  const models::TaskOptions taken{.epochs = arguments.epochs.value_or(entry.epochs),
                                  .batch = arguments.batch.value_or(entry.batch),
                                  .lr = arguments.lr.value_or(entry.lr),
                                  .seed = arguments.seed,
                                  .share = ranks.share};
  const std::unique_ptr<models::TrainingTask> task = entry.make(taken);
  const DeviceTargets targets = targets_on(arguments.device, ranks.local_rank);
  const CompileOptions options{.modes = {train, evaluate},
                               .seed = arguments.seed,
                               .threads = arguments.threads.value_or(entry.threads),
                               .data_parallel = ranks.parallel};
  fmt::print("data    {}\n", task->parts());

  Executable step = compile(task->graphs(), targets.planned, options);
  print_plan(step.report());
  const std::unique_ptr<models::Training> training = task->training(step);
  if (arguments.resume) resume(step, arguments);

  if (training->epochs_done() >= taken.epochs) {
    fmt::print("nothing left to train: {} epochs are done\n", training->epochs_done());
  }
  // Statistics of batches are each rank's own; what is tested and saved are rank 0's.
  const auto test = [&] {
    ranks.as_first(step);
    return training->test();
  };
  Progress progress(training->epochs_done(), taken.epochs, training->steps_per_epoch());
  RunPoints points(step, task->update_numbers());
  if (arguments.watch) {
    ranks.on_first([&] {
      points.begin_page(endpoint_of(*arguments.watch).value(), entry.name,
                        taken.epochs * training->steps_per_epoch());
    });
  }
  if (arguments.log) {
    ranks.on_first([&] { points.begin_log(*arguments.log, arguments.resume.has_value()); });
  }
  const std::int64_t epochs_left =
      std::max<std::int64_t>(taken.epochs - training->epochs_done(), 0);
  TracedSteps traced(step, arguments.trace, epochs_left * training->steps_per_epoch());
  const auto after_step = [&](double loss) {
    progress.after_step(loss);
    points.after_step(loss);
    traced.after_step();
  };
  points.around([&] {
    while (training->epochs_done() < taken.epochs) {
      training->epoch(after_step);
      const models::Score score = test();
      points.after_epoch(score.value);
      progress.after_epoch(score.brief);
    }
  });
  progress.finish();
  if (const std::string pace = ranks.pace(); !pace.empty()) fmt::print("ranks   {}\n", pace);
  fmt::print("test    {}\n", test().words);
  if (const std::string sample = training->sample(); !sample.empty()) {
    fmt::print("sample\n{}\n", indent_printable(sample));
  }
  if (!arguments.no_save) {
    ranks.on_first([&] { step.save(checkpoint); });
    fmt::print("saved   {} ({:.2f} MiB)\n", checkpoint,
               static_cast<double>(std::filesystem::file_size(checkpoint)) / kMiB);
  }
  ranks.on_first([&] { traced.write(); });
  const bool alone = ranks.share.ranks == 1;
  if (!arguments.no_compare && alone)
    compare_with_eager(*task, targets, options, arguments.resume, taken.epochs);
  return 0;
}

// Returns a default of the tasks: "40 for digits, 15 for mnist".
template <class T>
std::string defaults(T models::TaskEntry::* property) {
  std::vector<std::string> all;
  for (const models::TaskEntry& task : models::all_tasks()) {
    all.push_back(fmt::format("{} for {}", task.*property, task.name));
  }
  return fmt::format("{}", fmt::join(all, ", "));
}

}  // namespace

void add_train(CLI::App& app, Action& chosen) {
  std::vector<std::string> names, about;
  for (const models::TaskEntry& task : models::all_tasks()) {
    names.emplace_back(task.name);
    about.push_back(fmt::format("{}: {}", task.name, task.about));
  }
  const auto arguments = std::make_shared<Arguments>();
  CLI::App* verb =
      add_verb(app, "train",
               "Trains, tests and saves, then runs the same training beside libtorch's eager one.",
               chosen, [arguments, names] {
                 if (arguments->model.empty()) {
                   throw UsageError(fmt::format("say what to train: {}.", list_choices(names)));
                 }
                 return train_task(*models::find_task(arguments->model), *arguments);
               });
  verb->add_option("model", arguments->model, fmt::format("{}", fmt::join(about, "; ")))
      ->check(one_of(names));
  verb->add_option("--epochs", arguments->epochs,
                   fmt::format("Passes over the training data, in all ({})",
                               defaults(&models::TaskEntry::epochs)))
      ->check(whole_number(1, 100000));
  verb->add_option("--batch", arguments->batch,
                   fmt::format("Digits, rows of text, or moves, of a step ({})",
                               defaults(&models::TaskEntry::batch)))
      ->check(whole_number(2, 100000));
  verb->add_option("--seed", arguments->seed, "Of initial values, dropout, shuffling and the split")
      ->check(whole_number(0, 1LL << 62))
      ->capture_default_str();
  verb->add_option("--lr", arguments->lr,
                   fmt::format("Learning rate of the first step; it falls to 0 along a cosine ({})",
                               defaults(&models::TaskEntry::lr)))
      ->check(positive_number());
  verb->add_option("--checkpoint", arguments->checkpoint,
                   "Where to save what was trained (by default MODEL.safetensors)");
  verb->add_option("--resume", arguments->resume,
                   "Go on from a checkpoint, with its seed, --batch and --epochs");
  verb->add_option("--log", arguments->log,
                   "Write each step's loss and rate, each epoch's score, speed and memory to a "
                   "folder: scalars.csv, and TensorBoard's event files");
  verb->add_option("--watch", arguments->watch,
                   "Serve a page with live curves at this port, for programs of this machine (0: a "
                   "port that is free), or at ADDRESS:PORT: 0.0.0.0:8080 lets others look")
      ->type_name("PORT")
      ->check(endpoint());
  verb->add_option("--trace", arguments->trace,
                   "Write some steps, kernel by kernel, for ui.perfetto.dev or chrome://tracing");
  verb->add_option("--device", arguments->device,
                   "Where both sides run: cpu, or cuda, of which each rank takes one")
      ->check(one_of({"cpu", "cuda"}))
      ->capture_default_str();
  verb->add_option("--threads", arguments->threads,
                   "Threads of both sides (1 for digits, else all cores)")
      ->check(whole_number(1, 1024));
  verb->add_option(
          "--ranks", arguments->ranks,
          "Processes that share out each batch, on this machine; under torchrun leave it out")
      ->check(whole_number(1, 1024));
  verb->add_flag("--no-save", arguments->no_save, "Save no checkpoint");
  verb->add_flag("--no-compare", arguments->no_compare, "Leave out the training beside eager");
}

}  // namespace metronome::commands
