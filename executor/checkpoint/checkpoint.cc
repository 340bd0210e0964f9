#include "executor/checkpoint/checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <optional>
#include <sstream>
#include <string_view>

#include "executor/checkpoint/match.h"
#include "executor/checkpoint/safetensors.h"
#include "executor/support/hash64.h"
#include "graph/ir/error.h"

namespace metronome::executor::checkpoint {
namespace {

constexpr std::string_view kFormat = "metronome checkpoint";
constexpr std::string_view kVersion = "1";

// Two hashes that cover a file once.
struct Hashes {
  Hashes(std::uint64_t seed, std::uint64_t choices, const std::optional<std::string>& states) {
    rest.add(seed);
    rest.add(choices);
    if (states) rest.add_text(*states);
  }

  // The hash that takes the bytes of this tensor next.
  Hash64& begin(bool of_model, std::string_view name, const Type& type) {
    Hash64& hash = of_model ? model : rest;
    hash.add_text(name);
    hash.add_text(dtype_of(type.element));
    hash.add(static_cast<std::uint64_t>(type.rank()));
    for (const std::int64_t size : type.shape) hash.add(static_cast<std::uint64_t>(size));
    return hash;
  }

  Hash64 model;
  Hash64 rest;
};

std::string hex(std::uint64_t number) { return fmt::format("{:016x}", number); }

struct CheckpointRecord {
  std::uint64_t seed = 0;
  std::uint64_t choices = 0;
  std::uint64_t fingerprint = 0;
  std::uint64_t checksum = 0;
  std::optional<std::string> states = {};  // absent in files of earlier programs
};

std::uint64_t number_in(const SafetensorsFile& file, const char* key, int base) {
  const auto found = file.metadata().find(key);
  if (found == file.metadata().end()) {
    refuse_file(file.file(), fmt::format("its metadata has no \"{}\"", key));
  }
  const std::string& text = found->second;
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, base);
  if (error != std::errc() || end != text.data() + text.size()) {
    refuse_file(file.file(),
                fmt::format("its metadata has {:?} as \"{}\", which must be a number", text, key));
  }
  return number;
}

std::optional<std::string> states_text(const SafetensorsFile& file) {
  const auto recorded = file.metadata().find("states");
  if (recorded == file.metadata().end()) return std::nullopt;
  return recorded->second;
}

CheckpointRecord read_metadata(const SafetensorsFile& file) {
  const auto format = file.metadata().find("format");
  if (!is_checkpoint(file)) {
    refuse_file(
        file.file(),
        fmt::format(
            "it is a safetensors file, but no Metronome checkpoint: its metadata has "
            "{} as \"format\", not \"{}\"; weights of other programs are loaded with LoadOptions",
            format == file.metadata().end() ? "nothing" : fmt::format("{:?}", format->second),
            kFormat));
  }
  const auto version = file.metadata().find("version");
  if (version == file.metadata().end() || version->second != kVersion) {
    refuse_file(
        file.file(),
        fmt::format("it is a checkpoint of version {}, and this program reads version {}",
                    version == file.metadata().end() ? "nothing" : version->second, kVersion));
  }
  return {.seed = number_in(file, "seed", 10),
          .choices = number_in(file, "choices", 16),
          .fingerprint = number_in(file, "fingerprint", 16),
          .checksum = number_in(file, "checksum", 16),
          .states = states_text(file)};
}

// The first pass over the data: nothing is kept of it but two hashes.
void check_data(const SafetensorsFile& file, const CheckpointRecord& recorded,
                const std::function<bool(std::string_view name)>& is_of_model) {
  Hashes hashes(recorded.seed, recorded.choices, recorded.states);
  for (const auto& [name, entry] : file.tensors()) {
    Hash64& hash = hashes.begin(is_of_model(name), name, entry.type);
    const bool boolean = entry.type.element == bool_;
    file.stream(entry, [&](std::span<const std::byte> piece) {
      hash.add(piece);
      if (boolean) require_bools(file.file(), name, piece);
    });
  }
  const auto compare = [&](std::string_view what, std::uint64_t is, std::uint64_t was) {
    if (is == was) return;
    refuse_file(file.file(),
                fmt::format("it is damaged: the {} is {}, but was {} when it was saved", what,
                            hex(is), hex(was)));
  };
  compare("fingerprint of its parameters and buffers", hashes.model.value(), recorded.fingerprint);
  compare("checksum of its other tensors", hashes.rest.value(), recorded.checksum);
}

// The second pass: from its first `reset` on, storages change.
void fill(const SafetensorsFile& file, const Match& match, std::span<const StorageEntry> storages) {
  if (file.has_changed()) refuse_file(file.file(), "another process wrote to it meanwhile");
  std::string trouble;
  try {
    for (const StorageEntry* storage : match.reset) reset(*storage);
    for (const auto& [storage, tensor] : match.read) {
      const auto entry = file.tensors().find(std::string(tensor));
      file.read(entry->second, {storage->data, storage->type.bytes()});
    }
    if (!file.has_changed()) return;
    trouble =
        fmt::format("{}: cannot be loaded: another process wrote to it meanwhile", file.file());
  } catch (const RunError& error) {
    trouble = error.what();
  }
  for (const StorageEntry& storage : storages) reset(storage);
  throw RunError(trouble +
                 "; as it had been checked before, every storage is back at its initial value");
}

}  // namespace

bool is_checkpoint(const SafetensorsFile& file) {
  const auto format = file.metadata().find("format");
  return format != file.metadata().end() && format->second == kFormat;
}

std::set<std::string> states_in(const SafetensorsFile& checkpoint) {
  std::set<std::string> states;
  std::istringstream lines(states_text(checkpoint).value_or(""));
  for (std::string path; std::getline(lines, path);) states.insert(path);
  return states;
}

void check_whole(const SafetensorsFile& checkpoint) {
  const CheckpointRecord recorded = read_metadata(checkpoint);
  if (!recorded.states) return;
  const std::set<std::string> states = states_in(checkpoint);
  check_data(checkpoint, recorded, [&](std::string_view name) {
    return !is_own_name(name) && !states.contains(std::string(name));
  });
}

void save_checkpoint(const std::string& file, std::span<const StorageEntry> storages,
                     const CheckpointInfo& info) {
  std::uint64_t seed = info.seed;
  for (const StorageEntry& storage : storages) {
    if (is_seed(storage)) std::memcpy(&seed, storage.data, sizeof seed);
  }
  const StoragesByPath by_path = tensors_by_path(storages);
  std::string states;
  for (const auto& [path, storage] : by_path) {
    if (storage->kind == StorageKind::state) states += fmt::format("{}\n", path);
  }
  Hashes hashes(seed, info.choices_hash, states);
  std::vector<TensorBytes> tensors;
  for (const auto& [path, storage] : by_path) {
    const std::span<const std::byte> bytes(storage->data, storage->type.bytes());
    hashes.begin(is_model(storage->kind), path, storage->type).add(bytes);
    tensors.push_back({storage->path, storage->type, bytes});
  }
  write_safetensors(file, tensors,
                    {{"format", std::string(kFormat)},
                     {"version", std::string(kVersion)},
                     {"seed", fmt::format("{}", seed)},
                     {"choices", hex(info.choices_hash)},
                     {"fingerprint", hex(hashes.model.value())},
                     {"checksum", hex(hashes.rest.value())},
                     {"states", states}});
}

std::vector<std::string> load_checkpoint(const std::string& file,
                                         std::span<const StorageEntry> storages,
                                         const CheckpointInfo& expected) {
  const SafetensorsFile opened(file);
  const CheckpointRecord recorded = read_metadata(opened);
  const StoragesByPath by_path = tensors_by_path(storages);
  KeptTensors kept{file, "file", {}};
  for (const auto& [name, entry] : opened.tensors()) kept.tensors.emplace(name, entry.type);
  Match matched = match(kept, by_path);
  check_data(opened, recorded, [&](std::string_view name) {
    const auto found = by_path.find(name);
    return found != by_path.end() && is_model(found->second->kind);
  });
  fill(opened, matched, storages);
  take_origin(kept, {recorded.seed, recorded.choices}, expected, storages, matched.notices);
  return std::move(matched.notices);
}

}  // namespace metronome::executor::checkpoint
