#include "distributed/launch/launch.h"

#include <fmt/format.h>
#include <pthread.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "distributed/launch/process.h"
#include "distributed/store/store.h"
#include "graph/ir/error.h"

namespace metronome::distributed {
namespace {

using Clock = std::chrono::steady_clock;

constexpr const char* kHost = "localhost";
constexpr Milliseconds kStoreLimit{30'000};
/// Signals wake the launcher; this is how late it may kill.
constexpr timespec kGlance{0, 100'000'000};

/// Blocked while it lives, so that they can be waited for; also for threads that begin meanwhile.
class Signals {
 public:
  Signals() {
    sigemptyset(&set_);
    for (const int signal : {SIGINT, SIGTERM, SIGCHLD}) sigaddset(&set_, signal);
    ::pthread_sigmask(SIG_BLOCK, &set_, &before_);
  }
  ~Signals() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;

  /// SIGINT or SIGTERM; 0 if a process ended, or nothing came for a while.
  int next() const {
    const int signal = ::sigtimedwait(&set_, nullptr, &kGlance);
    return signal == SIGINT || signal == SIGTERM ? signal : 0;
  }

 private:
  sigset_t set_, before_;
};

std::map<std::string, std::string> variables_of(int rank, int ranks, int port) {
  return {{"RANK", std::to_string(rank)},
          {"WORLD_SIZE", std::to_string(ranks)},
          {"LOCAL_RANK", std::to_string(rank)},
          {"LOCAL_WORLD_SIZE", std::to_string(ranks)},
          {"MASTER_ADDR", kHost},
          {"MASTER_PORT", std::to_string(port)},
          {"TORCHELASTIC_RESTART_COUNT", "0"},
          {"TORCHELASTIC_USE_AGENT_STORE", "True"}};
}

class RankProcesses {
 public:
  RankProcesses(int ranks, const std::vector<std::string>& command, int port) {
    for (int rank = 0; rank < ranks; ++rank) {
      processes_.emplace_back(command, variables_of(rank, ranks, port));
    }
  }

  int wait(const Signals& signals, const LaunchOptions& options) {
    std::optional<int> status;
    const auto never = Clock::time_point::max();
    Clock::time_point ask_at = never, kill_at = never;
    const auto end = [&](int why, Milliseconds until_asked) {
      if (status) return;
      status = why;
      ask_at = Clock::now() + until_asked;
      kill_at = ask_at + options.grace;
    };
    while (any_runs()) {
      if (const int signal = signals.next(); signal != 0) {
        send(signal);
        end(128 + signal, Milliseconds(0));
        ask_at = never;  // they were
      }
      for (const int rank : take_failed()) {
        if (status) continue;  // the others end, too
        say(rank);
        end(processes_[rank].end().status, options.last_words);
      }
      if (Clock::now() >= ask_at) {
        send(SIGTERM);
        ask_at = never;
      }
      if (Clock::now() >= kill_at) send(SIGKILL);
    }
    return status.value_or(0);
  }

 private:
  bool any_runs() const {
    return std::any_of(processes_.begin(), processes_.end(),
                       [](const Process& process) { return process.runs(); });
  }
  void send(int signal) const {
    for (const Process& process : processes_) process.send(signal);
  }

  /// Ranks that have ended since the last call, and not as they should.
  std::vector<int> take_failed() {
    std::vector<int> failed;
    for (std::size_t rank = 0; rank < processes_.size(); ++rank) {
      Process& process = processes_[rank];
      if (process.ends() && process.end().status != 0) failed.push_back(static_cast<int>(rank));
    }
    return failed;
  }

  void say(int rank) const {
    const ProcessEnd& end = processes_[rank].end();
    fmt::print(stderr, "rank {} of {} {}: the others end\n", rank, processes_.size(),
               end.signal != 0 ? fmt::format("was ended by SIG{}", ::sigabbrev_np(end.signal))
                               : fmt::format("ended with status {}", end.status));
  }

  std::vector<Process> processes_;
};

}  // namespace

int launch(int ranks, const std::vector<std::string>& command, const LaunchOptions& options) {
  if (ranks < 1) throw RunError(fmt::format("{} ranks: there must be 1 or more", ranks));
  if (command.empty()) throw RunError("no program is named that ranks could run");
  const Signals signals;
  const Store store = Store::serve(kHost, 0, kStoreLimit);
  return RankProcesses(ranks, command, store.port()).wait(signals, options);
}

}  // namespace metronome::distributed
