#include "executor/run/storage_access.h"

#include <fmt/format.h>

#include "executor/checkpoint/load_weights.h"
#include "executor/checkpoint/take_snapshot.h"
#include "executor/engine/faults.h"
#include "executor/engine/tensor_copy.h"
#include "executor/run/declared_graphs.h"
#include "executor/support/log.h"
#include "graph/builder/glob.h"
#include "graph/ir/error.h"
#include "ops/language/init.h"

namespace metronome::executor {

StorageAccess::StorageAccess(std::string prefix, const Memory& memory, Engine& engine,
                             const checkpoint::CheckpointInfo& origin,
                             std::optional<std::size_t> step_bytes)
    : prefix_(std::move(prefix)), memory_(memory), engine_(engine), origin_(origin) {
  if (step_bytes) lookout_.emplace(prefix_, paths(), *step_bytes);
}

std::vector<std::string> StorageAccess::paths() const {
  std::vector<std::string> paths;
  for (const Storage& s : memory_.storages) paths.push_back(s.path);
  return paths;
}

std::size_t StorageAccess::storage_of(std::string_view path) const {
  for (std::size_t i = 0; i < memory_.storages.size(); ++i) {
    if (memory_.storages[i].path == path) return i;
  }
  throw RunError(
      fmt::format("{} has no storage \"{}\"; it has {}", prefix_, path, list_names(paths())));
}

Tensor StorageAccess::get(std::size_t storage) {
  fetch(storage);
  Tensor copy = clone(tensor_in({&memory_.plain(storage)}, memory_.storages[storage].type));
  if (lookout_) lookout_->look(storage, copy, engine_.steps());
  return copy;
}

void StorageAccess::set(std::size_t storage, const CallerTensor& offered) {
  const Type& type = memory_.storages[storage].type;
  if (!fits(offered, type)) {
    refuse(offered, to_string(type),
           fmt::format("{}: set of \"{}\"", prefix_, memory_.storages[storage].path),
           describe_conversion(offered, type));
  }
  copy_into(memory_.plain(storage).data(), offered.tensor);
  push(storage);
}

void StorageAccess::reset_states(std::optional<std::string_view> path) {
  std::vector<std::string> states;
  bool found = false;
  for (std::size_t i = 0; i < memory_.storages.size(); ++i) {
    const Storage& s = memory_.storages[i];
    if (s.kind != StorageKind::state) continue;
    states.push_back(s.path);
    if (path && !glob_finds(*path, s.path)) continue;
    initialise(s, origin_.seed, memory_.plain(i).data());
    push(i);
    found = true;
  }
  if (found || !path) return;
  throw RunError(fmt::format("{}: reset of \"{}\" finds no state; its states are {}", prefix_,
                             *path, list_names(states)));
}

std::int64_t StorageAccess::counter(StorageId counter) const {
  const auto storage = static_cast<std::size_t>(counter.index);  // those of the first graph lead
  engine_.fetch(storage);
  return *reinterpret_cast<const std::int64_t*>(memory_.storage_blocks[storage].data());
}

void StorageAccess::fetch(std::size_t storage) const {
  engine_.fetch(storage);
  memory_.show(storage);
}

void StorageAccess::push(std::size_t storage) {
  memory_.keep(storage);
  engine_.push(storage);
}

void StorageAccess::fetch_all() const {
  for (std::size_t i = 0; i < memory_.storages.size(); ++i) fetch(i);
}

void StorageAccess::push_all() {
  for (std::size_t i = 0; i < memory_.storages.size(); ++i) push(i);
}

void StorageAccess::require_whole() const {
  if (!half_changed_.empty()) throw RunError(half_changed_);
}

// ---- checkpoints and snapshots ------------------------------------------------------------

std::vector<checkpoint::StorageEntry> StorageAccess::entries() const {
  std::vector<checkpoint::StorageEntry> all;
  for (std::size_t i = 0; i < memory_.storages.size(); ++i) {
    const Storage& s = memory_.storages[i];
    all.push_back({s.path, s.type, s.kind, memory_.plain(i).data(),
                   [s, seed = origin_.seed](std::byte* out) { initialise(s, seed, out); }});
  }
  return all;
}

void StorageAccess::save(const std::string& file) const {
  require_whole();
  fetch_all();
  checkpoint::save_checkpoint(file, entries(), origin_);
}

void StorageAccess::warn_of_saved(const std::string& file) const {
  std::vector<std::string_view> paths;
  for (std::size_t i = 0; i < memory_.storages.size(); ++i) {
    const Storage& s = memory_.storages[i];
    if (!is_floating(s.type.element)) continue;
    if (non_finite_in(memory_.plain(i).data(), s.type).nan) paths.push_back(s.path);
  }
  if (paths.empty()) return;
  const std::size_t more = paths.size() - 1;
  logger().warn("{}: {} is saved with nan in \"{}\"{}; {}", prefix_, file, paths[0],
                more == 0 ? "" : fmt::format(" and {} more", more), kWatchAdvice);
}

Snapshot StorageAccess::snapshot() const {
  require_whole();
  fetch_all();
  return checkpoint::take_snapshot(fmt::format("the snapshot of {}", prefix_), entries(), origin_);
}

std::vector<std::string> StorageAccess::load(const Loader& load) {
  fetch_all();
  struct Push {  // whether it loads, or resets what it had begun to load
    StorageAccess& storages;
    ~Push() { storages.push_all(); }
  } const push{*this};
  std::vector<std::string> lines = load(entries(), origin_);
  half_changed_.clear();
  return lines;
}

std::vector<bool> StorageAccess::selected(std::string_view what,
                                          const std::vector<std::string>& globs) const {
  std::vector<bool> selected(memory_.storages.size());
  for (std::size_t i = 0; i < selected.size(); ++i) {
    const StorageKind kind = memory_.storages[i].kind;
    selected[i] = globs.empty() && (kind == StorageKind::parameter || kind == StorageKind::buffer);
  }
  for (const std::string& glob : globs) {
    bool found = false;
    for (std::size_t i = 0; i < selected.size(); ++i) {
      if (!glob_finds(glob, memory_.storages[i].path)) continue;
      selected[i] = found = true;
    }
    if (found) continue;
    const std::vector<std::string> near = near_paths(glob, paths());
    throw RunError(
        fmt::format("{}: {} of only \"{}\" finds no storage{}", prefix_, what, glob,
                    near.empty() ? "" : fmt::format("; near it are {}", list_names(near))));
  }
  return selected;
}

void StorageAccess::save_weights(const std::string& file, const SaveOptions& options) const {
  if (options.element && (!is_floating(*options.element) || *options.element == f64)) {
    throw RunError(fmt::format("{}: save rounds to f32, bf16 or f16, not to {}", prefix_,
                               name_of(*options.element)));
  }
  require_whole();
  const std::vector<bool> selected = this->selected("save", options.only);
  fetch_all();
  std::vector<checkpoint::StorageEntry> some;
  const std::vector<checkpoint::StorageEntry> all = entries();
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (selected[i]) some.push_back(all[i]);
  }
  checkpoint::save_weights(file, some, options.element);
}

template <class From>
LoadReport StorageAccess::load_selected(const From& from, const LoadOptions& options) {
  require_whole();  // what is not loaded stays
  const std::vector<bool> selected = this->selected("load", options.only);
  fetch_all();
  const std::vector<checkpoint::StorageEntry> all = entries();
  const auto takes = [&](const checkpoint::StorageEntry& storage) {
    return selected[static_cast<std::size_t>(&storage - all.data())];
  };
  const auto finds = [&](std::string_view path) {
    return std::ranges::any_of(options.only,
                               [&](const std::string& glob) { return glob_finds(glob, path); });
  };
  LoadReport report = checkpoint::load_weights(from, all, options, takes, finds);
  push_all();
  return report;
}

LoadReport StorageAccess::load_weights(const std::string& from, const LoadOptions& options) {
  return load_selected(from, options);
}
LoadReport StorageAccess::load_weights(const Snapshot& from, const LoadOptions& options) {
  return load_selected(from, options);
}

}  // namespace metronome::executor
