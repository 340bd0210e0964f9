#include "models/commands/statistics.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <utility>

namespace metronome::statistics {
namespace {

double middle(std::vector<double> values) {
  if (values.empty()) return 0;
  const std::size_t half = values.size() / 2;
  std::ranges::nth_element(values, values.begin() + static_cast<std::ptrdiff_t>(half));
  const double upper = values[half];
  if (values.size() % 2 == 1) return upper;
  return (*std::max_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(half)) +
          upper) /
         2;
}

}  // namespace

double Samples::median() const { return middle(values); }

double Samples::mad() const {
  const double center = median();
  std::vector<double> deviations;
  deviations.reserve(values.size());
  for (const double value : values) deviations.push_back(std::abs(value - center));
  return middle(std::move(deviations));
}

Samples Rounds::ratios() const {
  Samples ratios;
  for (std::size_t i = 0; i < a.values.size(); ++i) {
    ratios.values.push_back(a.values[i] / b.values[i]);
  }
  return ratios;
}

Rounds interleave(const Side& a, const Side& b, int rounds) {
  Rounds result;
  const auto time = [](const Side& side, Samples& samples) {
    samples.values.push_back(milliseconds([&] { side.take(side.steps); }) / side.steps);
  };
  for (int round = 0; round < rounds; ++round) {
    if (round % 2 == 0) time(a, result.a);
    time(b, result.b);
    if (round % 2 == 1) time(a, result.a);
  }
  return result;
}

double milliseconds(const std::function<void()>& call) {
  const auto start = std::chrono::steady_clock::now();
  call();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start)
      .count();
}

}  // namespace metronome::statistics
