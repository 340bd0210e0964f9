// The device's own records of the work that it did and of the time that it took: CUPTI's
// activities.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "executor/cuda/libraries/library.h"

namespace metronome::executor::runtime {

/// The time that a node of a graph took. Several records may be of one node.
struct NodeActivity {
  std::uint64_t node = 0;  ///< CUPTI's number of it in the executable graph
  std::uint64_t begin_ns = 0, end_ns = 0;

  bool operator==(const NodeActivity&) const = default;
};

/// Activities of this process. One at a time in a process. CUPTI is loaded when it is made; once it
/// has recorded it stays attached, and each call of CUDA takes a little longer until the program
/// ends.
class Activities {
 public:
  /// Throws RunError where CUPTI cannot be loaded, or refuses: another tool watches this process,
  /// or there is no driver.
  Activities();
  ~Activities();
  Activities(const Activities&) = delete;
  Activities& operator=(const Activities&) = delete;

  /// Records from here on. Throws RunError where CUPTI refuses.
  void begin();
  /// Labels the work that this thread enqueues from here on, until the next label.
  void label(std::uint64_t label);
  /// Ends it. The device is through with what was enqueued. Throws RunError where CUPTI refuses;
  /// warns of records that it dropped.
  void end();

  /// Microseconds that kernels, copies and memsets of each label took, added up; labels of which
  /// there is no record are not among them.
  std::map<std::uint64_t, double> by_label() const;
  /// Work of graphs' nodes, in the order in which it began.
  std::vector<NodeActivity> of_nodes() const;

  /// CUPTI.
  const libraries::Library& library() const { return library_; }

 private:
  void disable() noexcept;

  libraries::Library library_;
  bool labelled_ = false;
};

}  // namespace metronome::executor::runtime
