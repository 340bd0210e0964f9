// How busy other programs keep the cores that this process may use.
#pragma once

#include <deque>
#include <functional>
#include <string>
#include <utility>

namespace metronome::executor {

/// The sources from which a `LoadMeter` reads; tests put others in their place.
struct LoadSources {
  std::function<std::string()> stat;        ///< the text of /proc/stat; empty where there is none
  std::function<bool(int core)> may_use;    ///< this process may run on that core
  std::function<double()> process_seconds;  ///< of CPU time that this process took, on all cores
  std::function<double()> now;              ///< seconds of a steady clock
  std::function<void(double seconds)> wait;
  double ticks_a_second = 100;  ///< of /proc/stat
};
LoadSources sources_of_process();

/// Measures the share of the cores that other programs of the machine take while something is done.
/// It is asked before and after: what one answer says of an earlier time says nothing of this one.
///
///   const LoadMeter::Sample begin = meter.sample();
///   time_kernels();
///   const double others = meter.share_since(begin);
///
/// Not for several threads at once.
class LoadMeter {
 public:
  /// The numbers of one moment, in seconds.
  struct Sample {
    double now = 0;
    double own = 0;   ///< CPU time of this process
    double busy = 0;  ///< CPU time of all programs, on the cores that this process may use
    int cores = 0;    ///< 0 where the system does not tell
  };

  explicit LoadMeter(LoadSources sources = sources_of_process()) : sources_(std::move(sources)) {}
  Sample sample();
  /// The share of all those cores' time since `begin`, from 0 to 1; 0 where the system does not
  /// tell. It counts in ticks of 10 ms, so that less than 0.1 s says nothing. A shorter time counts
  /// from an earlier sample, which is at most 1 s old; if there is none, this waits until 0.1 s are
  /// over.
  double share_since(Sample begin);

 private:
  LoadSources sources_;
  std::deque<Sample> recent_;  // of the last second
};

}  // namespace metronome::executor
