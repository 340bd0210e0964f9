// Some storages, taken from a file or a snapshot of another program, or written for one.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "executor/checkpoint/checkpoint.h"
#include "executor/checkpoint/snapshot.h"
#include "executor/checkpoint/weights.h"

namespace metronome::executor::checkpoint {

/// Whether a storage is loaded, and whether `LoadOptions::only` finds a path, whatever is there.
using Takes = std::function<bool(const StorageEntry& storage)>;
using Finds = std::function<bool(std::string_view path)>;

/// Takes the tensors of a checkpoint, of another safetensors file, or of all files of an index
/// ("NAME.safetensors.index.json") into the storages for which `takes` holds. A bf16 or f16 tensor
/// is widened to f32 or f64, f32 to f64. An average whose parameter is taken, and which is not
/// itself, begins as the parameter is then. The seed stays.
///
/// Throws RunError "FILE: cannot be loaded: REASON", having changed nothing, where a file is
/// damaged; a pair of `rename` finds no tensor; two tensors get one path; a tensor has other
/// sizes than its storage, or another type; and, if strict, with all that is missing and left.
LoadReport load_weights(const std::string& file, std::span<const StorageEntry> storages,
                        const LoadOptions& options, const Takes& takes, const Finds& finds);
LoadReport load_weights(const Snapshot& snapshot, std::span<const StorageEntry> storages,
                        const LoadOptions& options, const Takes& takes, const Finds& finds);

/// Writes a safetensors file that is no checkpoint, of those storages alone, with "." for "/" in
/// their names, as PyTorch's users expect them. Throws RunError "FILE: cannot be saved: REASON" for
/// a path with a "." of its own, which would be read as a "/".
void save_weights(const std::string& file, std::span<const StorageEntry> storages,
                  std::optional<Element> element);

}  // namespace metronome::executor::checkpoint
