// The numbers of a training as it goes, in files that people and TensorBoard read.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace metronome {

struct MonitorOptions {
  /// The step that a resumed training goes on with, as its points count: what an earlier run left
  /// from there on is dropped, so that no point is there twice. 0: a new run.
  std::int64_t first_step = 0;
  /// Points are written out when the last time is so long ago. A run that is killed loses later
  /// ones.
  double flush_seconds = 1;
};

/// Writes scalars into a folder of the run. Used from one thread at a time. Each call throws
/// RunError where a file cannot be written.
/// - scalars.csv: a line a point, `step,time,name,value`; time in seconds since 1970;
/// - events.out.tfevents.*: the same for TensorBoard (`tensorboard --logdir FOLDER`), f32 values.
class Monitor {
 public:
  /// Makes the folder, or goes on in it. Throws RunError if another process writes there, or if it
  /// holds points and the run is a new one: nothing that was measured is overwritten.
  explicit Monitor(const std::string& folder, MonitorOptions options = {});
  ~Monitor();
  Monitor(const Monitor&) = delete;
  Monitor& operator=(const Monitor&) = delete;

  /// A point. Names with "/" are grouped by TensorBoard. Throws RunError for a name that is empty,
  /// no UTF-8 or has control characters, and for a step below `first_step`.
  void scalar(std::string_view name, std::int64_t step, double value);
  /// Writes out what came so far.
  void flush();

 private:
  class Files;
  std::unique_ptr<Files> files_;
};

}  // namespace metronome
