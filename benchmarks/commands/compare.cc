#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "benchmarks/check/check_table.h"
#include "benchmarks/commands/commands.h"
#include "benchmarks/eager_form.h"
#include "benchmarks/explain.h"
#include "benchmarks/inference/inference.h"
#include "benchmarks/memory.h"
#include "benchmarks/table.h"
#include "executor/metronome/device.h"
#include "models/commands/device.h"
#include "models/commands/files.h"
#include "models/models.h"

namespace metronome::commands {
namespace {

using benchmarks::Comparison;

struct CompareArguments {
  std::vector<std::string> models;
  std::string scale = "small";
  int threads = 0;
  int rounds = 0;
  std::string device = "cpu";
  bool tf32 = false;
  bool explain = false;
  bool check = false;
  bool evaluate = false;
  std::optional<std::string> json;
  std::optional<std::string> trace;
};

constexpr int kSmallRounds = 21, kFullRounds = 9;

void find_device(benchmarks::Machine& machine) {
  const std::shared_ptr<CudaDriver> driver = targets_on("cuda", 0).planned.driver;
  machine.device = driver->properties().name;
  machine.device_libraries = driver->properties().library_versions;
}

/// Tells, of a model, what begins; on a terminal alone.
class CompareProgress {
 public:
  explicit CompareProgress(std::string_view model) : model_(model) {}
  ~CompareProgress() {
    if (terminal_) fmt::print("\r\033[K");
  }
  CompareProgress(const CompareProgress&) = delete;
  CompareProgress& operator=(const CompareProgress&) = delete;

  void operator()(std::string_view what) const {
    if (!terminal_) return;
    fmt::print("\r\033[K{}: {}", model_, what);
    std::fflush(stdout);
  }

 private:
  std::string_view model_;
  bool terminal_ = isatty(STDOUT_FILENO) == 1;
};

int explain(const std::vector<models::ModelEntry>& entries,
            const benchmarks::CompareOptions& options) {
  for (const models::ModelEntry& entry : entries) {
    const auto explanation = [&] {
      const CompareProgress progress(entry.name);
      return benchmarks::explain(entry, options, std::cref(progress));
    }();
    fmt::print("\n{}", benchmarks::to_string(explanation));
    std::fflush(stdout);
  }
  return 0;
}

int check(const std::vector<models::ModelEntry>& entries,
          const benchmarks::CompareOptions& options) {
  int right = 0;
  fmt::print("\n{}\n", benchmarks::check_head());
  std::vector<benchmarks::Check> checks;
  for (const models::ModelEntry& entry : entries) {
    {
      const CompareProgress progress(entry.name);
      checks.push_back(benchmarks::check_model(
          entry,
          {.scale = options.scale, .threads = options.threads, .progress = std::cref(progress)}));
    }
    if (checks.back().wrong.empty()) ++right;
    fmt::print("{}\n", benchmarks::check_row(checks.back()));
    std::fflush(stdout);
  }
  fmt::print("\n{}\n{} of {} are right\n", benchmarks::check_report(checks), right, checks.size());
  return right == static_cast<int>(checks.size()) ? 0 : 1;
}

/// The inferences of each model: of one row, and of a batch.
int infer(const std::vector<models::ModelEntry>& entries, const benchmarks::CompareOptions& options,
          const benchmarks::Machine& machine, const std::optional<std::string>& json) {
  constexpr std::int64_t kOneRow = 1, kBatch = 0;
  std::vector<benchmarks::Inference> inferences;
  fmt::print("\n{}\n", benchmarks::inference_head());
  bool acceptable = true;
  for (const models::ModelEntry& entry : entries) {
    for (const std::int64_t rows : {kOneRow, kBatch}) {
      {
        const CompareProgress progress(entry.name);
        inferences.push_back(benchmarks::infer_model(entry, options, rows, std::cref(progress)));
      }
      const benchmarks::Inference& done = inferences.back();
      fmt::print("{}\n", benchmarks::inference_row(done));
      std::fflush(stdout);
      if (json) write_whole(*json, benchmarks::to_json(machine, inferences));
      acceptable = acceptable && done.acceptable();
    }
  }
  return acceptable ? 0 : 1;
}

int compare(const CompareArguments& arguments) {
  const models::Scale scale = models::scale_of(arguments.scale);
  const bool small = scale == models::Scale::small;
  const bool on_device = arguments.device == "cuda";
  if (arguments.tf32 && !on_device) {
    throw UsageError("--tf32 needs --device cuda: a CPU has no TF32.");
  }
  if (arguments.explain && on_device) {
    throw UsageError("--explain needs --device cpu: with cuda the table itself has the floor.");
  }
  if (arguments.explain && arguments.json) {
    throw UsageError("--json needs the comparison with eager: leave out --explain.");
  }
  if (arguments.trace && (arguments.explain || arguments.check)) {
    throw UsageError("--trace needs the comparison with eager: leave out --explain and --check.");
  }
  if (arguments.trace && arguments.models.size() != 1) {
    throw UsageError(
        fmt::format("--trace is of one model, not of {}: name that one.",
                    arguments.models.empty() ? "all" : fmt::to_string(arguments.models.size())));
  }
  if (arguments.check &&
      (arguments.explain || arguments.json || on_device || arguments.rounds > 0)) {
    throw UsageError(
        "--check times nothing, on a CPU: leave out --explain, --json, --device and --rounds.");
  }
  if (arguments.evaluate &&
      (arguments.explain || arguments.check || arguments.trace || on_device)) {
    throw UsageError(
        "--evaluate times inference, on a CPU: leave out --explain, --check, --trace and "
        "--device.");
  }
  benchmarks::Machine machine = benchmarks::this_machine();
  if (on_device) find_device(machine);
  benchmarks::CompareOptions options{
      .scale = scale, .tf32 = arguments.tf32, .trace = arguments.trace.has_value()};
  if (on_device) options.device = cuda_device();
  options.threads = arguments.threads > 0 ? arguments.threads : small ? 1 : machine.cores;
  options.rounds = arguments.rounds > 0 ? arguments.rounds : small ? kSmallRounds : kFullRounds;
  if (arguments.json) expect_writable(*arguments.json);
  if (arguments.trace) expect_writable(*arguments.trace);

  std::vector<models::ModelEntry> entries;
  for (const std::string& name : arguments.models) entries.push_back(models::find_model(name));
  if (entries.empty()) entries.assign(models::all_models().begin(), models::all_models().end());

  if (arguments.check) {
    fmt::print("{}\n{} scale, {} thread{}\n", benchmarks::to_string(machine), arguments.scale,
               options.threads, options.threads == 1 ? "" : "s");
    return check(entries, options);
  }
  benchmarks::keep_freed_memory();
  fmt::print("{}\n{} scale, {} thread{}, {}, {} rounds; times are medians +- spreads\n",
             benchmarks::to_string(machine), arguments.scale, options.threads,
             options.threads == 1 ? "" : "s", arguments.tf32 ? "TF32 products" : "f32",
             options.rounds);
  if (arguments.explain) return explain(entries, options);
  if (arguments.evaluate) return infer(entries, options, machine, arguments.json);
  fmt::print("\n{}\n", benchmarks::table_head(on_device));
  std::vector<Comparison> comparisons;
  for (const models::ModelEntry& entry : entries) {
    {
      const CompareProgress progress(entry.name);
      comparisons.push_back(benchmarks::compare_model(entry, options, std::cref(progress)));
    }
    fmt::print("{}\n", benchmarks::table_row(comparisons.back()));
    std::fflush(stdout);
    // Model by model: what is measured is kept, whatever comes after.
    if (arguments.json) {
      write_whole(*arguments.json, benchmarks::to_json(machine, comparisons));
    }
    if (arguments.trace) write_whole(*arguments.trace, to_json(*comparisons.back().trace));
  }

  int status = 0;
  for (const Comparison& c : comparisons) {
    if (c.eager_form != benchmarks::name_of(benchmarks::EagerForm::usual)) {
      fmt::print("\n{}: eager's fastest setting is {}\n", c.model, c.eager_form);
    }
    if (c.agreement.doubtful > 0) {
      fmt::print("\n{}: {}\n", c.model, benchmarks::doubts(c.agreement));
    }
    if (!c.agreement.agree) fmt::print("\n{} disagrees: {}", c.model, c.agreement.disagreement);
    if (c.agreement.agree && !c.acceptable()) {
      fmt::print("\n{} is too slow: ratio {:.2f}, below {}", c.model, c.ratio(),
                 benchmarks::kFloor);
    }
    if (!c.acceptable()) status = 1;
  }
  if (status != 0) fmt::print("\n");
  return status;
}

}  // namespace

void add_compare(CLI::App& app, Action& chosen) {
  const auto arguments = std::make_shared<CompareArguments>();
  CLI::App* verb = add_verb(app, "compare", "Planned steps beside libtorch's eager ones.", chosen,
                            [arguments] { return compare(*arguments); });
  std::vector<std::string> names;
  for (const models::ModelEntry& entry : models::all_models()) names.emplace_back(entry.name);
  verb->add_option("models", arguments->models,
                   "Models; all where none is named: " + models::model_names())
      ->check(one_of(names));
  verb->add_option("--scale", arguments->scale, "small (launch-bound), medium or full")
      ->check(one_of({"small", "medium", "full"}))
      ->capture_default_str();
  verb->add_option("--device", arguments->device,
                   "Of both sides: cpu, or cuda, where a batch lies on the GPU already")
      ->check(one_of({"cpu", "cuda"}))
      ->capture_default_str();
  verb->add_flag(
      "--explain", arguments->explain,
      "In place of eager: the least that a step can take here, and what each pass saves");
  verb->add_flag("--check", arguments->check,
                 "In place of timing: each kernel and each decision of a step against f64, replays "
                 "against steps kernel by kernel, the arena");
  verb->add_flag("--evaluate", arguments->evaluate,
                 "In place of training steps: inference, of one row and of a batch");
  verb->add_flag("--tf32", arguments->tf32,
                 "TF32 products on a GPU for both, in place of IEEE f32");
  verb->add_option("--threads", arguments->threads,
                   "Threads of both sides; by default 1 at small scale and all cores at others")
      ->check(whole_number(1, 1024));
  verb->add_option(
          "--rounds", arguments->rounds,
          fmt::format("Timed rounds, at least {}; by default {} at small scale and {} at others",
                      benchmarks::kFewestRounds, kSmallRounds, kFullRounds))
      ->check(whole_number(benchmarks::kFewestRounds, 10000));
  verb->add_option("--json", arguments->json,
                   "Also write the comparison, with every sample, to a file");
  verb->add_option("--trace", arguments->trace,
                   "Of one model: also write some planned steps, kernel by kernel, for "
                   "ui.perfetto.dev or chrome://tracing");
}

}  // namespace metronome::commands
