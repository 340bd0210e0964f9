// Checkpoints as Metronome writes them: safetensors files. For one model all of the header but four
// numbers is known:
//
//   length | {"__metadata__":{"checksum":"\4","choices":"\2","fingerprint":"\3",...,"seed":"\1"},
//   "linear/bias":{...},...} | bytes of all storages but the seed
#include <sys/stat.h>
#include <unistd.h>

#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "executor/export/runtime/checkpoint_file.h"
#include "executor/export/runtime/instance.h"

namespace metronome::exported {
namespace {

constexpr std::size_t kAlignment = 64;  // of the data in a file

// Marks in the header's text.
constexpr char kSeed = '\1', kChoices = '\2', kFingerprint = '\3';

/// Walks through the header's text, piece by piece: f(text, bytes) for what is fixed, and
/// f(mark) for a number. Ends where either returns false.
template <class Text, class Number>
bool walk(const char* header, const Text& text, const Number& number) {
  while (*header != 0) {
    const std::size_t fixed = std::strcspn(header, "\1\2\3\4");
    if (fixed > 0 && !text(header, fixed)) return false;
    header += fixed;
    if (*header != 0 && !number(*header++)) return false;
  }
  return true;
}

/// The numbers that a header holds.
struct Origin {
  std::uint64_t seed = 0, choices = 0, fingerprint = 0, checksum = 0;
};

/// The number's text, and its length.
std::size_t print(const Origin& origin, char mark, char (&text)[24]) {
  if (mark == kSeed) return static_cast<std::size_t>(std::sprintf(text, "%" PRIu64, origin.seed));
  const std::uint64_t number = mark == kChoices       ? origin.choices
                               : mark == kFingerprint ? origin.fingerprint
                                                      : origin.checksum;
  return static_cast<std::size_t>(std::sprintf(text, "%016" PRIx64, number));
}

/// Adds a tensor: what its hash begins with, and its bytes.
void add_tensor(const Tables& tables, const StorageRow& storage, const std::byte* data,
                std::size_t bytes, FileHashes& hashes) {
  executor::Hash64& hash = is_model(storage.kind) ? hashes.model : hashes.rest;
  const TypeRow& type = tables.types[storage.type];
  hash.add_text(storage.path);
  hash.add_text(dtype_of(type.element));
  hash.add(std::uint64_t{type.sizes.end - type.sizes.begin});
  for (std::uint32_t d = type.sizes.begin; d < type.sizes.end; ++d) {
    hash.add(static_cast<std::uint64_t>(tables.sizes[d]));
  }
  hash.add({data, bytes});
}

}  // namespace

Code Instance::save(const char* name) {
  const CheckpointRow& row = tables_.checkpoint;
  if (name == nullptr) return refuse(Code::null, "%s_save: the file's name is NULL", tables_.name);
  if (const Code code = require_weights("save"); code != Code::ok) return code;
  Origin origin{.choices = row.choices};
  if (row.seed >= 0) std::memcpy(&origin.seed, at(tables_.storages[row.seed].place), 8);
  FileHashes hashes;
  hashes.rest.add(origin.seed);
  hashes.rest.add(origin.choices);
  hashes.rest.add_text(row.states);
  for (const std::uint32_t index : row.by_path) {
    const StorageRow& storage = tables_.storages[index];
    add_tensor(tables_, storage, at(storage.place), bytes_of(storage.type), hashes);
  }
  origin.fingerprint = hashes.model.value();
  origin.checksum = hashes.rest.value();

  char beside[4096];
  const int length = std::snprintf(beside, sizeof beside, "%s.XXXXXX", name);
  if (length < 0 || static_cast<std::size_t>(length) >= sizeof beside) {
    return refuse(Code::wrong_file, "%s_save: the file's name is too long", tables_.name);
  }
  const int descriptor = mkstemp(beside);
  if (descriptor < 0) {
    return refuse(Code::wrong_file, "%s_save: \"%s\" cannot be written", tables_.name, name);
  }
  fchmod(descriptor, 0644);
  File file(fdopen(descriptor, "wb"));
  if (!file) close(descriptor);
  char digits[24];
  std::uint64_t bytes = 0;
  const auto count = [&](const char*, std::size_t fixed) { return (bytes += fixed, true); };
  walk(row.header, count, [&](char mark) { return (bytes += print(origin, mark, digits), true); });
  const std::uint64_t padding = (kAlignment - (8 + bytes) % kAlignment) % kAlignment;
  const std::uint64_t whole = bytes + padding;
  constexpr char kBlanks[kAlignment + 1] =
      "                                                                ";
  bool written =
      file && file.write(&whole, 8) &&
      walk(
          row.header, [&](const char* text, std::size_t fixed) { return file.write(text, fixed); },
          [&](char mark) { return file.write(digits, print(origin, mark, digits)); }) &&
      file.write(kBlanks, padding);
  for (const std::uint32_t index : row.in_file) {
    const StorageRow& storage = tables_.storages[index];
    written = written && file.write(at(storage.place), bytes_of(storage.type));
  }
  if (file) written = file.finish() && written;
  if (written && std::rename(beside, name) == 0) return Code::ok;
  std::remove(beside);
  return refuse(Code::wrong_file, "%s_save: \"%s\" cannot be written", tables_.name, name);
}

}  // namespace metronome::exported
