// Everything that outlives a step, kept in one safetensors file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "executor/checkpoint/safetensors.h"
#include "graph/ir/node.h"

namespace metronome::executor::checkpoint {

/// One storage: the file's tensor of that name is copied from or to `data`, `type.bytes()` bytes.
struct StorageEntry {
  std::string path;  ///< "tower/3/linear/weight", "optimizer/exp_avg/...", "replay"
  Type type;
  StorageKind kind = StorageKind::parameter;
  std::byte* data = nullptr;
  /// Writes the initial value to `data`, for what a file does not have. Empty: `data` stays as it
  /// is.
  std::function<void(std::byte*)> reset = {};
};

/// Data that a file records beside the storages.
struct CheckpointInfo {
  std::uint64_t seed = 0;
  std::uint64_t choices_hash = 0;  ///< of the kernel choices; bits repeat where it is equal
  bool draws = true;               ///< whether the seed decides anything; a file does not record it
};

/// Replaces `file` whole or not at all: written to a temporary name beside it, flushed, renamed.
///
/// Tensors: every storage under its path, counters as I64 scalars. The counter "seed" becomes
/// metadata, which holds
///   format        "metronome checkpoint"
///   version       "1"
///   seed          the seed storage's number, else `info.seed`, in decimal
///   choices       `info.choices_hash`, 16 hexadecimal digits
///   fingerprint   Hash64 over names, types and bytes of parameters and buffers in the order of
///   their
///                 names: equal where two models hold the same numbers
///   states        the paths of states, a line each
///   checksum      Hash64 over seed, choices, states and, likewise, all other tensors
/// Throws RunError "FILE: cannot be saved: REASON".
void save_checkpoint(const std::string& file, std::span<const StorageEntry> storages,
                     const CheckpointInfo& info);

bool is_checkpoint(const SafetensorsFile& file);
/// The paths of states in a checkpoint.
std::set<std::string> states_in(const SafetensorsFile& checkpoint);
/// Throws RunError where a checkpoint of whatever model is damaged. One of an earlier program,
/// which does not say its states, is taken as it is.
void check_whole(const SafetensorsFile& checkpoint);

/// Takes every storage from a file of `save_checkpoint`. Returns one line for each of
/// - a state that the file lacks or has with another type: it starts from its initial value;
/// - moments of the file that these storages lack (all in one line): they are ignored;
/// - moments that the file lacks or has with another type (all in one line): initial values;
/// - averages that the file lacks (in one line): they begin as the file's parameters; averages of
///   the file that these storages lack (in one line): they are ignored;
/// - another seed than `expected`, where that draws numbers: the file's holds from here on;
/// - other kernel choices than `expected`.
/// Counters that these storages lack are ignored: a graph without a loss has no "update". A counter
/// of an objective that the file lacks, "update/NAME", takes the file's "update".
///
/// Throws RunError "FILE: cannot be loaded: REASON", having changed nothing, where the file is
/// damaged (a hash differs, or see SafetensorsFile), is no checkpoint, lacks a parameter, buffer or
/// counter or has it with another type, or holds a tensor that belongs to nothing here. Data is
/// read twice, first to check it, then into place, so that no second copy of it is in memory. If
/// another process overwrites the file's bytes between the two (`save_checkpoint` never does),
/// every storage that has `reset` is reset and the error says so.
std::vector<std::string> load_checkpoint(const std::string& file,
                                         std::span<const StorageEntry> storages,
                                         const CheckpointInfo& expected);

}  // namespace metronome::executor::checkpoint
