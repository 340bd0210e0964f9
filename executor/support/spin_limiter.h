// How long threads of OpenMP spin before they sleep, where programs share cores.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>

namespace metronome::executor {

/// A thread of libgomp that waits for its team spins for 3 ms before it sleeps. Alone that is
/// the fastest way; beside other programs it takes from them, and from its own team, the core
/// that they need. libgomp spins for 100 turns only while it counts more threads than cores: so
/// while other programs leave too few cores, this keeps a team of its own asleep.
/// For all teams of the process. Takes a thread, "mt-spin-limiter", which looks at the load now and
/// then.
class SpinLimiter {
 public:
  using Period = std::chrono::duration<double>;
  /// As `ContentionMeter::share` says; called by the limiter's thread alone.
  using Contention = std::function<std::optional<double>()>;

  /// For teams of `threads`. Throws std::system_error where no thread can be had.
  explicit SpinLimiter(int threads, Contention contention = contention_of_process(),
                       Period period = std::chrono::milliseconds(500));
  ~SpinLimiter();
  SpinLimiter(const SpinLimiter&) = delete;
  SpinLimiter& operator=(const SpinLimiter&) = delete;

  /// For teams of that many too.
  void serve(int threads);
  /// Whether threads sleep soon at this moment.
  bool limits() const;

  static Contention contention_of_process();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// The one of this process, which lives as long as someone holds it. None for one thread, and where
/// OMP_WAIT_POLICY or GOMP_SPINCOUNT says how long to spin.
std::shared_ptr<SpinLimiter> limit_spinning(int threads);

}  // namespace metronome::executor
