#include "executor/support/spin_limiter.h"

#include <omp.h>
#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <optional>
#include <stop_token>
#include <system_error>
#include <thread>
#include <utility>

#include "executor/support/contention.h"
#include "executor/support/log.h"

namespace metronome::executor {
namespace {

// Threads of a team that wait for a core at a time: above kTooMuch spinning is cut short, below
// kEnough it is free again. One other program that is always busy makes it 0.6 to 1, programs that
// take turns with this one, whose threads still spin when a turn begins, 0.1 to 0.4.
constexpr double kTooMuch = 0.5, kEnough = 0.3;

/// Waits until it is told to stop, or for that long.
class StopWait {
 public:
  void whole(std::stop_token stop) {
    std::unique_lock lock(mutex_);
    wake_.wait(lock, std::move(stop), [] { return false; });
  }
  void at_most(std::stop_token stop, SpinLimiter::Period period) {
    std::unique_lock lock(mutex_);
    wake_.wait_for(lock, std::move(stop), period, [] { return false; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable_any wake_;
};

/// Opens a team, which libgomp counts, and goes to sleep with it. The team ends with its thread.
void sleep_as_team(std::stop_token stop, int threads) {
  pthread_setname_np(pthread_self(), "mt-sleeper");  // and what it starts
  std::atomic<int> begun = 0;
#pragma omp parallel num_threads(threads)
  begun.fetch_add(1, std::memory_order_relaxed);
  StopWait().whole(std::move(stop));
}

}  // namespace

struct SpinLimiter::Impl {
  Impl(int served, Contention given, Period between)
      : threads(served), contention(std::move(given)), period(between) {}

  void watch(std::stop_token stop) {
    pthread_setname_np(pthread_self(), "mt-spin-limiter");  // at most 15 characters
    std::optional<std::jthread> team;
    for (StopWait rest; !stop.stop_requested(); rest.at_most(stop, period)) {
      const std::optional<double> share = contention();
      if (!share) continue;
      const double waiting = *share * threads;
      if (!team && waiting > kTooMuch) {
        // With the teams served, one more than there are cores.
        const int size = std::max(2, omp_get_num_procs() - threads + 2);
        try {
          team.emplace(sleep_as_team, size);
        } catch (const std::system_error&) {
          continue;  // perhaps the next time
        }
      } else if (team && waiting < kEnough) {
        team.reset();
      } else {
        continue;
      }
      limits = team.has_value();
      logger().debug("of {} threads {:.2f} wait for a core: those of a team {}", threads.load(),
                     waiting, team ? "sleep soon" : "spin for a while");
    }
  }

  std::atomic<int> threads;
  const Contention contention;
  const Period period;
  std::atomic<bool> limits = false;
  std::jthread watcher;  // last: ends first
};

SpinLimiter::SpinLimiter(int threads, Contention contention, Period period)
    : impl_(std::make_unique<Impl>(threads, std::move(contention), period)) {
  impl_->watcher = std::jthread([impl = impl_.get()](std::stop_token stop) { impl->watch(stop); });
}
SpinLimiter::~SpinLimiter() = default;

void SpinLimiter::serve(int threads) {
  int served = impl_->threads;
  while (served < threads && !impl_->threads.compare_exchange_weak(served, threads)) {
  }
}

bool SpinLimiter::limits() const { return impl_->limits; }

SpinLimiter::Contention SpinLimiter::contention_of_process() {
  return [meter = ContentionMeter()]() mutable { return meter.share(); };
}

std::shared_ptr<SpinLimiter> limit_spinning(int threads) {
  const bool said =
      std::getenv("OMP_WAIT_POLICY") != nullptr || std::getenv("GOMP_SPINCOUNT") != nullptr;
  if (threads <= 1 || said) return nullptr;
  static std::mutex mutex;
  static std::weak_ptr<SpinLimiter> known;
  const std::scoped_lock lock(mutex);
  std::shared_ptr<SpinLimiter> limiter = known.lock();
  if (limiter) {
    limiter->serve(threads);
    return limiter;
  }
  try {
    limiter = std::make_shared<SpinLimiter>(threads);
  } catch (const std::system_error& error) {
    logger().debug("no thread can be had to limit spinning: {}", error.what());
    return nullptr;
  }
  known = limiter;
  return limiter;
}

}  // namespace metronome::executor
