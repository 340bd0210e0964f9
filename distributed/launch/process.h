// One process that was started from here.
#pragma once

#include <sys/types.h>

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace metronome::distributed {

/// How a process ended.
struct ProcessEnd {
  int status = 0;  ///< as a shell says it: what it returned, or 128 and the signal's number
  int signal = 0;  ///< that ended it; 0: none did
};

/// Killed when it is destroyed while it runs, and when the process that started it is.
class Process {
 public:
  /// Runs a program with `changed` variables beside its starter's own; all signals are open to it.
  /// Throws RunError if it cannot be started.
  Process(const std::vector<std::string>& command,
          const std::map<std::string, std::string>& changed);
  Process(Process&& other) noexcept;
  Process& operator=(Process&&) = delete;
  ~Process();

  bool runs() const { return !end_; }
  /// Looks whether it has ended, without waiting; true if it has just now.
  bool ends();
  /// Waits for its end.
  void wait();
  /// Only of one that has ended.
  const ProcessEnd& end() const { return *end_; }
  void send(int signal) const;

 private:
  bool take_end(int flags);

  pid_t id_;
  std::optional<ProcessEnd> end_;
};

}  // namespace metronome::distributed
