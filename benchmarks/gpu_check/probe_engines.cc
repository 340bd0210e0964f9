#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <exception>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "benchmarks/gpu_check/probe.h"
#include "executor/cuda/driver/null_driver.h"
#include "executor/cuda/driver/stopwatch.h"
#include "executor/metronome.h"
#include "graph/ir/error.h"
#include "models/models.h"
#include "ops/cuda/convolution_call.h"

namespace metronome::gpu_check {
namespace {

using Block = executor::program::DeviceBlock;

/// Writes down which convolutions a step asks for, in the plain layout.
class AskedConvolutions final : public NullDriver {
 public:
  std::vector<Candidate> candidates(const LibraryCommand& call) const override {
    if (const auto* command = call.as<ConvolutionCommand>()) {
      ConvolutionProblem problem = command->problem;
      problem.channels_last = false;
      if (std::ranges::find(problems_, problem) == problems_.end()) problems_.push_back(problem);
    }
    return NullDriver::candidates(call);
  }
  const std::vector<ConvolutionProblem>& problems() const { return problems_; }

 private:
  mutable std::vector<ConvolutionProblem> problems_;
};

std::vector<ConvolutionProblem> problems_of(const models::Model& model) {
  const auto driver = std::make_shared<AskedConvolutions>();
  Target target = null();
  target.driver = driver;
  compile(model.graph, target);
  return driver->problems();
}

std::size_t bytes_of(const Shape& shape) { return Type{f32, shape}.bytes(); }

/// A problem's operands, with numbers in them.
class Operands {
 public:
  Operands(CudaDriver& driver, CudaStream stream, const ConvolutionProblem& problem)
      : driver_(driver),
        stream_(stream),
        x_(driver, bytes_of(problem.x)),
        weight_(driver, bytes_of(problem.weight)),
        y_(driver, bytes_of(problem.y)),
        made_(problem.makes == ConvolutionProblem::ComputedTensor::x   ? x_
              : problem.makes == ConvolutionProblem::ComputedTensor::y ? y_
                                                                       : weight_) {
    for (const Block* block : {&x_, &weight_, &y_}) upload_numbers(driver, *block, stream);
  }

  ConvolutionCommand command(const ConvolutionProblem& problem, const Candidate& candidate,
                             const Block& workspace) const {
    return {.problem = problem,
            .x = x_.data(),
            .weight = weight_.data(),
            .y = y_.data(),
            .workspace = workspace.data(),
            .workspace_bytes = candidate.scratch_bytes,
            .algorithm = candidate.algorithm};
  }
  /// NaN shows then that an engine did not write a number.
  void spoil_result() const {
    const std::vector<float> numbers(made_.bytes() / sizeof(float),
                                     std::numeric_limits<float>::quiet_NaN());
    driver_.upload(made_.data(), numbers.data(), made_.bytes(), stream_);
    driver_.synchronize(stream_);
  }
  std::vector<float> result() const {
    std::vector<float> numbers(made_.bytes() / sizeof(float));
    driver_.download(numbers.data(), made_.data(), made_.bytes(), stream_);
    return numbers;
  }

 private:
  CudaDriver& driver_;
  CudaStream stream_;
  Block x_, weight_, y_;
  const Block& made_;
};

/// The largest difference, compared with the largest number; infinity where some are not finite.
double apart(const std::vector<float>& a, const std::vector<float>& b) {
  double difference = 0, most = std::numeric_limits<double>::min();
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double each = std::abs(double{a[i]} - double{b[i]});
    if (!std::isfinite(each)) return std::numeric_limits<double>::infinity();
    difference = std::max(difference, each);
    most = std::max(most, std::abs(double{a[i]}));
  }
  return difference / most;
}

/// Times all engines of a problem: those that are offered to steps, then the others. Tells which of
/// the others are faster than all before, and how far their results are from those.
void time_engines(Outcome& outcome, CudaDriver& driver, const Stopwatch& watch,
                  ConvolutionProblem problem) {
  constexpr int kRounds = 3;
  const std::vector<Candidate> offered = driver.candidates(ConvolutionCommand{.problem = problem});
  problem.any_engine = true;
  const std::vector<Candidate> all = driver.candidates(ConvolutionCommand{.problem = problem});
  const Operands operands(driver, watch.stream(), problem);
  struct Timed {
    double ms;
    std::string text;
  };
  std::optional<double> best;
  std::vector<float> expected;
  std::vector<Timed> others;
  int failed = 0;
  const auto time = [&](const Candidate& candidate, bool is_offered) {
    const Block workspace(driver, std::max<std::size_t>(candidate.scratch_bytes, 1));
    const Command commands[] = {operands.command(problem, candidate, workspace)};
    operands.spoil_result();
    const double ms = RepeatedCommands(watch, commands).milliseconds(kRounds);
    const std::vector<float> result = operands.result();
    if (expected.empty()) expected = result;
    const double off = apart(expected, result);
    if (is_offered) {
      if (off > 1e-3) throw RunError(fmt::format("results are apart by {:.1e}", off));
      best = std::min(best.value_or(ms), ms);
      return;
    }
    others.push_back(
        {ms,
         fmt::format("{} {:.3f} ms, {:.1f} MiB, apart by {:.1e}", to_string(*candidate.algorithm),
                     ms, static_cast<double>(candidate.scratch_bytes) / (1 << 20), off)});
  };
  for (const bool is_offered : {true, false}) {
    if (!is_offered && !best) throw RunError("no engine that is offered runs");
    for (const Candidate& candidate : all) {
      const auto same = [&](const Candidate& other) {
        return other.algorithm == candidate.algorithm;
      };
      if (std::ranges::any_of(offered, same) != is_offered) continue;
      try {
        time(candidate, is_offered);
      } catch (const RunError&) {
        if (is_offered) throw;
        ++failed;
      }
    }
  }
  outcome.passed = true;
  outcome.detail = fmt::format("{} offered, the best {:.3f} ms; {} others", offered.size(), *best,
                               others.size());
  if (failed > 0) outcome.detail += fmt::format("; {} more do not run", failed);
  std::ranges::sort(others, {}, &Timed::ms);
  for (const Timed& timed : others) {
    if (timed.ms < *best) outcome.detail += "; faster: " + timed.text;
  }
}

}  // namespace

void probe_engines(Outcomes& outcomes, CudaDriver& driver, models::Scale scale) {
  const Stopwatch watch(driver, driver.make_stream());
  for (const char* const name : {"conv_autoenc", "convnet"}) {
    const models::Model model = models::find_model(name).make(scale, f32);
    for (ConvolutionProblem problem : problems_of(model)) {
      // A gradient in parts, made as groups, is asked for in the plain layout alone.
      for (const bool channels_last : {false, true}) {
        if (channels_last && problem.groups > 1) continue;
        problem.channels_last = channels_last;
        outcomes.run(fmt::format("{}, {}", name, models::name_of(scale)),
                     fmt::format("engines of {}", to_string(problem)),
                     [&](Outcome& o) { time_engines(o, driver, watch, problem); });
      }
    }
  }
}

}  // namespace metronome::gpu_check
