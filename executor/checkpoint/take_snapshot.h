// Snapshots taken, and taken back.
#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "executor/checkpoint/checkpoint.h"
#include "executor/checkpoint/snapshot.h"

namespace metronome::executor::checkpoint {

/// Copies the storages. `name`: how messages begin, "the snapshot of graph "net"".
Snapshot take_snapshot(std::string name, std::span<const StorageEntry> storages,
                       const CheckpointInfo& info);

/// Does what `load_checkpoint` does, from a snapshot. Throws RunError "NAME: cannot be loaded:
/// REASON", having changed nothing, if the snapshot lacks a parameter, buffer or counter, has one
/// with another type, or holds a tensor that belongs to nothing here.
std::vector<std::string> load_snapshot(const Snapshot& snapshot,
                                       std::span<const StorageEntry> storages,
                                       const CheckpointInfo& expected);

/// The tensors of a snapshot, which must outlive it.
struct KeptSnapshot {
  struct Tensor {
    Type type;
    StorageKind kind = StorageKind::parameter;
    const std::byte* data = nullptr;
  };
  std::string name;  ///< how messages begin
  std::map<std::string, Tensor> tensors;
};
KeptSnapshot tensors_of(const Snapshot& snapshot);

}  // namespace metronome::executor::checkpoint
