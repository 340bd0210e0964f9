#include "benchmarks/compare.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "benchmarks/batches.h"
#include "benchmarks/library_share.h"
#include "benchmarks/memory.h"

namespace metronome::benchmarks {
namespace {

// Long enough for a clock and a scheduler not to matter, short enough for many rounds.
constexpr double kRoundMs = 25;
constexpr int kFewestSteps = 2;
constexpr int kUnreadRounds = kFewestRounds;

// One executable that walks through the batches.
class Contestant {
 public:
  Contestant(Executable& step, const Batches& batches, Value loss)
      : step_(step), batches_(batches), loss_(loss) {}

  // As users do: the loss is read after each step.
  void read(int steps) {
    for (int i = 0; i < steps; ++i) {
      step_.run(batches_.of_step(next_++));
      last_ = step_.read_scalar(loss_);
    }
  }
  void unread(int steps) {
    for (int i = 0; i < steps; ++i) step_.run(batches_.of_step(next_++));
  }
  double last() const { return last_; }

 private:
  Executable& step_;
  const Batches& batches_;
  Value loss_;
  std::size_t next_ = 0;
  double last_ = std::numeric_limits<double>::quiet_NaN();
};

// The timed plan keeps no gradients, so it is not the one that was checked: its losses are held to
// those of the checked one.
void check_timed_plan(Contestant& planned, Agreement& agreement) {
  for (std::size_t step = 0; step < agreement.losses.size(); ++step) {
    planned.read(1);
    const double checked = agreement.losses[step];
    const double difference = std::abs(planned.last() - checked) / std::abs(checked);
    if (difference <= 1e-5 || !agreement.agree) continue;
    agreement.agree = false;
    agreement.disagreement =
        fmt::format("step {}: the loss of the timed plan is {:.9g}, of the checked plan {:.9g}",
                    step, planned.last(), checked);
  }
}

// Each side fills a round with steps of its own: the two may differ a hundredfold.
int steps_per_round(Contestant& contestant) {
  contestant.read(kFewestSteps);
  const double ms = milliseconds([&] { contestant.read(kFewestSteps); }) / kFewestSteps;
  return std::max(kFewestSteps, static_cast<int>(kRoundMs / ms));
}

void time(Contestant& eager, Contestant& planned, int rounds, Comparison& result) {
  const int eager_steps = steps_per_round(eager), planned_steps = steps_per_round(planned);
  const Side eager_read{[&](int n) { eager.read(n); }, eager_steps};
  const Side planned_read{[&](int n) { planned.read(n); }, planned_steps};
  interleave(eager_read, planned_read, 1);  // warm-up
  const Rounds read = interleave(eager_read, planned_read, rounds);
  result.eager_ms = read.a;
  result.planned_ms = read.b;
  result.ratios = read.ratios();
  result.verdict = verdict_of(result.ratios);

  const Rounds unread =
      interleave({[&](int n) { eager.unread(n); }, eager_steps},
                 {[&](int n) { planned.unread(n); }, planned_steps}, kUnreadRounds);
  result.eager_unread_ms = unread.a;
  result.planned_unread_ms = unread.b;
}

}  // namespace

std::string_view name_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::faster:
      return "faster";
    case Verdict::even:
      return "even";
    case Verdict::slower:
      return "slower";
  }
  return "";
}

Verdict verdict_of(const Samples& ratios) {
  const double median = ratios.median();
  if (median >= 1) return Verdict::faster;
  if (median >= 0.95 && median + 2 * ratios.spread() >= 1) return Verdict::even;
  return Verdict::slower;
}

bool Comparison::acceptable() const {
  return agreement.agree && (scale != models::Scale::small || ratio() >= kFloor);
}

Comparison compare_model(const models::ModelEntry& entry, const CompareOptions& options,
                         const std::function<void(std::string_view)>& progress) {
  at::set_num_threads(options.threads);
  Comparison result;
  result.model = entry.name;
  result.scale = options.scale;
  result.threads = options.threads;

  progress("compiling");
  const models::Model model = entry.make(options.scale, f32);
  Executable planned = compile(model.graph, cpu_replay(), {.threads = options.threads});
  const PlanReport& plan = planned.report().plan(train);
  result.compile_s = planned.report().compile_seconds;
  result.kernels_declared = plan.kernels_declared;
  result.kernels_planned = plan.kernels;
  result.arena_bytes = plan.arena_bytes;
  result.lower_bound_bytes = plan.lower_bound;

  progress("checking");
  result.agreement = agreement_f32(entry, options.scale, options.threads);
  const Batches batches(model);
  Contestant planned_steps(planned, batches, model.graph.loss());
  check_timed_plan(planned_steps, result.agreement);

  progress("timing");
  Executable eager_step = compile(model.graph, eager(), {.threads = options.threads});
  Contestant eager_steps(eager_step, batches, model.graph.loss());
  time(eager_steps, planned_steps, options.rounds, result);

  // A fresh one, so that no step frees what an earlier one made.
  result.eager_peak_bytes = peak_tensor_bytes([&] {
    Executable fresh = compile(model.graph, eager(), {.threads = options.threads});
    Contestant(fresh, batches, model.graph.loss()).read(kFewestSteps);
  });
  result.library_share = library_ms(model.graph, options.threads) / result.planned_ms.median();
  return result;
}

}  // namespace metronome::benchmarks
