// Gradients beside finite differences.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "graph/ir/error.h"
#include "graph/ir/graph.h"
#include "tests/aten.h"
#include "tests/random/check.h"
#include "tests/random/epilogue.h"
#include "tests/random/run.h"

namespace metronome::random_programs {
namespace {

constexpr double kSlopeTolerance = 1e-6;

/// The loss as a function of everything that floats: parameters and inputs.
class Losses {
 public:
  Losses(Executable& step, const Graph& graph, std::vector<Feed> feeds)
      : step_(step), loss_(graph.loss()), feeds_(std::move(feeds)) {
    for (const std::string& path : step.storages()) {
      storages_.push_back({path, step.get(path).clone()});
    }
  }

  /// With `shift` added to the storage or input of that name.
  double at(const std::string& name, const at::Tensor& shift) {
    for (const auto& [path, tensor] : storages_) {
      step_.set(path, path == name ? tensor + shift : tensor);
    }
    std::vector<Feed> feeds = feeds_;
    for (Feed& feed : feeds) {
      if (feed.name == name) feed.tensor() = feed.tensor() + shift;
    }
    step_.run(feeds);
    return step_.read_scalar(loss_);
  }

 private:
  Executable& step_;
  Value loss_;
  std::vector<Feed> feeds_;
  std::vector<std::pair<std::string, at::Tensor>> storages_;
};

struct Slope {
  double value = 0;
  bool smooth = false;  ///< near here the loss has neither kink nor jump that could be seen
};

/// The slope along a direction by differences over +-e, corrected by those over +-e/2 (Richardson).
Slope slope_of(Losses& losses, const std::string& name, const at::Tensor& direction, double e,
               double scale) {
  const double here = losses.at(name, direction * 0.0);
  const auto slopes = [&](double step) {
    const double up = losses.at(name, direction * step), down = losses.at(name, direction * -step);
    return std::pair((up - here) / step, (here - down) / step);
  };
  const auto [up, down] = slopes(e);
  const auto [half_up, half_down] = slopes(e / 2);
  const double whole = (up + down) / 2, half = (half_up + half_down) / 2;
  // The noise that rounding of the loss leaves in a difference over e.
  const double noise = 1e-13 * std::max(1.0, std::abs(here)) / e;
  const double bend = std::abs(up - down), half_bend = std::abs(half_up - half_down);
  const bool smooth = std::abs(whole - half) <= kSlopeTolerance * scale / 2 + noise &&
                      half_bend <= 0.75 * bend + kSlopeTolerance * scale / 2 + noise;
  return {(4 * half - whole) / 3, smooth};
}

/// False where a gradient is not meant to be the loss's slope.
bool has_slopes(const Chain& chain) {
  return std::none_of(chain.begin(), chain.end(), [](const Step& step) {
    for (const char* what : {"stop_gradient", "cast(f32)", "cast(i32)"}) {
      if (step.kind.find(what) != std::string::npos) return true;
    }
    return !std::all_of(step.bodies.begin(), step.bodies.end(), has_slopes);
  });
}

std::optional<Failure> compare(const Program& original, Tally* tally) {
  Program program = original;
  program.optimizer = kDescent;  // what a parameter loses is its gradient
  program.extras = kKeepsGradient;
  Builder built(program);
  built.build();
  const Graph& graph = built.graph();
  Executable step = compile(graph, cpu_replay(), options_for(program));
  const std::vector<Feed> fed = feeds(graph, program.seed, static_cast<int>(program.seed % 3));
  Losses losses(step, graph, fed);

  std::vector<std::pair<std::string, at::Tensor>> gradients;
  std::vector<std::pair<std::string, at::Tensor>> before;
  for (const Storage& s : graph.data().storages()) {
    if (s.kind == StorageKind::parameter) before.push_back({s.path, step.get(s.path).clone()});
  }
  step.run(fed);
  double largest = 1e-3;
  for (const auto& [path, tensor] : before) gradients.push_back({path, tensor - step.get(path)});
  gradients.push_back({"x", step.read("gradient of x").clone()});
  for (const auto& [path, gradient] : gradients) {
    largest = std::max(largest, gradient.abs().max().item<double>());
  }
  if (tally != nullptr) ++tally->gradient_programs;
  for (const auto& [path, gradient] : gradients) {
    const at::Tensor angles = at::arange(gradient.numel(), at::TensorOptions(at::kDouble));
    const at::Tensor direction = at::cos(angles * 2.3 + 0.4).reshape(gradient.sizes());
    const double expected = (gradient * direction).sum().item<double>();
    const double scale = std::max(largest, std::abs(expected));
    Slope slope;
    for (const double e : {1e-4, 1e-5, 1e-3}) {
      slope = slope_of(losses, path, direction, e, scale);
      if (slope.smooth) break;
    }
    if (!slope.smooth) {
      if (tally != nullptr) ++tally->kinks;
      continue;
    }
    const double difference = std::abs(slope.value - expected) / scale;
    if (!(difference <= 2 * kSlopeTolerance)) {
      return Failure{"gradients are slopes",
                     fmt::format("of \"{}\" along a direction: {}, but the loss rises by {}", path,
                                 expected, slope.value)};
    }
    if (tally != nullptr) {
      ++tally->gradients;
      tally->largest_slope_difference = std::max(tally->largest_slope_difference, difference);
    }
  }
  return std::nullopt;
}

}  // namespace

std::optional<Failure> check_gradients(const Program& program, Tally* tally) {
  if (!has_slopes(program.steps)) return std::nullopt;
  try {
    return compare(program, tally);
  } catch (const std::exception& error) {
    return Failure{"nothing throws", error.what()};
  }
}

}  // namespace metronome::random_programs
