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

#include "executor/support/log.h"

namespace metronome::executor {
namespace {

// Shares of all cores that teams and other programs ask for together: above kTooMuch spinning is
// cut short, below kEnough it is free again.
constexpr double kTooMuch = 1.1, kEnough = 1.05;

/// Waits until it is told to stop, or for that long.
class Rest {
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
  Rest().whole(std::move(stop));
}

}  // namespace

struct SpinLimiter::Impl {
  Impl(int served, LoadSources given, Period between)
      : threads(served), meter(std::move(given)), period(between) {}

  void watch(std::stop_token stop) {
    pthread_setname_np(pthread_self(), "mt-spin-limiter");  // at most 15 characters
    const double cores = omp_get_num_procs();
    std::optional<std::jthread> team;
    for (Rest rest; !stop.stop_requested(); rest.at_most(stop, period)) {
      const double others = meter.share() * cores;
      const double wanted = (threads + others) / cores;
      if (!team && wanted > kTooMuch) {
        // With the teams served, one more than there are cores.
        const int size = std::max(2, static_cast<int>(cores) - threads + 2);
        try {
          team.emplace(sleep_as_team, size);
        } catch (const std::system_error&) {
          continue;  // perhaps the next time
        }
      } else if (team && wanted < kEnough) {
        team.reset();
      } else {
        continue;
      }
      limits = team.has_value();
      logger().debug("other programs take {:.1f} of {:.0f} cores: threads that wait {}", others,
                     cores, team ? "sleep soon" : "spin for a while");
    }
  }

  std::atomic<int> threads;
  LoadMeter meter;
  const Period period;
  std::atomic<bool> limits = false;
  std::jthread watcher;  // last: ends first
};

SpinLimiter::SpinLimiter(int threads, LoadSources sources, Period period)
    : impl_(std::make_unique<Impl>(threads, std::move(sources), period)) {
  impl_->watcher = std::jthread([impl = impl_.get()](std::stop_token stop) { impl->watch(stop); });
}
SpinLimiter::~SpinLimiter() = default;

void SpinLimiter::serve(int threads) {
  int served = impl_->threads;
  while (served < threads && !impl_->threads.compare_exchange_weak(served, threads)) {
  }
}

bool SpinLimiter::limits() const { return impl_->limits; }

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
