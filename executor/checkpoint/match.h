// How the storages of an executable and the tensors that were kept of one go together.
#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "executor/checkpoint/checkpoint.h"

namespace metronome::executor::checkpoint {

using StoragesByPath = std::map<std::string_view, const StorageEntry*>;

/// All but the seed, which is kept beside the tensors.
StoragesByPath tensors_by_path(std::span<const StorageEntry> storages);
bool is_seed(const StorageEntry& storage);

/// True for the numbers that make a model: a checkpoint's fingerprint is over these, its checksum
/// over the rest.
bool is_model(StorageKind kind);
/// Throws RunError where bytes of a file's bool tensor are no booleans.
void require_bools(const std::string& file, std::string_view tensor,
                   std::span<const std::byte> bytes);
/// True for names that are no model's: moments, averages, counters.
bool is_own_name(std::string_view name);
/// The parameter that "average/NAME/PATH" is the average of.
std::string_view averaged_parameter(std::string_view path);

/// To its initial value, where it has one.
void reset(const StorageEntry& storage);

/// A file or a snapshot in which storages were kept.
struct KeptTensors {
  std::string name;  ///< how messages begin: FILE
  std::string kind;  ///< "file"
  std::map<std::string_view, Type> tensors;
};

/// A storage, and the tensor of the same type that it takes.
struct TensorMatch {
  const StorageEntry* storage;
  std::string_view tensor;
};

struct Match {
  std::vector<TensorMatch> read;           ///< of the same path, but for averages that begin anew
  std::vector<const StorageEntry*> reset;  ///< to their initial values
  std::vector<std::string> notices;
};

/// Throws RunError where what was kept is of another model.
Match match(const KeptTensors& kept, const StoragesByPath& storages);

/// The seed and the kernel choices of what was kept: the seed becomes the storages', and `notices`
/// gains what differs from `expected`.
void take_origin(const KeptTensors& kept, const CheckpointInfo& origin,
                 const CheckpointInfo& expected, std::span<const StorageEntry> storages,
                 std::vector<std::string>& notices);

}  // namespace metronome::executor::checkpoint
