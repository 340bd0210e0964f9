// How long threads of a team spin before they sleep, alone and beside other programs.
#include "executor/support/spin_limiter.h"

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <omp.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "executor/metronome.h"
#include "tests/executor/options.h"

namespace metronome::executor {
namespace {

using namespace std::chrono_literals;

/// libgomp reads its variables before anything else runs: the program starts again without those
/// that say how long to spin.
[[maybe_unused]] const bool started_without = [] {
  if (std::getenv("OMP_WAIT_POLICY") == nullptr && std::getenv("GOMP_SPINCOUNT") == nullptr) {
    return true;
  }
  unsetenv("OMP_WAIT_POLICY");
  unsetenv("GOMP_SPINCOUNT");
  std::ifstream in("/proc/self/cmdline", std::ios::binary);
  std::vector<std::string> words;
  for (std::string word; std::getline(in, word, '\0');) words.push_back(word);
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  execv("/proc/self/exe", arguments.data());
  return false;
}();

/// A team on one core never spins.
const bool one_core = [] {
  if (omp_get_num_procs() > 1) return false;
  fmt::print("skipped: threads that spin beside other programs (there is one core)\n");
  return true;
}();

double seconds_of_process() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

/// CPU time that each other thread of a team takes while it waits for the next region.
double milliseconds_spun(int threads) {
  constexpr int kRegions = 20;
  double seconds = 0;
  for (int i = 0; i < kRegions; ++i) {
    std::atomic<int> there = 0;
#pragma omp parallel num_threads(threads)
    there.fetch_add(1);
    const double before = seconds_of_process();
    std::this_thread::sleep_for(15ms);
    seconds += seconds_of_process() - before;
  }
  return 1e3 * seconds / kRegions / (threads - 1);
}

bool comes_to(const SpinLimiter& limiter, bool limits) {
  for (int i = 0; i < 1000 && limiter.limits() != limits; ++i) std::this_thread::sleep_for(10ms);
  return limiter.limits() == limits;
}

TEST_CASE("threads sleep soon while they wait for cores, and spin again after it" *
          doctest::skip(one_core)) {
  const int cores = omp_get_num_procs();
  constexpr double kSpins = 1, kSleeps = 0.3;
  constexpr double kUnknown = -1;
  std::atomic<double> waited = 0;
  SpinLimiter limiter(
      cores,
      [&]() -> std::optional<double> {
        if (waited == kUnknown) return std::nullopt;
        return waited / cores;  // threads of the team
      },
      20ms);
  const auto stays = [&](double at, bool limits) {
    waited = at;
    std::this_thread::sleep_for(200ms);
    return limiter.limits() == limits;
  };
  CHECK_FALSE(limiter.limits());
  CHECK(milliseconds_spun(cores) > kSpins);
  CHECK(stays(0.4, false));  // between the two bounds nothing changes
  CHECK(stays(kUnknown, false));
  waited = 0.9;
  REQUIRE(comes_to(limiter, true));
  CHECK(milliseconds_spun(cores) < kSleeps);
  CHECK(stays(0.4, true));
  CHECK(stays(kUnknown, true));
  waited = 0;
  REQUIRE(comes_to(limiter, false));
  CHECK(milliseconds_spun(cores) > kSpins);
}

TEST_CASE("teams of fewer threads than cores sleep soon, too" * doctest::skip(one_core)) {
  const int cores = omp_get_num_procs();
  SpinLimiter limiter(1, [] { return 0.9; }, 20ms);
  REQUIRE(comes_to(limiter, true));
  CHECK(milliseconds_spun(cores) < 0.3);
}

int limiters_of_process() {
  int count = 0;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::string name;
    std::getline(std::ifstream(task.path() / "comm") >> std::ws, name);
    if (name == "mt-spin-limiter") ++count;
  }
  return count;
}

TEST_CASE("a process has one, for as long as an executable has several threads") {
  CHECK(limit_spinning(1) == nullptr);
  Graph g("g");
  g.output("y", g.input("x", f32, {2}) * 2.0);
  const auto compiled = [&](int threads) {
    CompileOptions options = tests::untuned();
    options.threads = threads;
    return compile(g, cpu_replay(), options);
  };
  const Executable one = compiled(1);
  CHECK(limiters_of_process() == 0);
  {
    const Executable two = compiled(2), four = compiled(4);
    CHECK(limit_spinning(2) == limit_spinning(3));
    // The thread names itself.
    for (int i = 0; i < 1000 && limiters_of_process() == 0; ++i) std::this_thread::sleep_for(1ms);
    CHECK(limiters_of_process() == 1);
  }
  CHECK(limiters_of_process() == 0);
}

TEST_CASE("who says how long threads spin is obeyed") {
  for (const char* name : {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT"}) {
    setenv(name, "1000", 1);
    CHECK(limit_spinning(2) == nullptr);
    unsetenv(name);
  }
  CHECK(limit_spinning(2) != nullptr);
}

}  // namespace
}  // namespace metronome::executor
