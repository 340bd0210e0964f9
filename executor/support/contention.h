// How long the threads of this process wait for a core that others have.
#pragma once

#include <functional>
#include <map>
#include <optional>

namespace metronome::executor {

/// Seconds that a thread had a core, and that it was ready to run and had none, since it began.
struct ThreadTime {
  double ran = 0, waited = 0;
};

/// From where a `ContentionMeter` reads: each thread of the process by its number. Tests put others
/// in its place.
using ThreadTimes = std::function<std::map<int, ThreadTime>()>;
/// From /proc/self/task/*/schedstat; none where the system does not tell.
std::map<int, ThreadTime> thread_times_of_process();

/// Measures whether threads get the cores they ask for. Not for several threads at once.
class ContentionMeter {
 public:
  explicit ContentionMeter(ThreadTimes times = thread_times_of_process);
  /// Between the last call (or the construction) and this one, the share, from 0 to 1, of the time
  /// that threads waited for a core in the time that they ran or waited. None, and the time goes
  /// on, while that is less than 50 ms of all together; so what other programs do while this one
  /// does nothing does not count.
  std::optional<double> share();

 private:
  ThreadTimes times_;
  std::map<int, ThreadTime> last_;
};

}  // namespace metronome::executor
