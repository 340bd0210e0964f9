#include "executor/support/load.h"

#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string_view>
#include <thread>

namespace metronome::executor {
namespace {

constexpr double kShortest = 0.1;  // seconds: ten ticks
constexpr double kRecent = 1;      // seconds: what was before says nothing of now

double seconds_of(const timeval& time) {
  return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
}

}  // namespace

LoadSources sources_of_process() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  const bool known = sched_getaffinity(0, sizeof allowed, &allowed) == 0;
  return {.stat =
              [] {
                std::ifstream in("/proc/stat");
                return std::string(std::istreambuf_iterator<char>(in), {});
              },
          .may_use =
              [allowed, known](int core) {
                return !known || (core < CPU_SETSIZE && CPU_ISSET(core, &allowed));
              },
          .process_seconds =
              [] {
                rusage usage{};
                getrusage(RUSAGE_SELF, &usage);
                return seconds_of(usage.ru_utime) + seconds_of(usage.ru_stime);
              },
          .now =
              [] {
                const auto now = std::chrono::steady_clock::now().time_since_epoch();
                return std::chrono::duration<double>(now).count();
              },
          .wait =
              [](double seconds) {
                std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
              },
          .ticks_a_second = static_cast<double>(sysconf(_SC_CLK_TCK))};
}

LoadMeter::Sample LoadMeter::sample() {
  Sample result{.now = sources_.now(), .own = sources_.process_seconds()};
  std::istringstream lines(sources_.stat());
  for (std::string line; std::getline(lines, line);) {
    // "cpu0 user nice system idle iowait irq softirq ..."; the line "cpu " is of all.
    if (!line.starts_with("cpu") || line.size() < 4 || line[3] == ' ') continue;
    std::istringstream fields(line.substr(3));
    int core = 0;
    if (!(fields >> core) || !sources_.may_use(core)) continue;
    std::uint64_t ticks[7] = {};
    for (std::uint64_t& field : ticks) fields >> field;
    // Neither idle nor waiting.
    const std::uint64_t busy = ticks[0] + ticks[1] + ticks[2] + ticks[5] + ticks[6];
    result.busy += static_cast<double>(busy) / sources_.ticks_a_second;
    ++result.cores;
  }
  while (!recent_.empty() && recent_.front().now < result.now - kRecent) recent_.pop_front();
  recent_.push_back(result);
  return result;
}

double LoadMeter::share_since(Sample begin) {
  Sample end = sample();
  if (end.now - begin.now < kShortest) {
    const auto is_enough = [&](const Sample& early) { return end.now - early.now >= kShortest; };
    const auto early = std::find_if(recent_.rbegin(), recent_.rend(), is_enough);
    if (early != recent_.rend()) {
      begin = *early;
    } else {
      sources_.wait(kShortest - (end.now - begin.now));
      end = sample();
    }
  }
  if (end.cores == 0 || end.cores != begin.cores || end.now <= begin.now) return 0;
  const double others = (end.busy - begin.busy) - (end.own - begin.own);
  return std::clamp(others / ((end.now - begin.now) * end.cores), 0.0, 1.0);
}

}  // namespace metronome::executor
