#include "models/commands/beside_eager.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <memory>

#include "models/commands/statistics.h"

namespace metronome::commands {
namespace {

// One side of the comparison: an executable in training.
struct ComparedSide {
  ComparedSide(const models::TrainingTask& task, Target target, const CompileOptions& options,
               const std::optional<std::string>& resume)
      : step(compile(task.graphs(), target, options)), training(task.training(step)) {
    if (resume) step.load(*resume);
  }

  // Mean loss of the epoch that ended last is kept.
  void epoch() {
    double sum = 0;
    training->epoch([&](double loss) { sum += loss; });
    mean_loss = sum / static_cast<double>(training->steps_per_epoch());
  }

  Executable step;
  std::unique_ptr<models::Training> training;
  double mean_loss = std::numeric_limits<double>::quiet_NaN();
};

void print_side(const char* name, const statistics::Samples& ms, ComparedSide& side) {
  fmt::print("  {:<8} {:>17}  {:>12.6f}  {}\n", name,
             fmt::format("{:.4f} +- {:.4f}", ms.median(), ms.spread()), side.mean_loss,
             side.training->test().words);
}

}  // namespace

void compare_with_eager(const models::TrainingTask& task, const DeviceTargets& targets,
                        const CompileOptions& options, const std::optional<std::string>& resume,
                        std::int64_t epochs) {
  ComparedSide planned(task, targets.planned, options, resume);
  at::set_num_threads(planned.step.report().threads);
  ComparedSide eager_side(task, targets.eager, options, resume);
  const std::int64_t left = std::max<std::int64_t>(0, epochs - planned.training->epochs_done());
  const int rounds = static_cast<int>(std::min(left, kMostEpochs));
  if (rounds == 0) {
    fmt::print("eager   nothing left to train, so nothing to compare\n");
    return;
  }

  const statistics::Side by_eager{[&](int) { eager_side.epoch(); }};
  const statistics::Side by_replay{[&](int) { planned.epoch(); }};
  statistics::Rounds ms = statistics::interleave(by_eager, by_replay, rounds);
  const auto steps = static_cast<double>(planned.training->steps_per_epoch());
  for (statistics::Samples* side : {&ms.a, &ms.b}) {
    for (double& value : side->values) value /= steps;
  }
  fmt::print(
      "\nbeside libtorch's eager autograd: same seed and batches, {} steps each, epochs in "
      "turn{}\n",
      rounds * planned.training->steps_per_epoch(),
      left > kMostEpochs ? fmt::format(" (the first {} of {} epochs)", rounds, left) : "");
  fmt::print("  {:<8} {:>17}  {:>12}  {}\n", "", "ms/step", "last loss", "test");
  print_side("eager", ms.a, eager_side);
  print_side("planned", ms.b, planned);
  fmt::print(
      "  planned takes {:.1f} times less time a step; the last epoch's mean losses differ by "
      "{:.2g}\n",
      ms.ratios().median(), std::abs(eager_side.mean_loss - planned.mean_loss));
}

}  // namespace metronome::commands
