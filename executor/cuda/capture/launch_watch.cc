#include "executor/cuda/capture/launch_watch.h"

#include <fmt/format.h>
#include <pthread.h>

#include <condition_variable>
#include <cstdint>
#include <cstdlib>
#include <mutex>
#include <optional>
#include <utility>

#include "executor/support/log.h"
#include "graph/ir/error.h"

namespace metronome::executor::capture {

std::optional<std::chrono::milliseconds> launch_limit() {
  constexpr double kMostSeconds = 1e6;
  const char* given = std::getenv("METRONOME_LAUNCH_LIMIT");
  if (given == nullptr || *given == '\0') return std::nullopt;
  char* end = nullptr;
  const double seconds = std::strtod(given, &end);
  if (*end != '\0' || !(seconds >= 1e-3 && seconds <= kMostSeconds)) {
    throw RunError(
        fmt::format("METRONOME_LAUNCH_LIMIT={}: give seconds, 0.001 to {:g}", given, kMostSeconds));
  }
  return std::chrono::milliseconds(static_cast<std::int64_t>(seconds * 1e3));
}

namespace {

/// `what` has not come back for so long: a warning, or the end of the process.
void tell(const std::string& what, std::chrono::milliseconds patience, bool ends) {
  const std::string line = fmt::format("{} has not come back for {:g} s", what,
                                       std::chrono::duration<double>(patience).count());
  if (!ends) {
    logger().warn("{}", line);
    return;
  }
  logger().critical("{}: METRONOME_LAUNCH_LIMIT ends the process", line);
  std::abort();
}

void watch_launch(const std::stop_token& stop, const std::string& what,
                  std::chrono::milliseconds patience, bool ends) {
  pthread_setname_np(pthread_self(), "mt-launch-watch");  // at most 15 characters
  std::mutex mutex;
  std::condition_variable_any never;
  std::unique_lock lock(mutex);
  never.wait_for(lock, stop, patience, [] { return false; });
  if (stop.stop_requested()) return;
  tell(what + ": its first launch", patience, ends);
}

}  // namespace

LaunchWatch::LaunchWatch(std::string what, std::chrono::milliseconds patience) {
  const std::optional<std::chrono::milliseconds> given = launch_limit();
  thread_ = std::jthread([what = std::move(what), patience = given.value_or(patience),
                          ends = given.has_value()](const std::stop_token& stop) {
    watch_launch(stop, what, patience, ends);
  });
}

void StepWatch::look() {
  const Clock::time_point now = Clock::now();
  if (!begin_) {
    const std::optional<std::chrono::milliseconds> limit = launch_limit();
    patience_ = limit.value_or(patience_);
    ends_ = limit.has_value();
    begin_ = now;
  } else if (!told_ && now - *begin_ >= patience_) {
    told_ = true;
    tell(what_(), patience_, ends_);
  }
}

}  // namespace metronome::executor::capture
