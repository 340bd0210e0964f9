// Storages as users read, write, save and load them. Internal to executor/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "executor/checkpoint/checkpoint.h"
#include "executor/checkpoint/snapshot.h"
#include "executor/checkpoint/weights.h"
#include "executor/engine/engine.h"
#include "executor/engine/memory.h"
#include "executor/run/nan_lookout.h"

namespace metronome::executor {

/// Users' way to storages between steps, by path, and whether a step that broke off left them half
/// changed. A step asks for that alone; all else is called by users, and by ranks that begin alike.
class StorageAccess {
 public:
  /// `memory` and `engine`, which runs on it, outlive it. `prefix` names the graph in messages;
  /// `origin` is what checkpoints record. `step_bytes`: see `NanLookout`; absent if none is to
  /// look.
  StorageAccess(std::string prefix, const Memory& memory, Engine& engine,
                const checkpoint::CheckpointInfo& origin, std::optional<std::size_t> step_bytes);

  std::vector<std::string> paths() const;
  /// Throws RunError, naming what there is, where nothing matches.
  std::size_t storage_of(std::string_view path) const;

  /// A copy.
  Tensor get(std::size_t storage);
  void set(std::size_t storage, const CallerTensor& offered);
  /// Resets the states that `path` finds, or all of them if it is absent.
  void reset_states(std::optional<std::string_view> path);
  /// Returns a counter of the first graph.
  std::int64_t counter(StorageId counter) const;

  /// A storage's block that users see, from the engine's memory and back.
  void fetch(std::size_t storage) const;
  void push(std::size_t storage);

  /// Throws RunError where a step broke off and left storages half changed: `error` of the last
  /// `mark_half_changed`.
  void require_whole() const;
  void mark_half_changed(std::string error) { half_changed_ = std::move(error); }

  void save(const std::string& file) const;
  /// Tells of storages that are no numbers, in a file that was written.
  void warn_of_saved(const std::string& file) const;
  Snapshot snapshot() const;
  /// Writes those that `options` finds for other programs.
  void save_weights(const std::string& file, const SaveOptions& options) const;
  /// Takes those that `options` finds: `from` is a file or a snapshot.
  LoadReport load_weights(const std::string& from, const LoadOptions& options);
  LoadReport load_weights(const Snapshot& from, const LoadOptions& options);
  using Loader =
      std::function<std::vector<std::string>(std::span<const checkpoint::StorageEntry> storages,
                                             const checkpoint::CheckpointInfo& expected)>;
  /// Storages as `load` leaves them, on the engine, too; a step that left them half changed is
  /// forgotten.
  std::vector<std::string> load(const Loader& load);

 private:
  std::vector<checkpoint::StorageEntry> entries() const;
  /// Those that globs find, or parameters and buffers where there are none. Throws RunError where a
  /// glob finds none. `what`: "load", for the message.
  std::vector<bool> selected(std::string_view what, const std::vector<std::string>& globs) const;
  template <class From>
  LoadReport load_selected(const From& from, const LoadOptions& options);
  void fetch_all() const;
  void push_all();

  std::string prefix_;
  const Memory& memory_;
  Engine& engine_;
  checkpoint::CheckpointInfo origin_;
  std::optional<NanLookout> lookout_;  ///< by a storage's number
  std::string half_changed_;  ///< the error of the step that left storages so; empty: none did
};

}  // namespace metronome::executor
