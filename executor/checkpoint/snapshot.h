// Everything that outlives a step, kept in memory.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "executor/checkpoint/checkpoint.h"

namespace metronome {

/// The storages of an executable as they were at one moment: parameters, buffers, states, moments
/// of the optimizer, counters. `Executable::snapshot` makes one, `Executable::load` takes it, in
/// the same executable or in another of the same model. Copies share the numbers, which never
/// change.
class Snapshot {
 public:
  struct Contents;
  explicit Snapshot(std::shared_ptr<const Contents> contents) : contents_(std::move(contents)) {}

  /// Of all numbers.
  std::size_t bytes() const;
  const Contents& contents() const { return *contents_; }

 private:
  std::shared_ptr<const Contents> contents_;
};

namespace executor::checkpoint {

/// Copies the storages. `name`: how messages begin, "the snapshot of graph "net"".
Snapshot take_snapshot(std::string name, std::span<const Checkpointed> storages,
                       const CheckpointInfo& info);

/// What `load_checkpoint` does, from a snapshot. Throws RunError "NAME: cannot be loaded: REASON",
/// having changed nothing, where it lacks a parameter, buffer or counter or has it with another
/// type, or holds a tensor that belongs to nothing here.
std::vector<std::string> load_snapshot(const Snapshot& snapshot,
                                       std::span<const Checkpointed> storages,
                                       const CheckpointInfo& expected);

}  // namespace executor::checkpoint
}  // namespace metronome
