#include "executor/cuda/driver/stopwatch.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <exception>
#include <utility>
#include <vector>

#include "executor/support/log.h"

namespace metronome {
namespace {

constexpr double kGraphMs = 0.2;   // some fifty times what a launch takes
constexpr int kMostRepeats = 128;  // fill that with the shortest kernels, of some 1.5 us
constexpr int kWarmUp = 2;         // runs: first touch, clocks
constexpr int kLaunches = 10;      // in a round, without a graph

int copies_for(double ms) {
  return static_cast<int>(
      std::clamp(std::ceil(kGraphMs / std::max(ms, 1e-6)), 1.0, 1.0 * kMostRepeats));
}

}  // namespace

RepeatedCommands::RepeatedCommands(const Stopwatch& watch, std::span<const Command> commands)
    : watch_(watch), commands_(commands) {
  if (commands_.empty()) return;
  for (const Command& command : commands_) nodes_ += watch_.driver().prepare(command).nodes;
  enqueue(kWarmUp);
  copies_ = copies_for(watch_.milliseconds([&] { enqueue(1); }));
  graph_ = capture();
  if (!graph_) return;
  // A launch of few copies may have been the host's time: then there is room for more.
  const double ms = milliseconds();
  if (ms * copies_ >= kGraphMs / 2 || copies_ == kMostRepeats) return;
  release();
  copies_ = copies_for(ms);
  graph_ = capture();
}

RepeatedCommands::RepeatedCommands(RepeatedCommands&& other) noexcept
    : watch_(other.watch_),
      commands_(other.commands_),
      nodes_(other.nodes_),
      copies_(other.copies_),
      graph_(std::exchange(other.graph_, std::nullopt)) {}

double RepeatedCommands::milliseconds() const {
  if (commands_.empty()) return 0;
  if (!graph_) return watch_.milliseconds([&] { enqueue(kLaunches); }) / kLaunches;
  // The device has work until the launch that is timed has come: no round begins with a wait.
  watch_.driver().launch(*graph_, watch_.stream());
  return watch_.milliseconds([&] { watch_.driver().launch(*graph_, watch_.stream()); }) / copies_;
}

double RepeatedCommands::milliseconds(int rounds) const {
  std::vector<double> times;
  for (int round = 0; round < rounds; ++round) times.push_back(milliseconds());
  std::nth_element(times.begin(), times.begin() + rounds / 2, times.end());
  return times[static_cast<std::size_t>(rounds) / 2];
}

void RepeatedCommands::enqueue(int times) const {
  for (int i = 0; i < times; ++i) {
    for (const Command& command : commands_) watch_.driver().enqueue(command, watch_.stream());
  }
}

std::optional<CudaGraphExec> RepeatedCommands::capture() const {
  CudaDriver& driver = watch_.driver();
  driver.begin_capture(watch_.stream());
  try {
    enqueue(copies_);
    return driver.end_capture(watch_.stream(), copies_ * nodes_);
  } catch (const std::exception& error) {
    driver.abandon_capture(watch_.stream());
    if (driver.strict()) throw;
    executor::logger().debug("timed by launches, as copies cannot be captured: {}", error.what());
    return std::nullopt;
  }
}

void RepeatedCommands::release() noexcept {
  if (graph_) watch_.driver().release(*graph_);
  graph_.reset();
}

}  // namespace metronome
