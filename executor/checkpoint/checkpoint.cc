#include "executor/checkpoint/checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <map>
#include <string_view>

#include "executor/checkpoint/safetensors.h"
#include "executor/support/hash64.h"
#include "graph/ir/error.h"

namespace metronome::executor::checkpoint {
namespace {

constexpr std::string_view kFormat = "metronome checkpoint";
constexpr std::string_view kVersion = "1";
constexpr std::string_view kMoments = "optimizer/";  // what paths of moments begin with
constexpr std::size_t kNamed = 3;                    // problems that one error names

using Entry = SafetensorsFile::Entry;
using ByPath = std::map<std::string_view, const Checkpointed*>;

bool is_seed(const Checkpointed& storage) {
  return storage.kind == StorageKind::counter && storage.path == "seed";
}

// The numbers that make a model: the fingerprint is over these, the checksum over the rest.
bool is_model(StorageKind kind) {
  return kind == StorageKind::parameter || kind == StorageKind::buffer;
}

ByPath tensors_by_path(std::span<const Checkpointed> storages) {
  ByPath by_path;
  for (const Checkpointed& storage : storages) {
    if (!is_seed(storage)) by_path.emplace(storage.path, &storage);
  }
  return by_path;
}

// Two hashes that cover a file once.
struct Hashes {
  Hashes(std::uint64_t seed, std::uint64_t choices) {
    rest.add(seed);
    rest.add(choices);
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

struct Recorded {
  std::uint64_t seed = 0;
  std::uint64_t choices = 0;
  std::uint64_t fingerprint = 0;
  std::uint64_t checksum = 0;
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

Recorded read_metadata(const SafetensorsFile& file) {
  const auto format = file.metadata().find("format");
  if (format == file.metadata().end() || format->second != kFormat) {
    refuse_file(
        file.file(),
        fmt::format(
            "it is a safetensors file, but no Metronome checkpoint: its metadata has "
            "{} as \"format\", not \"{}\"",
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
          .checksum = number_in(file, "checksum", 16)};
}

// How the storages and the tensors of a file go together.
struct Match {
  std::vector<std::pair<const Checkpointed*, const Entry*>> read;
  std::vector<const Checkpointed*> reset;
  std::vector<std::string> notices;
};

std::string difference(const Checkpointed& storage, const Entry* entry) {
  return fmt::format("{} \"{}\" is {} here and {} in the file", name_of(storage.kind), storage.path,
                     to_string(storage.type),
                     entry == nullptr ? "missing" : to_string(entry->type));
}

[[noreturn]] void refuse_model(const std::string& file, const std::vector<std::string>& problems) {
  const std::size_t named = std::min(problems.size(), kNamed);
  std::string reason = fmt::format("it is of another model: {}",
                                   fmt::join(problems.begin(), problems.begin() + named, "; "));
  if (problems.size() > named) reason += fmt::format("; and {} more", problems.size() - named);
  refuse_file(file, reason);
}

Match match(const SafetensorsFile& file, const ByPath& storages) {
  Match result;
  std::vector<std::string> problems;
  std::size_t moments = 0, fresh_moments = 0, ignored_moments = 0;
  for (const auto& [path, storage] : storages) {
    const auto found = file.tensors().find(path);
    const Entry* entry = found == file.tensors().end() ? nullptr : &found->second;
    const bool moment = storage->kind == StorageKind::moment;
    moments += moment;
    if (entry != nullptr && entry->type == storage->type) {
      result.read.emplace_back(storage, entry);
    } else if (moment) {
      ++fresh_moments;
      result.reset.push_back(storage);
    } else if (storage->kind == StorageKind::state) {
      result.reset.push_back(storage);
      result.notices.push_back(fmt::format("{}: {}: it starts from its initial value", file.file(),
                                           difference(*storage, entry)));
    } else {
      problems.push_back(difference(*storage, entry));
    }
  }
  for (const auto& [name, entry] : file.tensors()) {
    if (storages.contains(name) || name == "replay" || name == "update") continue;
    if (name.starts_with(kMoments)) {
      ++ignored_moments;
    } else {
      problems.push_back(
          fmt::format("{:?} is {} in the file and nothing here", name, to_string(entry.type)));
    }
  }
  if (!problems.empty()) refuse_model(file.file(), problems);
  if (ignored_moments > 0) {
    result.notices.push_back(fmt::format("{}: ignored {} tensors of an optimizer that is not here",
                                         file.file(), ignored_moments));
  }
  if (fresh_moments > 0) {
    result.notices.push_back(fmt::format(
        "{}: lacks {} of the optimizer's {} tensors: they start from their initial values",
        file.file(), fresh_moments, moments));
  }
  return result;
}

// The first pass over the data: nothing is kept of it but two hashes.
void check_data(const SafetensorsFile& file, const ByPath& storages, const Recorded& recorded) {
  Hashes hashes(recorded.seed, recorded.choices);
  for (const auto& [name, entry] : file.tensors()) {
    const auto found = storages.find(name);
    const bool of_model = found != storages.end() && is_model(found->second->kind);
    Hash64& hash = hashes.begin(of_model, name, entry.type);
    const bool boolean = entry.type.element == bool_;
    file.stream(entry, [&](std::span<const std::byte> piece) {
      hash.add(piece);
      const auto wrong = [](std::byte byte) { return byte > std::byte{1}; };
      if (boolean && std::ranges::any_of(piece, wrong)) {
        const auto byte = std::to_integer<int>(*std::ranges::find_if(piece, wrong));
        refuse_file(
            file.file(),
            fmt::format("{:?} is a bool tensor, but has a byte of {}, not 0 or 1", name, byte));
      }
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
void fill(const SafetensorsFile& file, const Match& match, std::span<const Checkpointed> storages) {
  const auto reset = [](const Checkpointed& storage) {
    if (storage.reset) storage.reset(storage.data);
  };
  if (file.changed()) refuse_file(file.file(), "another process wrote to it meanwhile");
  std::string trouble;
  try {
    for (const Checkpointed* storage : match.reset) reset(*storage);
    for (const auto& [storage, entry] : match.read) {
      file.read(*entry, {storage->data, storage->type.bytes()});
    }
    if (!file.changed()) return;
    trouble =
        fmt::format("{}: cannot be loaded: another process wrote to it meanwhile", file.file());
  } catch (const RunError& error) {
    trouble = error.what();
  }
  for (const Checkpointed& storage : storages) reset(storage);
  throw RunError(trouble +
                 "; as it had been checked before, every storage is back at its initial value");
}

}  // namespace

void save_checkpoint(const std::string& file, std::span<const Checkpointed> storages,
                     const CheckpointInfo& info) {
  std::uint64_t seed = info.seed;
  for (const Checkpointed& storage : storages) {
    if (is_seed(storage)) std::memcpy(&seed, storage.data, sizeof seed);
  }
  Hashes hashes(seed, info.choices_hash);
  std::vector<TensorBytes> tensors;
  for (const auto& [path, storage] : tensors_by_path(storages)) {
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
                     {"checksum", hex(hashes.rest.value())}});
}

std::vector<std::string> load_checkpoint(const std::string& file,
                                         std::span<const Checkpointed> storages,
                                         const CheckpointInfo& expected) {
  const SafetensorsFile opened(file);
  const Recorded recorded = read_metadata(opened);
  const ByPath by_path = tensors_by_path(storages);
  Match matched = match(opened, by_path);
  check_data(opened, by_path, recorded);
  fill(opened, matched, storages);

  std::vector<std::string> notices = std::move(matched.notices);
  for (const Checkpointed& storage : storages) {
    if (!is_seed(storage)) continue;
    std::memcpy(storage.data, &recorded.seed, sizeof recorded.seed);
    if (recorded.seed != expected.seed) {
      notices.push_back(
          fmt::format("{}: was saved under seed {}, not {}: random numbers go on with {}", file,
                      recorded.seed, expected.seed, recorded.seed));
    }
  }
  if (recorded.choices != expected.choices_hash) {
    notices.push_back(fmt::format("{}: was saved under kernel choices {}, not {}: bits may differ",
                                  file, hex(recorded.choices), hex(expected.choices_hash)));
  }
  return notices;
}

}  // namespace metronome::executor::checkpoint
