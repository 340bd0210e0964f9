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
#include "benchmarks/machine.h"

namespace metronome::benchmarks {
namespace {

struct Parameter {
  std::string path;
  Value gradient;
};

// A model whose gradients can be read.
struct CheckedModel {
  explicit CheckedModel(models::Model made) : model(std::move(made)) {
    Graph& graph = model.graph;
    std::vector<StorageId> trained;
    for (std::size_t i = 0; i < graph.data().storages().size(); ++i) {
      const StorageId id{static_cast<std::int32_t>(i)};
      if (graph.data().storage(id).trainable) trained.push_back(id);
    }
    for (const StorageId id : trained) {
      const std::string path = graph.data().storage(id).path;
      parameters.push_back({path, graph.gradient(graph.value(*graph.data().find_read(id)))});
    }
  }

  models::Model model;
  std::vector<Parameter> parameters;
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
    std::erase_if(checked_.parameters, [&](const Parameter& p) {
      return std::find(unreached.begin(), unreached.end(), p.path) != unreached.end();
    });
  }

  Agreement in_f32(int steps) {
    for (int step = 0; step < steps; ++step) {
      for (const std::string& path : planned_.storages()) eager_.set(path, planned_.get(path));
      const std::vector<Moments> before = moments();
      run(step);
      compare_losses(step, 1e-5 * std::abs(eager_.read_scalar(loss())));
      compare_norms(step, before);
      compare_optimizer(step, before);
    }
    judge_doubtful();
    return std::move(result_);
  }

  Agreement in_f64(int steps) {
    for (int step = 0; step < steps; ++step) {
      run(step);
      double scale = 0;
      for (const Parameter& p : checked_.parameters) {
        scale = std::max({scale, largest(eager_.read(p.gradient)), largest(eager_.get(p.path))});
      }
      compare_losses(step, 1e-9 * scale);
      for (const Parameter& p : checked_.parameters) {
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
      std::erase_if(checked.parameters, [&](const Parameter& p) {
        return std::ranges::none_of(checked_.parameters,
                                    [&](const Parameter& kept) { return kept.path == p.path; });
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
  Value loss() const { return checked_.model.graph.loss(); }

  void run(int step) {
    const auto feeds = batches_.of_step(static_cast<std::size_t>(step));
    planned_.run(feeds);
    eager_.run(feeds);
    result_.losses.push_back(planned_.read_scalar(loss()));
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
    for (const Parameter& p : checked_.parameters) all.push_back(moments_of(p.path));
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

  void compare_losses(int step, double tolerance) {
    const double planned = planned_.read_scalar(loss()), eager = eager_.read_scalar(loss());
    const double difference = std::abs(planned - eager), scale = std::abs(eager);
    expect(difference, scale, tolerance / scale, step, "the loss",
           fmt::format("({:.9g}, eager {:.9g})", planned, eager));
  }

  void compare_norms(int step, const std::vector<Moments>& before) {
    double squares = 0;
    for (const Parameter& p : checked_.parameters) {
      squares += std::pow(length(eager_.read(p.gradient)), 2);
    }
    const double global = std::sqrt(squares);
    for (std::size_t i = 0; i < checked_.parameters.size(); ++i) {
      const Parameter& p = checked_.parameters[i];
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

  // libtorch's fused Adam over planned's own gradients.
  void compare_optimizer(int step, const std::vector<Moments>& before) {
    std::vector<at::Tensor> parameters, gradients, exp_avgs, exp_avg_sqs, steps;
    for (std::size_t i = 0; i < before.size(); ++i) {
      parameters.push_back(before[i].parameter);
      exp_avgs.push_back(before[i].exp_avg);
      exp_avg_sqs.push_back(before[i].exp_avg_sq);
      gradients.push_back(planned_.read(checked_.parameters[i].gradient));
      steps.push_back(at::tensor(static_cast<float>(planned_.updates())));
    }
    at::_fused_adam_(parameters, gradients, exp_avgs, exp_avg_sqs, {}, steps, checked_.model.lr,
                     0.9, 0.999, 0, 1e-8, false, false);
    for (std::size_t i = 0; i < before.size(); ++i) {
      const std::string& path = checked_.parameters[i].path;
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
