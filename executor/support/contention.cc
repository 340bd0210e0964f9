#include "executor/support/contention.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <utility>

namespace metronome::executor {

std::map<int, ThreadTime> thread_times_of_process() {
  std::map<int, ThreadTime> times;
  std::error_code unknown;
  for (std::filesystem::directory_iterator task("/proc/self/task", unknown), end;
       !unknown && task != end; task.increment(unknown)) {
    // "ran waited slices", the first two in nanoseconds. A thread may end meanwhile.
    std::ifstream in(task->path() / "schedstat");
    ThreadTime time;
    if (!(in >> time.ran >> time.waited)) continue;
    time.ran *= 1e-9, time.waited *= 1e-9;
    times.emplace(std::atoi(task->path().filename().c_str()), time);
  }
  return times;
}

ContentionMeter::ContentionMeter(ThreadTimes times) : times_(std::move(times)), last_(times_()) {}

std::optional<double> ContentionMeter::share() {
  constexpr double kShortest = 0.05;
  std::map<int, ThreadTime> now = times_();
  double ran = 0, waited = 0;
  for (const auto& [thread, time] : now) {
    const ThreadTime before = last_.contains(thread) ? last_.at(thread) : ThreadTime{};
    ran += time.ran - before.ran, waited += time.waited - before.waited;
  }
  if (ran + waited < kShortest) return std::nullopt;
  last_ = std::move(now);
  return waited / (ran + waited);
}

}  // namespace metronome::executor
