// Every kernel that a device would be asked to launch, with what its code takes.
#pragma once

#include <map>
#include <string>
#include <typeindex>
#include <vector>

#include "executor/cuda/driver/null_driver.h"
#include "tests/gpu/launch_limits.h"

namespace metronome {

/// Keeps what launches ask for.
class LaunchListener final : public NullDriver {
 public:
  CapturedNodes prepare(const Command& command) override;

  std::map<std::string, Launched> generated;     ///< by source
  std::map<std::type_index, Launched> compiled;  ///< ahead, by type; bounds are not known here
};

/// A kernel's code on one architecture beside what launches ask of it.
struct KernelRow {
  Launched launched;
  std::string architecture;
  Resources taken;
};

class KernelTable {
 public:
  /// Adds the row, and to `troubles` what is wrong with it.
  void add(KernelRow row);

  std::size_t size() const { return rows_.size(); }
  /// "kernel  arch  threads  bound  registers  spilled  shared", those first that spill or
  /// take the most registers a block.
  std::string text(std::size_t most_rows) const;
  /// Writes all of it to `name` in the folder that Bazel keeps for a test's outputs, if there is
  /// one.
  void keep(const std::string& name) const;

  std::vector<std::string> troubles;

 private:
  std::vector<KernelRow> rows_;
};

/// The bound that a generated source states; 0 where it states none.
int bound_of(const std::string& source);

}  // namespace metronome
