// Numbers of optimizers that users set between steps. Internal to executor/.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "executor/engine/ranks.h"
#include "executor/run/declared_graphs.h"
#include "executor/run/storage_access.h"
#include "executor/support/tensor.h"

namespace metronome::executor {

/// Those that may be declared `Settable` (ops/optimizers/settable.h).
enum class SettableNumber : std::uint8_t { learning_rate, weight_decay, clip_norm };

/// Each is a state of an objective's optimizer, by its name.
class SettableNumbers {
 public:
  /// All outlive it. `ranks`: of those that train together, or null.
  SettableNumbers(const DeclaredGraphs& declared, StorageAccess& storages, const Ranks* ranks)
      : declared_(declared), storages_(storages), ranks_(ranks) {}

  /// Each throws RunError for an objective that is not there, or whose optimizer does not keep the
  /// number. An empty name stands for the only objective, too.
  double get(SettableNumber number, std::string_view objective) const;
  /// Throws RunError, changing nothing, for a number out of range, and on all ranks where they do
  /// not set the same.
  void set(SettableNumber number, std::string_view objective, double to);
  /// The number that the storage of that path keeps, if it keeps one.
  std::optional<SettableNumber> find(std::string_view path) const;
  /// Throws RunError where a tensor that fits such a storage holds a number out of range.
  void require_range(std::string_view path, const CallerTensor& offered) const;

 private:
  /// The whole name of an objective.
  std::string find_objective(std::string_view objective) const;
  std::size_t storage_of(SettableNumber number, std::string_view objective) const;
  void require_range(SettableNumber number, double to) const;
  void require_agreement(SettableNumber number, std::string_view objective, double to) const;

  const DeclaredGraphs& declared_;
  StorageAccess& storages_;
  const Ranks* ranks_;
};

}  // namespace metronome::executor
