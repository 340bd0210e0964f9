// Whether threads of this process get the cores they ask for, from what the system tells.
#include "executor/support/contention.h"

#include <fmt/format.h>
#include <sched.h>

#include <chrono>
#include <latch>
#include <map>
#include <optional>
#include <thread>
#include <vector>

#include "tests/doctest.h"

namespace metronome::executor::contention_test {
namespace {

using namespace std::chrono_literals;

TEST_CASE("the share is of the time that threads ran or waited since the last answer") {
  std::map<int, ThreadTime> threads = {{1, {.ran = 10, .waited = 5}}, {2, {.ran = 3, .waited = 9}}};
  ContentionMeter meter([&] { return threads; });
  CHECK_FALSE(meter.share());
  threads[1].ran += 2, threads[2].waited += 1;
  threads[3] = {.ran = 0.5, .waited = 0.5};  // began meanwhile
  CHECK(meter.share() == doctest::Approx(1.5 / 4));
  CHECK_FALSE(meter.share());
  threads.erase(2);  // ended
  threads[1].ran += 1;
  CHECK(meter.share() == doctest::Approx(0));
  // Too little to tell: it counts when more has come.
  threads[1].waited += 0.03;
  CHECK_FALSE(meter.share());
  threads[3].ran += 0.03;
  CHECK(meter.share() == doctest::Approx(0.5));
}

TEST_CASE("a system that tells nothing gives no share") {
  ContentionMeter meter([] { return std::map<int, ThreadTime>(); });
  CHECK_FALSE(meter.share());
}

TEST_CASE("threads that share one core wait for it") {
  if (thread_times_of_process().empty()) {
    fmt::print("skipped: the system does not tell how long threads wait (no schedstat)\n");
    return;
  }
  constexpr int kThreads = 3;
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(sched_getcpu(), &one);
  ContentionMeter meter;
  std::latch worked(kThreads + 1), read(kThreads + 1);
  std::vector<std::jthread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      sched_setaffinity(0, sizeof one, &one);
      using Clock = std::chrono::steady_clock;
      for (const auto end = Clock::now() + 300ms; Clock::now() < end;) {
      }
      worked.arrive_and_wait();
      read.arrive_and_wait();  // times are of threads that live
    });
  }
  worked.arrive_and_wait();
  const std::optional<double> share = meter.share();
  read.arrive_and_wait();
  CHECK(share > 0.4);  // two of three wait
}

}  // namespace
}  // namespace metronome::executor::contention_test
