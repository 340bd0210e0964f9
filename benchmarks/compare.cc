#include "benchmarks/compare.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <cmath>
#include <memory>

#include "benchmarks/batches.h"
#include "benchmarks/contestant.h"
#include "benchmarks/eager_form.h"
#include "benchmarks/floor/convolutions.h"
#include "benchmarks/floor/library_share.h"
#include "benchmarks/memory.h"
#include "executor/metronome/device.h"

namespace metronome::benchmarks {
namespace {

constexpr int kUnreadRounds = kFewestRounds;
constexpr int kTracedSteps = 5;
// Batches of fed steps, in turn: a batch may still be read while the next two steps begin.
constexpr std::size_t kRing = 3;

Target replay_on(Device device, bool tf32) {
  if (device.kind == Device::Kind::cpu) return cpu_replay();
  return cuda_graph({.device = device.index, .tf32 = tf32});
}

// The timed plan keeps no gradients, so it is not the one that was checked: its losses are held to
// those of the checked one, which is IEEE f32.
void check_timed_plan(Contestant& planned, Agreement& agreement, double tolerance) {
  for (std::size_t step = 0; step < agreement.losses.size(); ++step) {
    planned.read(1);
    const double checked = agreement.losses[step];
    const double difference = std::abs(planned.last() - checked) / std::abs(checked);
    if (difference <= tolerance || !agreement.agree) continue;
    agreement.agree = false;
    agreement.disagreement =
        fmt::format("step {}: the loss of the timed plan is {:.9g}, of the checked plan {:.9g}",
                    step, planned.last(), checked);
  }
}

// Each side fills a round with steps of its own: the two may differ a hundredfold.
Rounds rounds_read(Contestant& eager, Contestant& planned, int rounds) {
  const Side eager_read{[&](int n) { eager.read(n); }, steps_per_round(eager)};
  const Side planned_read{[&](int n) { planned.read(n); }, steps_per_round(planned)};
  interleave(eager_read, planned_read, 1);  // warm-up
  return interleave(eager_read, planned_read, rounds);
}

void time(Contestant& eager, Contestant& planned, int rounds, Comparison& result) {
  const Rounds read = rounds_read(eager, planned, rounds);
  result.eager_ms = read.a;
  result.planned_ms = read.b;
  result.ratios = read.ratios();
  result.verdict = verdict_of(result.ratios);

  const Rounds unread = interleave(
      {[&](int n) { eager.unread(n); }, steps_per_round(read.a.median())},
      {[&](int n) { planned.unread(n); }, steps_per_round(read.b.median())}, kUnreadRounds);
  result.eager_unread_ms = unread.a;
  result.planned_unread_ms = unread.b;
}

// Times the call alone: the step before is over.
Samples host_us(Executable& planned, Value loss) {
  constexpr int kSteps = 200;
  Samples samples;
  for (int i = 0; i < kSteps; ++i) {
    samples.values.push_back(1e3 * milliseconds([&] { planned.run(); }));
    planned.read_scalar(loss);
  }
  return samples;
}

DeviceNumbers measure_on_device(const models::Model& model, const CompareOptions& options,
                                Executable& planned, Contestant& eager_steps,
                                Contestant& planned_steps) {
  DeviceNumbers result;
  const Report& report = planned.report();
  result.graph_nodes = report.plan(train).graph_nodes;
  result.forms = report.plan(train).forms;
  result.planned_bytes = report.arena_bytes + report.storage_bytes + report.device_bytes_io;
  for (const Value& input : model.inputs) result.planned_bytes += input.type().bytes();
  result.planned_other_bytes = report.device_bytes_other;
  result.host_us = host_us(planned, model.graph.loss());

  Batches ring(model, kRing);
  ring.lock_pages();
  Contestant eager_fed = eager_steps.fed_by(ring), planned_fed = planned_steps.fed_by(ring);
  const Rounds fed = rounds_read(eager_fed, planned_fed, kFewestRounds);
  result.eager_fed_ms = fed.a;
  result.planned_fed_ms = fed.b;

  if (!convolutions_of(model.graph).empty()) {
    at::globalContext().setDeterministicCuDNN(true);
    result.eager_deterministic_ms = rounds_read(eager_steps, planned_steps, kFewestRounds).a;
    at::globalContext().setDeterministicCuDNN(false);
  }

  const std::unique_ptr<CudaDriver> driver = open_cuda(options.device.index);
  result.floor = floor_of(model.graph, *driver, options.tf32);
  return result;
}

// A fresh one, so that no step frees what an earlier one made.
void measure_eager_memory(const models::Model& model, const Batches& batches,
                          const CompareOptions& options, const Target& target, Comparison& result) {
  const auto compiled = [&] { return compile(model.graph, target, {.threads = options.threads}); };
  const auto take = [&](Executable& step) {
    Contestant(step, batches, model.graph.loss()).read(kFewestSteps);
  };
  if (!result.on_device) {
    result.eager_peak_bytes = peak_tensor_bytes([&] {
      Executable fresh = compiled();
      take(fresh);
    });
    return;
  }
  const int device = options.device.index;
  const std::size_t before = allocated_on_device(device);
  Executable fresh = compiled();
  const std::size_t held = allocated_on_device(device);
  const std::size_t peak = peak_on_device(device, [&] { take(fresh); });
  result.eager_peak_bytes = peak - held;
  result.on_device->eager_bytes = peak - before;
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
  const bool counts = scale == models::Scale::small && !on_device;
  return agreement.agree && (!counts || ratio() >= kFloor);
}

Comparison compare_model(const models::ModelEntry& entry, const CompareOptions& options,
                         const std::function<void(std::string_view)>& progress) {
  at::set_num_threads(options.threads);
  Comparison result;
  result.model = entry.name;
  result.scale = options.scale;
  result.threads = options.threads;
  result.tf32 = options.tf32;
  const bool on_device = options.device.kind == Device::Kind::cuda;

  progress("compiling");
  const models::Model model = entry.make(options.scale, f32);
  Executable planned =
      compile(model.graph, replay_on(options.device, options.tf32), {.threads = options.threads});
  const PlanReport& plan = planned.report().plan(train);
  result.compile_s = planned.report().compile_seconds;
  result.kernels_declared = plan.kernels_declared;
  result.kernels_planned = plan.kernels;
  result.arena_bytes = plan.arena_bytes;
  result.lower_bound_bytes = plan.lower_bound;

  progress("checking");
  result.agreement = agreement_f32(entry, options.scale, options.threads,
                                   replay_on(options.device, false), eager(options.device));
  const Batches batches(model);
  Contestant planned_steps(planned, batches, model.graph.loss());
  check_timed_plan(planned_steps, result.agreement, options.tf32 ? 1e-2 : 1e-5);

  progress("timing");
  at::globalContext().setAllowTF32CuBLAS(options.tf32);
  at::globalContext().setAllowTF32CuDNN(options.tf32);
  const EagerForm form = fastest_form(model, batches, options);
  const EagerSettings settings(form, options.device);
  result.eager_form = name_of(form);
  Executable eager_step = compile(model.graph, settings.target(), {.threads = options.threads});
  Contestant eager_steps(eager_step, batches, model.graph.loss());
  if (on_device) {  // one batch, there
    eager_steps.read(1);
    eager_steps.feed(false);
    planned_steps.feed(false);
  }
  time(eager_steps, planned_steps, options.rounds, result);
  if (options.trace) {
    planned.start_trace(kTracedSteps);
    planned_steps.read(kTracedSteps);
    result.trace = planned.trace();
  }

  double library = 0;
  if (on_device) {
    result.on_device = measure_on_device(model, options, planned, eager_steps, planned_steps);
    library = result.on_device->floor.library_ms();
  } else {
    library = library_ms(model.graph, options.threads) +
              convolutions_ms(convolutions_of(model.graph), options.threads);
  }
  result.library_share = library / result.planned_ms.median();
  measure_eager_memory(model, batches, options, settings.target(), result);
  return result;
}

}  // namespace metronome::benchmarks
