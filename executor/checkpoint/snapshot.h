// Everything that outlives a step, kept in memory.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>

namespace metronome {

/// The storages of an executable as they were at one moment: parameters, buffers, states, moments
/// of the optimizer, counters. `Executable::snapshot` makes one, `Executable::load` takes it, in
/// the same executable or in another of the same model. Copies share the numbers, which never
/// change.
class Snapshot {
 public:
  struct Contents;
  explicit Snapshot(std::shared_ptr<const Contents> contents) : contents_(std::move(contents)) {}

  /// The bytes of all numbers together.
  std::size_t bytes() const;
  const Contents& contents() const { return *contents_; }

 private:
  std::shared_ptr<const Contents> contents_;
};

}  // namespace metronome
