#include "benchmarks/agreement.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/_fused_adam.h>
#include <ATen/ops/tensor.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "benchmarks/batches.h"
#include "benchmarks/check/check.h"
#include "benchmarks/check/norms.h"
#include "benchmarks/gradients.h"
#include "benchmarks/machine.h"

namespace metronome::benchmarks {
namespace {

// A model whose gradients can be read.
struct CheckedModel {
  explicit CheckedModel(models::Model made)
      : model(std::move(made)), parameters(keep_gradients(model)) {}

  models::Model model;
  std::vector<TrainedParameter> parameters;
};

// A gradient that is not near eager's may be so many times as far from f64's as eager's is.
constexpr double kMostRounding = 4;

// On few cores one step at full scale takes longer, and a run of the GPU check has minutes for all
// models.
constexpr std::chrono::seconds kJudgingOnDevice(30);

// Both executables of one check, and what they are held to.
class Pair {
 public:
  Pair(const models::ModelEntry& entry, models::Scale scale, Element element, int threads,
       const Target& planned, const Target& beside)
      : entry_(entry),
        scale_(scale),
        threads_(threads),
        target_(planned),
        checked_(entry.make(scale, element)),
        batches_(checked_.model, 10),
        planned_(compile(checked_.model.graph, planned, {.threads = threads})),
        eager_(compile(checked_.model.graph, beside, {.threads = threads})) {
    result_.planned = planned_.report().target;
    result_.eager = eager_.report().target;
    // Parameters that the loss never reaches are not trained: there is nothing to compare.
    const std::vector<std::string>& unreached = planned_.report().unreached;
    std::erase_if(checked_.parameters, [&](const TrainedParameter& p) {
      return std::find(unreached.begin(), unreached.end(), p.path) != unreached.end();
    });
  }

  Agreement in_f32(int steps) {
    for (int step = 0; step < steps; ++step) {
      for (const std::string& path : planned_.storages()) eager_.set(path, planned_.get(path));
      const std::vector<Moments> before = moments();
      run(step);
      for (const ir::MinimizedLoss& objective : objectives()) {
        compare_loss(objective, step, 1e-5 * std::abs(loss_of(eager_, objective)));
      }
      compare_norms(step, before);
      for (std::size_t i = 0; i < objectives().size(); ++i) compare_optimizer(i, step, before);
    }
    judge_doubtful();
    return std::move(result_);
  }

  Agreement in_f64(int steps) {
    for (int step = 0; step < steps; ++step) {
      run(step);
      double scale = 0;
      for (const TrainedParameter& p : checked_.parameters) {
        scale = std::max({scale, largest(eager_.read(p.gradient)), largest(eager_.get(p.path))});
      }
      for (const ir::MinimizedLoss& objective : objectives()) {
        const double own = std::abs(loss_of(eager_, objective));
        compare_loss(objective, step, 1e-9 * std::max(own, scale));
      }
      for (const TrainedParameter& p : checked_.parameters) {
        const double gradient = largest(planned_.read(p.gradient) - eager_.read(p.gradient));
        expect(gradient, scale, 1e-9, step, "the gradient of", p.path);
        const double value = largest(planned_.get(p.path) - eager_.get(p.path));
        expect(value, scale, 1e-9, step, "parameter", p.path);
      }
    }
    return std::move(result_);
  }

 private:
  // A parameter's own copy of what the optimizer reads and writes.
  struct Moments {
    at::Tensor parameter, exp_avg, exp_avg_sq;
  };

  // The same model in f64, and the step that it made last.
  struct ExactModel {
    CheckedModel checked;
    Executable executable;
    int step = -1;
  };

  void judge_doubtful() {
    using Clock = std::chrono::steady_clock;
    result_.doubtful = static_cast<int>(doubtful_.size());
    const Clock::time_point begin = Clock::now();
    for (const int step : doubtful_) {
      const bool late = on_device() && Clock::now() - begin > kJudgingOnDevice;
      if (!result_.agree || (late && result_.judged > 0)) break;
      judge(step);
    }
  }

  // If a relu's input is nearly zero, rounding decides its sign, and both gradients differ: a check
  // node by node then shows whether the planned step is right.
  void judge(int step) {
    const int threads = on_device() ? this_machine().cores : threads_;
    const Check check = check_model(
        entry_, {.scale = scale_, .threads = threads, .planned = target_, .before = step});
    ++result_.judged;
    if (check.wrong.empty()) return;
    result_.agree = false;
    result_.disagreement = fmt::format("step {}: {}", step, check.wrong[0]);
  }

  // The step that both have made, from the same parameters and batch.
  ExactModel& exact_step(int step, const std::vector<Moments>& before) {
    if (!exact_) {
      CheckedModel checked(entry_.make(scale_, f64));
      std::erase_if(checked.parameters, [&](const TrainedParameter& p) {
        return std::ranges::none_of(
            checked_.parameters, [&](const TrainedParameter& kept) { return kept.path == p.path; });
      });
      Executable executable = compile(checked.model.graph, cpu_replay());
      exact_.emplace(std::move(checked), std::move(executable));
    }
    if (std::exchange(exact_->step, step) == step) return *exact_;
    for (std::size_t i = 0; i < before.size(); ++i) {
      exact_->executable.set(checked_.parameters[i].path, in_double(before[i].parameter));
    }
    const auto batch = batches_.of_step(static_cast<std::size_t>(step));
    std::vector<Feed> feeds(batch.begin(), batch.end());
    for (Feed& feed : feeds) {
      if (feed.tensor().is_floating_point()) feed.tensor() = in_double(feed.tensor());
    }
    exact_->executable.run(feeds);
    return *exact_;
  }
  static at::Tensor in_double(const at::Tensor& tensor) { return tensor.cpu().to(at::kDouble); }

  bool on_device() const { return target_.device.kind == Device::Kind::cuda; }
  const std::vector<ir::MinimizedLoss>& objectives() const {
    return checked_.model.graph.data().objectives();
  }
  static double loss_of(const Executable& step, const ir::MinimizedLoss& objective) {
    return step.read(ir::name_of_loss(objective.name)).item<double>();
  }

  void run(int step) {
    const auto feeds = batches_.of_step(static_cast<std::size_t>(step));
    planned_.run(feeds);
    eager_.run(feeds);
    result_.losses.push_back(planned_.read_scalar(checked_.model.graph.loss()));
    compare_counts(step);
  }

  // A model's counts (iterations, dropped rows) must be the same number, not a near one.
  void compare_counts(int step) {
    for (const Readable& readable : checked_.model.graph.data().readables()) {
      const Value value = checked_.model.graph.value(readable.declared);
      if (is_floating(value.element())) continue;
      const auto count = [&](Executable& run) { return run.read(value).to(at::kDouble); };
      expect(largest(count(planned_) - count(eager_)), 1, 0, step, "the output", readable.name);
    }
  }

  Moments moments_of(const std::string& path) const {
    return {planned_.get(path).clone(), planned_.get("optimizer/exp_avg/" + path).clone(),
            planned_.get("optimizer/exp_avg_sq/" + path).clone()};
  }
  std::vector<Moments> moments() const {
    std::vector<Moments> all;
    for (const TrainedParameter& p : checked_.parameters) all.push_back(moments_of(p.path));
    return all;
  }

  // `difference` may be at most `tolerance` x `scale`; NaN fails.
  void expect(double difference, double scale, double tolerance, int step, std::string_view what,
              std::string_view path) {
    const double relative = difference == 0 ? 0 : difference / scale;
    if (!(relative <= result_.max_difference)) result_.max_difference = relative;
    if (relative <= tolerance || !result_.agree) return;
    result_.agree = false;
    result_.disagreement =
        fmt::format("step {}: {} {} differs by {:.3g}, more than {:.3g} x {:.3g}", step, what, path,
                    difference, tolerance, scale);
  }

  void compare_loss(const ir::MinimizedLoss& objective, int step, double tolerance) {
    const double planned = loss_of(planned_, objective), eager = loss_of(eager_, objective);
    const double difference = std::abs(planned - eager), scale = std::abs(eager);
    expect(difference, scale, tolerance / scale, step, "the " + ir::name_of_loss(objective.name),
           fmt::format("({:.9g}, eager {:.9g})", planned, eager));
  }

  void compare_norms(int step, const std::vector<Moments>& before) {
    std::vector<double> squares(objectives().size());
    for (const TrainedParameter& p : checked_.parameters) {
      squares[p.objective] += std::pow(length(eager_.read(p.gradient)), 2);
    }
    for (std::size_t i = 0; i < checked_.parameters.size(); ++i) {
      const TrainedParameter& p = checked_.parameters[i];
      const double global = std::sqrt(squares[p.objective]);
      const at::Tensor planned = planned_.read(p.gradient), eager = eager_.read(p.gradient);
      // A gradient that is zero but for rounding has no norm of its own to be held to.
      const double scale = std::max(length(eager), 1e-4 * global);
      const double difference = length(planned - eager);
      if (difference > 1e-4 * scale) {
        // If sums cancel, as before a batch norm, both gradients may be rounding: f64 tells how far
        // off they are.
        ExactModel& exact = exact_step(step, before);
        const at::Tensor truth = exact.executable.read(exact.checked.parameters[i].gradient);
        const double most = std::max(length(in_double(eager) - truth), 1e-4 * scale);
        if (length(in_double(planned) - truth) <= kMostRounding * most) continue;
        doubtful_.insert(step);
        continue;
      }
      expect(difference, scale, 1e-4, step, "the gradient of", p.path);
    }
  }

  // libtorch's fused Adam over planned's own gradients, clipped as torch does.
  void compare_optimizer(std::size_t objective, int step, const std::vector<Moments>& before) {
    const ir::MinimizedLoss& minimized = objectives()[objective];
    const Adam& adam = *minimized.optimizer->as<Adam>();
    const std::string counter = checked_.model.graph.data().storage(minimized.counter).path;
    const auto updates = planned_.get(counter).item<std::int64_t>();
    std::vector<at::Tensor> parameters, gradients, exp_avgs, exp_avg_sqs, steps;
    std::vector<std::size_t> own;
    for (std::size_t i = 0; i < before.size(); ++i) {
      if (checked_.parameters[i].objective != objective) continue;
      own.push_back(i);
      parameters.push_back(before[i].parameter);
      exp_avgs.push_back(before[i].exp_avg);
      exp_avg_sqs.push_back(before[i].exp_avg_sq);
      gradients.push_back(planned_.read(checked_.parameters[i].gradient));
      steps.push_back(at::tensor(static_cast<float>(updates)));
    }
    if (adam.clip_norm) {
      double squares = 0;
      for (const at::Tensor& gradient : gradients) squares += std::pow(length(gradient), 2);
      const double most = adam.clip_norm->number() / (std::sqrt(squares) + 1e-6);
      for (at::Tensor& gradient : gradients) gradient = gradient * std::min(1.0, most);
    }
    at::_fused_adam_(parameters, gradients, exp_avgs, exp_avg_sqs, {}, steps,
                     adam.lr.at(updates - 1), adam.beta1, adam.beta2, 0, adam.eps, false, false);
    for (std::size_t i = 0; i < own.size(); ++i) {
      const std::string& path = checked_.parameters[own[i]].path;
      const Moments after = moments_of(path);
      const auto compare = [&](const at::Tensor& mine, const at::Tensor& theirs,
                               std::string_view what) {
        const double scale = largest(theirs), difference = largest(mine - theirs);
        // The tolerance is the optimizer's own and not part of `max_difference`.
        if (difference > 1e-6 * scale) expect(difference, scale, 1e-6, step, what, path);
      };
      compare(after.parameter, parameters[i], "Adam's step of");
      compare(after.exp_avg, exp_avgs[i], "Adam's exp_avg of");
      compare(after.exp_avg_sq, exp_avg_sqs[i], "Adam's exp_avg_sq of");
    }
  }

  models::ModelEntry entry_;
  models::Scale scale_;
  int threads_;
  Target target_;
  CheckedModel checked_;
  Batches batches_;
  Executable planned_;
  Executable eager_;
  std::optional<ExactModel> exact_;
  std::set<int> doubtful_;  // steps with a gradient that is near neither eager's nor f64's
  Agreement result_;
};

}  // namespace

std::string doubts(const Agreement& agreement) {
  if (agreement.doubtful == 0) return "";
  return fmt::format("rounding decides in {} step{}, of which {} {} held to f64",
                     agreement.doubtful, agreement.doubtful == 1 ? "" : "s", agreement.judged,
                     agreement.judged == 1 ? "was" : "were");
}

Agreement agreement_f32(const models::ModelEntry& entry, models::Scale scale, int threads,
                        const Target& planned, const Target& beside, int steps) {
  return Pair(entry, scale, f32, threads, planned, beside).in_f32(steps);
}

Agreement agreement_f64(const models::ModelEntry& entry, models::Scale scale, int threads,
                        int steps) {
  return Pair(entry, scale, f64, threads, cpu_replay(), eager()).in_f64(steps);
}

}  // namespace metronome::benchmarks
