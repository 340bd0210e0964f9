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
#include <utility>

namespace metronome::executor {
namespace {

constexpr double kShortest = 0.1;  // seconds: ten ticks
constexpr double kLongest = 10;    // seconds: what was before says nothing of now

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
          .own_seconds =
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
          .ticks_a_second = static_cast<double>(sysconf(_SC_CLK_TCK))};
}

LoadMeter::LoadMeter(LoadSources sources) : sources_(std::move(sources)), last_(sample()) {}

double LoadMeter::share() {
  const std::optional<Sample> now = sample();
  const bool follows = now && last_ && now->cores == last_->cores;
  if (!follows || now->now - last_->now > kLongest) {
    last_ = now;
    return share_ = 0;
  }
  const double seconds = now->now - last_->now;
  if (seconds < kShortest) return share_;
  const double others = (now->busy - last_->busy) - (now->own - last_->own);
  share_ = std::clamp(others / (seconds * now->cores), 0.0, 1.0);
  last_ = now;
  return share_;
}

std::optional<LoadMeter::Sample> LoadMeter::sample() const {
  Sample result{.now = sources_.now(), .own = sources_.own_seconds()};
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
  if (result.cores == 0) return std::nullopt;
  return result;
}

}  // namespace metronome::executor
