// Checkpoints as Metronome writes and reads them: safetensors files. For one model all of the
// header but four numbers is known, so that it is compared with a text in place of being parsed:
//
//   length | {"__metadata__":{"checksum":"\4","choices":"\2","fingerprint":"\3",...,"seed":"\1"},
//   "linear/bias":{...},...} | bytes of all storages but the seed
//
// A file is read twice: its hashes are compared before anything changes.
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "executor/export/runtime/instance.h"
#include "executor/support/hash64.h"

namespace metronome::exported {
namespace {

using executor::Hash64;

constexpr std::size_t kAlignment = 64;  // of the data in a file
constexpr std::size_t kHexDigits = 16;

// Marks in the header's text.
constexpr char kSeed = '\1', kChoices = '\2', kFingerprint = '\3', kChecksum = '\4';

const char* dtype_of(Element element) {
  constexpr const char* kNames[] = {"F32", "F64", "I32", "I64", "BOOL", "BF16", "F16"};
  return kNames[static_cast<std::size_t>(element)];
}

/// The numbers that a header holds.
struct Origin {
  std::uint64_t seed = 0, choices = 0, fingerprint = 0, checksum = 0;
};

/// A file that is closed at the end.
class File {
 public:
  File(const char* name, const char* mode) : file_(std::fopen(name, mode)) {}
  explicit File(std::FILE* file) : file_(file) {}
  ~File() {
    if (file_ != nullptr) std::fclose(file_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  explicit operator bool() const { return file_ != nullptr; }
  bool read(void* to, std::size_t bytes) { return std::fread(to, 1, bytes, file_) == bytes; }
  bool write(const void* from, std::size_t bytes) {
    return std::fwrite(from, 1, bytes, file_) == bytes;
  }
  bool seek(std::uint64_t at) { return fseeko(file_, static_cast<off_t>(at), SEEK_SET) == 0; }
  std::uint64_t size() {
    if (fseeko(file_, 0, SEEK_END) != 0) return 0;
    const off_t end = ftello(file_);
    return end < 0 || !seek(0) ? 0 : static_cast<std::uint64_t>(end);
  }
  /// Whether all that was written has reached the disk.
  bool finish() {
    const bool whole = std::fflush(file_) == 0 && fsync(fileno(file_)) == 0;
    const bool closed = std::fclose(file_) == 0;
    file_ = nullptr;
    return whole && closed;
  }

 private:
  std::FILE* file_;
};

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

/// The number's text, and its length.
std::size_t print(const Origin& origin, char mark, char (&text)[24]) {
  if (mark == kSeed) return static_cast<std::size_t>(std::sprintf(text, "%" PRIu64, origin.seed));
  const std::uint64_t number = mark == kChoices       ? origin.choices
                               : mark == kFingerprint ? origin.fingerprint
                                                      : origin.checksum;
  return static_cast<std::size_t>(std::sprintf(text, "%016" PRIx64, number));
}

/// Reads the numbers of a header that begins where the file stands, if it is that text. `left`
/// becomes the bytes of the header that follow.
bool read_header(File& file, const char* header, std::uint64_t& left, Origin& origin) {
  const auto take = [&](char* to, std::size_t bytes) {
    if (bytes > left || !file.read(to, bytes)) return false;
    left -= bytes;
    return true;
  };
  const auto same = [&](const char* expected, std::size_t bytes) {
    char piece[256];
    for (std::size_t at = 0; at < bytes; at += sizeof piece) {
      const std::size_t count = std::min(sizeof piece, bytes - at);
      if (!take(piece, count) || std::memcmp(piece, expected + at, count) != 0) return false;
    }
    return true;
  };
  char behind_seed = 0;  // the seed's text has no fixed length
  const auto text = [&](const char* expected, std::size_t bytes) {
    if (behind_seed == 0) return same(expected, bytes);
    const bool joins = *expected == behind_seed;
    behind_seed = 0;
    return joins && same(expected + 1, bytes - 1);
  };
  const auto number = [&](char mark) {
    char digits[24] = "";
    if (mark == kSeed) {
      std::size_t count = 0;
      while (count + 1 < sizeof digits && take(&digits[count], 1) && digits[count] >= '0' &&
             digits[count] <= '9') {
        ++count;
      }
      behind_seed = digits[count];
      digits[count] = 0;
      origin.seed = std::strtoull(digits, nullptr, 10);
      return count > 0;
    }
    if (!take(digits, kHexDigits)) return false;
    char* end = nullptr;
    const std::uint64_t read = std::strtoull(digits, &end, 16);
    (mark == kChoices       ? origin.choices
     : mark == kFingerprint ? origin.fingerprint
                            : origin.checksum) = read;
    return end == digits + kHexDigits;
  };
  return walk(header, text, number);
}

struct Hashes {
  Hash64 model, rest;
  Hashes(const Tables& tables, const Origin& origin) {
    rest.add(origin.seed);
    rest.add(origin.choices);
    rest.add_text(tables.checkpoint.states);
  }
};

/// Adds what a tensor's hash begins with to the hash that its bytes go to.
Hash64& begin_tensor(const Tables& tables, const StorageRow& storage, Hashes& hashes) {
  const bool of_model =
      storage.kind == StorageRow::Kind::parameter || storage.kind == StorageRow::Kind::buffer;
  Hash64& hash = of_model ? hashes.model : hashes.rest;
  const TypeRow& type = tables.types[storage.type];
  hash.add_text(storage.path);
  hash.add_text(dtype_of(type.element));
  hash.add(std::uint64_t{type.sizes.end - type.sizes.begin});
  for (std::uint32_t d = type.sizes.begin; d < type.sizes.end; ++d) {
    hash.add(static_cast<std::uint64_t>(tables.sizes[d]));
  }
  return hash;
}

}  // namespace

Code Instance::save(const char* name) {
  const CheckpointRow& row = tables_.checkpoint;
  if (name == nullptr) return refuse(Code::null, "%s_save: the file's name is NULL", tables_.name);
  Origin origin{.choices = row.choices};
  if (row.seed >= 0) std::memcpy(&origin.seed, at(tables_.storages[row.seed].place), 8);
  Hashes hashes(tables_, origin);
  for (const std::uint32_t index : row.by_path) {
    const StorageRow& storage = tables_.storages[index];
    begin_tensor(tables_, storage, hashes).add({at(storage.place), bytes_of(storage.type)});
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

Code Instance::load(const char* name) {
  const CheckpointRow& row = tables_.checkpoint;
  if (name == nullptr) return refuse(Code::null, "%s_load: the file's name is NULL", tables_.name);
  File file(name, "rb");
  if (!file)
    return refuse(Code::wrong_file, "%s_load: \"%s\" cannot be opened", tables_.name, name);
  const auto wrong = [&](const char* why) {
    return refuse(Code::wrong_file, "%s_load: \"%s\" %s", tables_.name, name, why);
  };
  const std::uint64_t size = file.size();
  std::uint64_t header = 0, data = 0;
  if (size < 8 || !file.read(&header, 8) || header > size - 8)
    return wrong("is no whole checkpoint");
  for (const std::uint32_t index : row.in_file) data += bytes_of(tables_.storages[index].type);
  Origin origin;
  std::uint64_t left = header;
  if (!read_header(file, row.header, left, origin)) return wrong("is no checkpoint of this model");
  if (size != 8 + header + data) return wrong("is no whole checkpoint");

  std::uint64_t begin = 8 + header;
  const auto find = [&](std::uint32_t wanted) {
    std::uint64_t at = begin;
    for (const std::uint32_t index : row.in_file) {
      if (index == wanted) break;
      at += bytes_of(tables_.storages[index].type);
    }
    return at;
  };
  Hashes hashes(tables_, origin);
  for (const std::uint32_t index : row.by_path) {
    const StorageRow& storage = tables_.storages[index];
    Hash64& hash = begin_tensor(tables_, storage, hashes);
    if (!file.seek(find(index))) return wrong("cannot be read");
    std::byte piece[4096];
    const std::size_t bytes = bytes_of(storage.type);
    for (std::size_t at = 0; at < bytes; at += sizeof piece) {
      const std::size_t count = std::min(sizeof piece, bytes - at);
      if (!file.read(piece, count)) return wrong("cannot be read");
      hash.add({piece, count});
      if (tables_.types[storage.type].element == bool_ &&
          std::any_of(piece, piece + count, [](std::byte b) { return b > std::byte{1}; })) {
        return wrong("has a bool that is neither 0 nor 1");
      }
    }
  }
  if (hashes.model.value() != origin.fingerprint || hashes.rest.value() != origin.checksum) {
    return wrong("is damaged");
  }

  bool read = file.seek(begin);
  for (const std::uint32_t index : row.in_file) {
    const StorageRow& storage = tables_.storages[index];
    read = read && file.read(at(storage.place), bytes_of(storage.type));
    ++versions_[index];
  }
  if (row.seed >= 0) std::memcpy(at(tables_.storages[row.seed].place), &origin.seed, 8);
  if (read) return Code::ok;
  fill();
  fed_.assign(fed_.size(), false);
  output_places_.assign(output_places_.size(), kNowhere);
  return wrong("changed while it was read; everything is as it was exported");
}

}  // namespace metronome::exported
