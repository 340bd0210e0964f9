#include "benchmarks/inference/inference.h"

#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <c10/core/InferenceMode.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <vector>

#include "benchmarks/batches.h"
#include "benchmarks/contestant.h"
#include "benchmarks/eager_form.h"
#include "benchmarks/inference/answering.h"
#include "benchmarks/table.h"

namespace metronome::benchmarks {
namespace {

constexpr double kTolerance = 1e-5;
constexpr std::size_t kChecked = 10;  // batches

/// Row by row, however the answer lies: eager's may have channels last.
std::vector<float> numbers_of(const at::Tensor& answer) {
  const at::Tensor dense = answer.contiguous();
  return {dense.data_ptr<float>(), dense.data_ptr<float>() + dense.numel()};
}

void check(Executable& planned, Executable& eager, const Batches& batches, Inference& result) {
  for (std::size_t step = 0; step < kChecked; ++step) {
    planned.evaluate(batches.of_step(step));
    eager.evaluate(batches.of_step(step));
    const std::vector<float> a = numbers_of(planned.read(kAnswer)),
                             b = numbers_of(eager.read(kAnswer));
    result.max_difference = std::max(result.max_difference, relative_difference(a, b));
  }
  result.agree = result.max_difference <= kTolerance;
}

std::string microseconds(const Samples& ms) {
  const double us = 1e3 * ms.median();
  const int decimals = us < 10 ? 3 : us < 100 ? 2 : us < 1000 ? 1 : 0;
  return fmt::format("{:.{}f} +- {:.{}f}", us, decimals, 1e3 * ms.spread(), decimals);
}

}  // namespace

double relative_difference(const std::vector<float>& a, const std::vector<float>& b) {
  constexpr double kFar = std::numeric_limits<double>::infinity();
  if (a.size() != b.size()) return kFar;
  double most = 0, largest = 0;
  for (std::size_t i = 0; i < b.size(); ++i) {
    if (!std::isfinite(a[i]) || !std::isfinite(b[i])) return kFar;
    most = std::max(most, std::abs(double{a[i]} - double{b[i]}));
    largest = std::max(largest, std::abs(double{b[i]}));
  }
  return most > 0 ? most / largest : 0;
}

bool Inference::acceptable() const {
  return agree && (scale != models::Scale::small || ratio() >= kFloor);
}

Inference infer_model(const models::ModelEntry& entry, const CompareOptions& options,
                      std::int64_t rows, const std::function<void(std::string_view)>& progress) {
  at::set_num_threads(options.threads);
  progress("compiling");
  const models::Model model = answering(entry, {options.scale, rows});
  const CompileOptions compiled = answer_options(options.threads);
  Executable planned = compile(model.graph, cpu_replay(), compiled);
  Inference result{.model = std::string(entry.name),
                   .scale = options.scale,
                   .rows = model.answer.size(0),
                   .threads = options.threads,
                   .compile_s = planned.report().compile_seconds,
                   .kernels = planned.report().plan(evaluate).kernels};

  progress("checking");
  const c10::InferenceMode inference;
  const Batches batches(model);
  const EagerForm form = fastest_form(model, batches, options, evaluate);
  const EagerSettings settings(form, options.device);
  result.eager_form = name_of(form);
  Executable eager = compile(model.graph, settings.target(), compiled);
  check(planned, eager, batches, result);

  progress("timing");
  Contestant eager_steps(eager, batches, model.answer, evaluate);
  Contestant planned_steps(planned, batches, model.answer, evaluate);
  const Side a{[&](int n) { eager_steps.read(n); }, steps_per_round(eager_steps)};
  const Side b{[&](int n) { planned_steps.read(n); }, steps_per_round(planned_steps)};
  interleave(a, b, 1);  // warm-up
  const Rounds timed = interleave(a, b, options.rounds);
  result.eager_ms = timed.a;
  result.planned_ms = timed.b;
  result.ratios = timed.ratios();
  return result;
}

std::string inference_head() {
  constexpr const char* kLine = "{:<18} {:>5} {:>20} {:>20} {:>17} {:>9} {:>8} {:>6}";
  return fmt::format(fmt::runtime(kLine), "model", "rows", "eager", "planned", "ratio", "compile",
                     "kernels", "agree") +
         "\n" + fmt::format(fmt::runtime(kLine), "", "", "us", "us", "", "s", "", "");
}

std::string inference_row(const Inference& i) {
  return fmt::format("{:<18} {:>5} {:>20} {:>20} {:>17} {:>9.2f} {:>8} {:>6}", i.model, i.rows,
                     microseconds(i.eager_ms), microseconds(i.planned_ms),
                     fmt::format("{:.2f} +- {:.2f}", i.ratio(), i.ratios.spread()), i.compile_s,
                     i.kernels, i.agree ? "yes" : "NO");
}

std::string to_json(const Machine& machine, std::span<const Inference> inferences) {
  Json results = Json::array();
  for (const Inference& i : inferences) {
    results.push_back({{"model", i.model},
                       {"scale", models::name_of(i.scale)},
                       {"rows", i.rows},
                       {"threads", i.threads},
                       {"eager_ms", to_json(i.eager_ms)},
                       {"planned_ms", to_json(i.planned_ms)},
                       {"ratio", i.ratio()},
                       {"ratio_per_round", to_json(i.ratios)},
                       {"eager_form", i.eager_form},
                       {"compile_s", i.compile_s},
                       {"kernels", i.kernels},
                       {"agree", i.agree},
                       {"max_difference", i.max_difference}});
  }
  return Json{{"machine", to_json(machine)}, {"results", results}}.dump(2) + "\n";
}

}  // namespace metronome::benchmarks
