// How busy other programs keep the cores that this process may use.
#pragma once

#include <functional>
#include <optional>
#include <string>

namespace metronome::executor {

/// The sources from which a `LoadMeter` reads; tests put others in their place.
struct LoadSources {
  std::function<std::string()> stat;      ///< the text of /proc/stat; empty where there is none
  std::function<bool(int core)> may_use;  ///< this process may run on that core
  std::function<double()> own_seconds;    ///< of CPU time that this process took, on all cores
  std::function<double()> now;            ///< seconds of a steady clock
  double ticks_a_second = 100;            ///< of /proc/stat
};
LoadSources sources_of_process();

/// Measures the share of the cores that other programs of the machine took lately. Not for several
/// threads at once.
class LoadMeter {
 public:
  explicit LoadMeter(LoadSources sources = sources_of_process());
  /// Between the calls that are at least 0.1 s apart, the share of all those cores' time, from 0 to
  /// 1; of a call that comes earlier the last answer. 0 at first, after 10 s without a call, and
  /// where the system does not tell.
  double share();

 private:
  struct Sample {
    double now = 0, own = 0;
    double busy = 0;  ///< seconds
    int cores = 0;
  };
  std::optional<Sample> sample() const;

  LoadSources sources_;
  std::optional<Sample> last_;
  double share_ = 0;
};

}  // namespace metronome::executor
