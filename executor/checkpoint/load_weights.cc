// A load in three parts, of which the last alone changes storages:
//
//   TensorSource    names, types and bytes, wherever they lie: a file, the files of an index, a
//                   snapshot
//   name_tensors    path -> name, by LoadOptions::rename
//   take            storages beside these: what is loaded, missing, left; then all bytes at once
#include "executor/checkpoint/load_weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>
#include <vector>

#include "executor/checkpoint/match.h"
#include "executor/checkpoint/safetensors.h"
#include "executor/checkpoint/take_snapshot.h"
#include "graph/ir/error.h"
#include "graph/ir/half.h"

namespace metronome {

std::string to_string(const LoadReport& report) {
  std::string text = fmt::format("{} loaded", report.loaded.size());
  const auto add = [&](std::string_view what, const std::vector<std::string>& names) {
    if (names.empty()) return;
    text += fmt::format("; {}: \"{}\"", what, fmt::join(names, "\", \""));
  };
  add("missing", report.missing);
  add("left", report.left);
  return text;
}

namespace executor::checkpoint {
namespace {

/// Tensors by the names that users know, and their bytes.
struct TensorSource {
  std::string name;   ///< how messages begin: FILE
  std::string kind;   ///< "file"
  bool dots = false;  ///< "." stands for "/" in names
  std::map<std::string, Type> tensors;
  std::function<void(const std::string& tensor, std::span<std::byte> into)> read;
  /// True for what is of no model: moments, counters, states.
  std::function<bool(const std::string& tensor)> is_own;
};

TensorSource source_of(std::shared_ptr<const SafetensorsFile> file) {
  TensorSource source{
      .name = file->file(), .kind = "file", .tensors = {}, .read = {}, .is_own = {}};
  source.dots = !is_checkpoint(*file);
  for (const auto& [name, entry] : file->tensors()) source.tensors.emplace(name, entry.type);
  const bool checkpoint = !source.dots;
  const std::set<std::string> states = checkpoint ? states_in(*file) : std::set<std::string>{};
  source.is_own = [=](const std::string& name) {
    if (!checkpoint) return name.ends_with("num_batches_tracked");
    return is_own_name(name) || states.contains(name);
  };
  source.read = [file](const std::string& name, std::span<std::byte> into) {
    const SafetensorsFile::Entry& entry = file->tensors().find(name)->second;
    file->read(entry, into);
    if (entry.type.element == bool_) require_bools(file->file(), name, into);
  };
  return source;
}

/// All tensors of the files that an index names, each in the one that it says.
TensorSource source_of_index(const std::string& index) {
  std::ifstream in(index);
  if (!in) refuse_file(index, "it cannot be read");
  const auto json = nlohmann::json::parse(in, nullptr, /*allow_exceptions=*/false);
  const auto map = json.is_object() ? json.find("weight_map") : json.end();
  if (!json.is_object() || map == json.end() || !map->is_object()) {
    refuse_file(index, "it is no index of safetensors files: it has no object \"weight_map\"");
  }
  const std::filesystem::path folder = std::filesystem::path(index).parent_path();
  const auto files = std::make_shared<std::map<std::string, TensorSource>>();
  TensorSource whole{.name = index, .kind = "index", .tensors = {}, .read = {}, .is_own = {}};
  // A tensor's file, which does not move.
  const auto holders = std::make_shared<std::map<std::string, const TensorSource*>>();
  for (const auto& [name, of] : map->items()) {
    if (!of.is_string()) {
      refuse_file(index, fmt::format("its weight_map has {} as the file of {:?}", of.dump(), name));
    }
    const std::string file = of.get<std::string>();
    if (!files->contains(file)) {
      if (file.find('/') != file.npos) {
        refuse_file(index,
                    fmt::format("its weight_map has {:?} as a file, which is in no folder of "
                                "its own",
                                file));
      }
      files->emplace(file,
                     source_of(std::make_shared<const SafetensorsFile>((folder / file).string())));
    }
    const TensorSource& source = files->at(file);
    const auto tensor = source.tensors.find(name);
    if (tensor == source.tensors.end()) {
      refuse_file(index, fmt::format("{:?} is not in {:?}, as its weight_map says", name, file));
    }
    whole.tensors.emplace(name, tensor->second);
    whole.dots = source.dots;
    holders->emplace(name, &source);
  }
  whole.read = [files, holders](const std::string& name, std::span<std::byte> into) {
    holders->at(name)->read(name, into);
  };
  whole.is_own = [files, holders](const std::string& name) {
    return holders->at(name)->is_own(name);
  };
  return whole;
}

/// The path under `to` of a name under `from`; an empty `from` has all names under it.
std::optional<std::string> renamed(const std::string& name, const std::string& from,
                                   const std::string& to) {
  std::string rest = name;
  if (!from.empty()) {
    if (name == from) return to;
    if (!name.starts_with(from + "/")) return std::nullopt;
    rest = name.substr(from.size() + 1);
  }
  return to.empty() ? rest : fmt::format("{}/{}", to, rest);
}

std::string with_slashes(std::string name, bool dots) {
  if (dots) std::ranges::replace(name, '.', '/');
  return name;
}

/// The tensor that each path takes.
std::map<std::string, std::string> name_tensors(const TensorSource& source,
                                                const LoadOptions& options) {
  std::map<std::string, std::string> by_new_name, by_own_name;
  std::vector<bool> found(options.rename.size());
  for (const auto& [tensor, type] : source.tensors) {
    const std::string name = with_slashes(tensor, source.dots);
    bool is_renamed = false;
    for (std::size_t i = 0; i < options.rename.size() && !is_renamed; ++i) {
      const auto& [from, to] = options.rename[i];
      const auto path = renamed(name, with_slashes(from, source.dots), to);
      if (!path) continue;
      is_renamed = found[i] = true;
      const auto [other, is_new] = by_new_name.emplace(*path, tensor);
      if (!is_new) {
        refuse_file(source.name, fmt::format("rename gives {:?} and {:?} one path, {:?}",
                                             other->second, tensor, *path));
      }
    }
    if (is_renamed) continue;
    const auto [other, is_new] = by_own_name.emplace(name, tensor);
    if (!is_new) {
      refuse_file(source.name,
                  fmt::format("{:?} and {:?} have one path, {:?}", other->second, tensor, name));
    }
  }
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (found[i]) continue;
    std::vector<std::string> names;
    for (const auto& [tensor, type] : source.tensors) names.push_back(tensor);
    refuse_file(source.name,
                fmt::format("rename finds no tensor {:?}, nor any below it; the {} has "
                            "\"{}\"",
                            options.rename[i].first, source.kind, fmt::join(names, "\", \"")));
  }
  by_new_name.merge(by_own_name);
  return by_new_name;
}

bool can_take(const Type& storage, const Type& tensor) {
  if (storage == tensor) return true;
  if (storage.shape != tensor.shape) return false;
  const bool widens = is_half(tensor.element) || tensor.element == f32;
  return widens && (storage.element == f64 || (storage.element == f32 && tensor.element != f32));
}

template <class To, class From>
void widen(std::span<const std::byte> from, std::span<std::byte> to) {
  for (std::size_t i = 0; i < from.size() / sizeof(From); ++i) {
    From x;
    std::memcpy(&x, from.data() + i * sizeof x, sizeof x);
    const To wide = static_cast<To>(static_cast<float>(x));
    std::memcpy(to.data() + i * sizeof wide, &wide, sizeof wide);
  }
}

template <class To>
void widen_to(Element element, std::span<const std::byte> from, std::span<std::byte> to) {
  switch (element) {
    case bf16:
      return widen<To, BFloat16>(from, to);
    case f16:
      return widen<To, Float16>(from, to);
    default:
      return widen<To, float>(from, to);
  }
}

std::vector<std::byte> read_as(const TensorSource& source, const std::string& tensor,
                               const Type& as) {
  const Type& type = source.tensors.at(tensor);
  std::vector<std::byte> bytes(type.bytes());
  source.read(tensor, bytes);
  if (type.element == as.element) return bytes;
  std::vector<std::byte> wide(as.bytes());
  as.element == f64 ? widen_to<double>(type.element, bytes, wide)
                    : widen_to<float>(type.element, bytes, wide);
  return wide;
}

[[noreturn]] void refuse_misfits(const TensorSource& source, const std::vector<std::string>& lines,
                                 bool sizes_differ) {
  refuse_file(
      source.name,
      fmt::format(
          "it does not fit\n  {}\n  way out    {}", fmt::join(lines, "\n  "),
          sizes_differ
              ? "LoadOptions::only takes a part, rename gives tensors other paths"
              : "LoadOptions::rename gives tensors other paths, only takes a part, strict = "
                "false leaves what does not fit"));
}

LoadReport take(const TensorSource& source, std::span<const StorageEntry> storages,
                const LoadOptions& options, const Takes& takes, const Finds& finds) {
  const std::map<std::string, std::string> by_path = name_tensors(source, options);
  LoadReport report;
  std::vector<std::pair<const StorageEntry*, std::string>> read;
  std::vector<std::string> misfits, unlike;
  std::set<std::string> taken;
  for (const StorageEntry& storage : storages) {
    if (is_seed(storage)) continue;
    if (!takes(storage)) continue;
    const auto found = by_path.find(storage.path);
    if (found == by_path.end()) {
      report.missing.push_back(storage.path);
      misfits.push_back(fmt::format("missing    {} \"{}\" {}", name_of(storage.kind), storage.path,
                                    to_string(storage.type)));
      continue;
    }
    taken.insert(found->second);
    const Type& type = source.tensors.at(found->second);
    if (can_take(storage.type, type)) {
      read.emplace_back(&storage, found->second);
      report.loaded.push_back(storage.path);
    } else {
      unlike.push_back(fmt::format("unlike     {} \"{}\" {}, which {:?} has as {}",
                                   name_of(storage.kind), storage.path, to_string(storage.type),
                                   found->second, to_string(type)));
    }
  }
  for (const auto& [path, tensor] : by_path) {
    if (taken.contains(tensor)) continue;
    report.left.push_back(tensor);
    const bool left_out = !options.only.empty() && !finds(path);
    if (left_out || source.is_own(tensor)) continue;
    misfits.push_back(
        fmt::format("left       {:?} {}", tensor, to_string(source.tensors.at(tensor))));
  }
  std::set<std::string> named;
  for (const auto& [path, tensor] : by_path) named.insert(tensor);
  for (const auto& [name, type] : source.tensors) {
    if (!named.contains(name)) report.left.push_back(name);  // another one was renamed to its path
  }
  if (options.strict) unlike.insert(unlike.begin(), misfits.begin(), misfits.end());
  if (!unlike.empty()) refuse_misfits(source, unlike, !options.strict || misfits.empty());

  std::map<std::string_view, std::vector<std::byte>> loaded;
  for (const auto& [storage, tensor] : read) {
    loaded.emplace(storage->path, read_as(source, tensor, storage->type));
  }
  // From here on storages change.
  for (const StorageEntry& storage : storages) {
    auto found = loaded.find(storage.path);
    if (found == loaded.end() && storage.kind == StorageKind::average) {
      found = loaded.find(averaged_parameter(storage.path));
    }
    if (found != loaded.end()) std::ranges::copy(found->second, storage.data);
  }
  return report;
}

template <class T>
std::vector<std::byte> round_from(const std::byte* data, Element from, std::int64_t count) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(count) * sizeof(T));
  for (std::int64_t i = 0; i < count; ++i) {
    float x = 0;
    if (from == f64) {
      double wide = 0;
      std::memcpy(&wide, data + i * sizeof wide, sizeof wide);
      x = static_cast<float>(wide);
    } else {
      std::memcpy(&x, data + i * sizeof x, sizeof x);
    }
    const T rounded = static_cast<T>(x);
    std::memcpy(bytes.data() + i * sizeof rounded, &rounded, sizeof rounded);
  }
  return bytes;
}

std::vector<std::byte> round_to(const StorageEntry& storage, Element element) {
  const Element from = storage.type.element;
  const std::int64_t count = storage.type.numel();
  switch (element) {
    case bf16:
      return round_from<BFloat16>(storage.data, from, count);
    case f16:
      return round_from<Float16>(storage.data, from, count);
    default:
      return round_from<float>(storage.data, from, count);
  }
}

}  // namespace

LoadReport load_weights(const std::string& file, std::span<const StorageEntry> storages,
                        const LoadOptions& options, const Takes& takes, const Finds& finds) {
  if (file.ends_with(".json")) return take(source_of_index(file), storages, options, takes, finds);
  const auto opened = std::make_shared<const SafetensorsFile>(file);
  if (is_checkpoint(*opened)) check_whole(*opened);
  return take(source_of(opened), storages, options, takes, finds);
}

LoadReport load_weights(const Snapshot& snapshot, std::span<const StorageEntry> storages,
                        const LoadOptions& options, const Takes& takes, const Finds& finds) {
  const KeptSnapshot kept = tensors_of(snapshot);
  TensorSource source{
      .name = kept.name, .kind = "snapshot", .tensors = {}, .read = {}, .is_own = {}};
  for (const auto& [path, tensor] : kept.tensors) source.tensors.emplace(path, tensor.type);
  source.read = [&](const std::string& path, std::span<std::byte> into) {
    if (!into.empty()) std::memcpy(into.data(), kept.tensors.at(path).data, into.size());
  };
  source.is_own = [&](const std::string& path) { return !is_model(kept.tensors.at(path).kind); };
  return take(source, storages, options, takes, finds);
}

void save_weights(const std::string& file, std::span<const StorageEntry> storages,
                  std::optional<Element> element) {
  std::vector<TensorBytes> tensors;
  std::vector<std::vector<std::byte>> rounded;
  rounded.reserve(storages.size());
  for (const StorageEntry& storage : storages) {
    std::string name = storage.path;
    if (name.find('.') != name.npos) {
      throw RunError(fmt::format(
          "{}: cannot be saved: \"{}\" has a \".\", which stands for \"/\" in names of other "
          "programs; give its scope another name, or save a checkpoint, without options",
          file, name));
    }
    std::ranges::replace(name, '/', '.');
    Type type = storage.type;
    std::span<const std::byte> bytes(storage.data, type.bytes());
    if (element && is_floating(type.element) && type.element != *element) {
      rounded.push_back(round_to(storage, *element));
      type.element = *element;
      bytes = rounded.back();
    }
    tensors.push_back({std::move(name), type, bytes});
  }
  write_safetensors(file, tensors, {{"format", "pt"}});
}

}  // namespace executor::checkpoint
}  // namespace metronome
