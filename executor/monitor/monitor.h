// The numbers of a training as it goes: in files that people and TensorBoard read, and on a page.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
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

  /// Serves a page with curves at this port of the machine, until the monitor ends; 0: a port that
  /// is free. Absent: no page.
  std::optional<int> port = std::nullopt;
  /// Who can reach the page: "127.0.0.1" programs of this machine, "0.0.0.0" everyone who reaches
  /// the machine. It only shows.
  std::string address = "127.0.0.1";
  std::string title = "Training";  ///< the page's
  /// The last step that there will be, for the page's progress; 0: not known.
  std::int64_t steps = 0;
};

/// Writes scalars into a folder of the run, shows them on a page, or both. Used from one thread at
/// a time. Each call throws RunError where a file cannot be written.
/// - scalars.csv: a line a point, `step,time,name,value`; time in seconds since 1970;
/// - events.out.tfevents.*: the same for TensorBoard (`tensorboard --logdir FOLDER`), f32 values;
/// - the page: at most 4,096 points of a name, evenly over its steps, and what comes from now on.
class Monitor {
 public:
  /// Makes the folder, or goes on in it; "": no files, only the page. Throws RunError if another
  /// process writes there, if it holds points and the run is a new one (nothing that was measured
  /// is overwritten), or if nobody can listen at the port.
  explicit Monitor(const std::string& folder, MonitorOptions options = {});
  /// The page then says that the training is finished, or, while an exception ends it, that it
  /// failed.
  ~Monitor();
  Monitor(const Monitor&) = delete;
  Monitor& operator=(const Monitor&) = delete;

  /// A point. Names with "/" are grouped by TensorBoard. Throws RunError for a name that is empty,
  /// no UTF-8 or has control characters, and for a step below `first_step`.
  void scalar(std::string_view name, std::int64_t step, double value);
  /// A line for the page, which shows the last hundred: a fault, a checkpoint that was saved.
  void note(std::string_view text);
  /// Writes out what came so far.
  void flush();
  /// The page's address, "http://127.0.0.1:8080/"; "" without a page.
  std::string page() const;

 private:
  class Files;
  class Page;
  std::string name_;  // of what errors are said of
  std::int64_t first_step_;
  std::unique_ptr<Files> files_;
  std::unique_ptr<Page> page_;
};

}  // namespace metronome
