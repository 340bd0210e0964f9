#include "executor/checkpoint/match.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "executor/checkpoint/safetensors.h"

namespace metronome::executor::checkpoint {
namespace {

constexpr std::string_view kMoments = "optimizer/";  // what paths of moments begin with
constexpr std::string_view kAverages = "average/";
constexpr std::size_t kNamed = 3;  // problems or tensors that one message names

std::string difference(const KeptTensors& kept, const StorageEntry& storage, const Type* type) {
  return fmt::format("{} \"{}\" is {} here and {} in the {}", name_of(storage.kind), storage.path,
                     to_string(storage.type), type == nullptr ? "missing" : to_string(*type),
                     kept.kind);
}

/// "h[1, 64]" beside a state "h": as a graph that was compiled with others has it.
bool is_state_elsewhere(std::string_view name, const StoragesByPath& storages) {
  if (!name.ends_with(']')) return false;
  const auto found = storages.find(name.substr(0, name.rfind('[')));
  return found != storages.end() && found->second->kind == StorageKind::state;
}

/// Whether a tensor is a counter that some graphs have: of draws, "draws", or of one objective,
/// "update/critic", "gathered", "gathered/critic".
bool is_counter_of_some(std::string_view name, const Type& type) {
  const bool is_named = name == "draws" || name.starts_with("update/") || name == "gathered" ||
                        name.starts_with("gathered/");
  return is_named && type == Type{i64, {}};
}

std::string plural(std::size_t count, std::string_view what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

/// ""a", "b", "c" and 4 more".
std::string list_paths(std::span<const std::string_view> paths) {
  const std::size_t named = std::min(paths.size(), kNamed);
  std::string text = fmt::format("\"{}\"", fmt::join(paths.first(named), "\", \""));
  if (paths.size() > named) text += fmt::format(" and {} more", paths.size() - named);
  return text;
}

[[noreturn]] void refuse_model(const KeptTensors& kept, const std::vector<std::string>& problems) {
  const std::size_t named = std::min(problems.size(), kNamed);
  std::string reason = fmt::format("it is of another model: {}",
                                   fmt::join(problems.begin(), problems.begin() + named, "; "));
  if (problems.size() > named) reason += fmt::format("; and {} more", problems.size() - named);
  refuse_file(kept.name, reason);
}

}  // namespace

StoragesByPath tensors_by_path(std::span<const StorageEntry> storages) {
  StoragesByPath by_path;
  for (const StorageEntry& storage : storages) {
    if (!is_seed(storage)) by_path.emplace(storage.path, &storage);
  }
  return by_path;
}

bool is_seed(const StorageEntry& storage) {
  return storage.kind == StorageKind::counter && storage.path == "seed";
}

bool is_model(StorageKind kind) {
  return kind == StorageKind::parameter || kind == StorageKind::buffer;
}

void require_bools(const std::string& file, std::string_view tensor,
                   std::span<const std::byte> bytes) {
  const auto wrong =
      std::ranges::find_if(bytes, [](std::byte byte) { return byte > std::byte{1}; });
  if (wrong == bytes.end()) return;
  refuse_file(file, fmt::format("{:?} is a bool tensor, but has a byte of {}, not 0 or 1", tensor,
                                std::to_integer<int>(*wrong)));
}

bool is_own_name(std::string_view name) {
  const auto is_counter = [&](std::string_view counter) { return name == counter; };
  return name.starts_with(kMoments) || name.starts_with(kAverages) || name == "draws" ||
         name == "gathered" || name.starts_with("update/") || name.starts_with("gathered/") ||
         std::ranges::any_of(kCounters, is_counter);
}

std::string_view averaged_parameter(std::string_view path) {
  return path.substr(path.find('/', kAverages.size()) + 1);
}

void reset(const StorageEntry& storage) {
  if (storage.reset) storage.reset(storage.data);
}

Match match(const KeptTensors& kept, const StoragesByPath& storages) {
  Match result;
  std::vector<std::string> problems;
  std::vector<std::string_view> fresh_moments;
  std::size_t moments = 0, ignored_moments = 0, ignored_states = 0;
  std::size_t fresh_averages = 0, ignored_averages = 0;
  for (const auto& [path, storage] : storages) {
    const auto found = kept.tensors.find(path);
    const Type* type = found == kept.tensors.end() ? nullptr : &found->second;
    const bool moment = storage->kind == StorageKind::moment;
    moments += moment;
    if (type != nullptr && *type == storage->type) {
      result.read.push_back({storage, path});
    } else if (storage->kind == StorageKind::average) {
      const auto parameter = kept.tensors.find(averaged_parameter(path));
      ++fresh_averages;
      if (parameter != kept.tensors.end() && parameter->second == storage->type) {
        result.read.push_back({storage, parameter->first});
      }
    } else if (is_counter_of_some(path, storage->type)) {
      // One counter was that of all objectives where none had its own.
      const auto all = kept.tensors.find("update");
      const bool counts =
          path.starts_with("update/") && all != kept.tensors.end() && all->second == storage->type;
      if (counts) {
        result.read.push_back({storage, all->first});
      } else {
        result.reset.push_back(storage);
      }
    } else if (moment) {
      fresh_moments.push_back(path);
      result.reset.push_back(storage);
    } else if (storage->kind == StorageKind::state) {
      result.reset.push_back(storage);
      result.notices.push_back(fmt::format("{}: {}: it starts from its initial value", kept.name,
                                           difference(kept, *storage, type)));
    } else {
      problems.push_back(difference(kept, *storage, type));
    }
  }
  for (const auto& [name, type] : kept.tensors) {
    if (storages.contains(name) || name == "replay" || name == "update") continue;
    if (is_counter_of_some(name, type)) continue;
    if (name.starts_with(kMoments)) {
      ++ignored_moments;
    } else if (name.starts_with(kAverages)) {
      ++ignored_averages;
    } else if (is_state_elsewhere(name, storages)) {
      ++ignored_states;
    } else {
      problems.push_back(
          fmt::format("{:?} is {} in the {} and nothing here", name, to_string(type), kept.kind));
    }
  }
  if (!problems.empty()) refuse_model(kept, problems);
  if (ignored_moments > 0) {
    result.notices.push_back(fmt::format("{}: ignored {} tensors of an optimizer that is not here",
                                         kept.name, ignored_moments));
  }
  if (ignored_states > 0) {
    result.notices.push_back(fmt::format("{}: ignored {} of a graph that is not here", kept.name,
                                         plural(ignored_states, "state")));
  }
  if (ignored_averages > 0) {
    result.notices.push_back(fmt::format("{}: ignored {} that nothing keeps here", kept.name,
                                         plural(ignored_averages, "average")));
  }
  if (fresh_averages > 0) {
    result.notices.push_back(fmt::format("{}: lacks {}: they begin as the {}'s parameters",
                                         kept.name, plural(fresh_averages, "average"), kept.kind));
  }
  if (!fresh_moments.empty()) {
    result.notices.push_back(fmt::format(
        "{}: lacks {} of the optimizer's {} tensors, {}: they start from their initial values",
        kept.name, fresh_moments.size(), moments, list_paths(fresh_moments)));
  }
  return result;
}

void take_origin(const KeptTensors& kept, const CheckpointInfo& origin,
                 const CheckpointInfo& expected, std::span<const StorageEntry> storages,
                 std::vector<std::string>& notices) {
  for (const StorageEntry& storage : storages) {
    if (!is_seed(storage)) continue;
    std::memcpy(storage.data, &origin.seed, sizeof origin.seed);
    if (expected.draws && origin.seed != expected.seed) {
      notices.push_back(
          fmt::format("{}: was saved under seed {}, not {}: random numbers go on with {}",
                      kept.name, origin.seed, expected.seed, origin.seed));
    }
  }
  if (origin.choices_hash != expected.choices_hash) {
    notices.push_back(
        fmt::format("{}: was saved under kernel choices {:016x}, not {:016x}: bits may differ",
                    kept.name, origin.choices_hash, expected.choices_hash));
  }
}

}  // namespace metronome::executor::checkpoint
