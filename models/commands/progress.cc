#include "models/commands/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <utility>

namespace metronome::commands {
namespace {

// Often enough to look alive, seldom enough to cost nothing beside a step of 0.1 ms.
constexpr std::chrono::milliseconds kBetweenUpdates{100};
constexpr std::int64_t kBarWidth = 24;

std::string bar(std::int64_t done, std::int64_t all) {
  const std::int64_t filled = all == 0 ? kBarWidth : kBarWidth * done / all;
  std::string text(static_cast<std::size_t>(kBarWidth), ' ');
  std::fill_n(text.begin(), filled, '=');
  return text;
}

}  // namespace

Progress::Progress(std::int64_t epochs_done, std::int64_t epochs, std::int64_t steps_per_epoch)
    : terminal_(isatty(STDOUT_FILENO) == 1),
      epoch_(epochs_done),
      epochs_(epochs),
      steps_per_epoch_(steps_per_epoch) {}

void Progress::after_step(double loss) {
  ++step_;
  ++taken_;
  losses_ += loss;
  loss_ = losses_ / static_cast<double>(step_);
  if (terminal_ && Clock::now() - shown_ >= kBetweenUpdates) show(false);
}

void Progress::after_epoch(std::string score) {
  score_ = std::move(score);
  ++epoch_;
  step_ = 0;
  losses_ = 0;
  if (!terminal_) show(true);
}

void Progress::finish() {
  if (terminal_ && taken_ > 0) show(true);
}

void Progress::show(bool line_end) {
  shown_ = Clock::now();
  const double seconds = std::chrono::duration<double>(shown_ - start_).count();
  const double rate = static_cast<double>(taken_) / seconds;
  const std::int64_t all = epochs_ * steps_per_epoch_, done = epoch_ * steps_per_epoch_ + step_;
  fmt::print("{}epoch {:>2}/{} [{}] loss {:.4f}  test {}  {:.0f} steps/s  {:.1f} s left{}",
             terminal_ ? "\r\033[K" : "", std::min(epoch_ + (step_ > 0), epochs_), epochs_,
             bar(done, all), loss_, score_.empty() ? "-" : score_, rate,
             static_cast<double>(all - done) / rate, line_end ? "\n" : "");
  std::fflush(stdout);
}

}  // namespace metronome::commands
