#include "benchmarks/machine.h"

#include <sched.h>
#include <stdlib.h>

#include <ATen/Version.h>
#include <torch/headeronly/version.h>

#include <algorithm>
#include <atomic>
#include <cctype>
#include <chrono>
#include <fstream>
#include <functional>
#include <limits>
#include <thread>
#include <utility>
#include <vector>

namespace metronome::benchmarks {
namespace {

std::string cpu_name() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  }
  return "unknown processor";
}

std::vector<int> cores() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof(set), &set) != 0) return {0};
  std::vector<int> cores;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &set)) cores.push_back(core);
  }
  return cores;
}

/// Runs `body` on a thread of its own, on that core.
std::jthread run_on_core(int core, std::function<void()> body) {
  return std::jthread([core, body = std::move(body)] {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(core, &set);
    static_cast<void>(sched_setaffinity(0, sizeof(set), &set));  // else wherever it runs
    body();
  });
}

/// The least of some bursts, as others may run there in between.
double round_trip_ns(int first, int last) {
  constexpr int kBursts = 5, kTrips = 2000;
  alignas(64) std::atomic<int> word = 0;
  alignas(64) double least = std::numeric_limits<double>::infinity();
  const auto wait_for = [&](int value) {
    while (word.load(std::memory_order_acquire) != value) {
    }
  };
  std::jthread there = run_on_core(last, [&] {
    for (int i = 0; i < kBursts * kTrips; ++i) {
      wait_for(2 * i + 1);
      word.store(2 * i + 2, std::memory_order_release);
    }
  });
  std::jthread here = run_on_core(first, [&] {
    for (int burst = 0; burst < kBursts; ++burst) {
      const auto begin = std::chrono::steady_clock::now();
      for (int i = burst * kTrips; i < (burst + 1) * kTrips; ++i) {
        word.store(2 * i + 1, std::memory_order_release);
        wait_for(2 * i + 2);
      }
      const std::chrono::duration<double, std::nano> taken =
          std::chrono::steady_clock::now() - begin;
      least = std::min(least, taken.count() / kTrips);
    }
  });
  here.join(), there.join();
  return least;
}

}  // namespace

Machine this_machine() {
  Machine machine;
  machine.cpu = cpu_name();
  const std::vector<int> all = cores();
  machine.cores = static_cast<int>(all.size());
  if (all.size() > 1) machine.core_round_trip_ns = round_trip_ns(all.front(), all.back());
  if (getloadavg(&machine.load, 1) != 1) machine.load = 0;
  machine.isa = at::get_cpu_capability();
  std::ranges::transform(machine.isa, machine.isa.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  machine.libtorch = TORCH_VERSION;
  return machine;
}

}  // namespace metronome::benchmarks
