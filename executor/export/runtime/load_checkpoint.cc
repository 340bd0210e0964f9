// Reads a checkpoint that any program wrote which has the model, one with training, too:
//
//   check   each tensor is of its storage's type, or training's own; all are hashed
//   take    bytes of storages, each to its place
//
// Before `take` nothing changes, and of the header nothing is kept but where tensors lie.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <span>

#include "executor/export/runtime/checkpoint_file.h"
#include "executor/export/runtime/checkpoint_header.h"
#include "executor/export/runtime/instance.h"

namespace metronome::exported {
namespace {

/// The hash takes a tensor's bytes next.
void begin_tensor(const TensorHeader& tensor, executor::Hash64& hash) {
  hash.add_text(tensor.name);
  hash.add_text(tensor.dtype);
  hash.add(std::uint64_t{tensor.rank});
  for (std::size_t d = 0; d < tensor.rank; ++d) hash.add(tensor.sizes[d]);
}

bool begins_with(const char* text, const char* with) {
  return std::strncmp(text, with, std::strlen(with)) == 0;
}

/// Whether a model without training, or with another optimizer, may lack it.
bool is_of_training(const char* name) {
  for (const char* begin : {"optimizer/", "average/", "update/", "gathered/"}) {
    if (begins_with(name, begin)) return true;
  }
  for (const char* counter : {"seed", "replay", "update", "draws", "gathered"}) {
    if (std::strcmp(name, counter) == 0) return true;
  }
  return false;
}

bool is_of_type(const TensorHeader& tensor, const Tables& tables, const TypeRow& type) {
  const auto sizes = tables.sizes.subspan(type.sizes.begin, type.sizes.end - type.sizes.begin);
  return std::strcmp(tensor.dtype, dtype_of(type.element)) == 0 &&
         std::equal(
             sizes.begin(), sizes.end(), tensor.sizes, tensor.sizes + tensor.rank,
             [](std::int64_t a, std::uint64_t b) { return a == static_cast<std::int64_t>(b); });
}

/// The storage of that path in the file; kNone where there is none.
constexpr std::uint32_t kNone = UINT32_MAX;
constexpr std::uint64_t kNotInFile = UINT64_MAX;
std::uint32_t find(const Tables& tables, const char* path) {
  const auto& by_path = tables.checkpoint.by_path;
  const auto before = [&](std::uint32_t storage, const char* wanted) {
    return std::strcmp(tables.storages[storage].path, wanted) < 0;
  };
  const auto found = std::lower_bound(by_path.begin(), by_path.end(), path, before);
  if (found == by_path.end()) return kNone;
  return std::strcmp(tables.storages[*found].path, path) == 0 ? *found : kNone;
}

/// Adds bytes of a file to a hash. False where they cannot be read, or are no bools where
/// `bools`.
bool add_bytes(File& file, std::uint64_t bytes, bool bools, executor::Hash64& hash) {
  std::byte piece[4096];
  while (bytes > 0) {
    const auto count = static_cast<std::size_t>(std::min<std::uint64_t>(sizeof piece, bytes));
    if (!file.read(piece, count)) return false;
    hash.add({piece, count});
    bytes -= count;
    const auto is_no_bool = [](std::byte each) { return each > std::byte{1}; };
    if (bools && std::any_of(piece, piece + count, is_no_bool)) return false;
  }
  return true;
}

/// Looks at all of a file, and notes where its tensors lie.
class FileCheck {
 public:
  /// `offsets`: [storage]; kNotInFile at first.
  FileCheck(const Tables& tables, File& file, std::span<std::uint64_t> offsets)
      : tables_(tables), file_(file), header_(file), offsets_(offsets) {}

  /// Null if the file can be taken, else why not; `tensor()` is then the one that is meant, or "".
  const char* run() {
    tensor_.name[0] = 0;
    if (!header_.is_whole()) return "is no whole checkpoint";
    if (!header_.read_metadata(metadata_)) return "is no checkpoint of Metronome";
    hashes_.rest.add(metadata_.seed);
    hashes_.rest.add(metadata_.choices);
    if (!header_.add_states(metadata_, hashes_.rest)) return kUnreadable;
    CheckpointHeader::Next next{};
    while ((next = header_.next(tensor_)) == CheckpointHeader::Next::tensor) {
      if (const char* why = add_tensor()) return why;
    }
    tensor_.name[0] = 0;
    if (next != CheckpointHeader::Next::end) return kUnreadable;
    if (covered_ != header_.data_bytes()) return "is no whole checkpoint";
    for (const std::uint32_t index : tables_.checkpoint.by_path) {
      if (offsets_[index] != kNotInFile) continue;
      std::snprintf(tensor_.name, sizeof tensor_.name, "%s", tables_.storages[index].path);
      return "is of another model: it lacks";
    }
    const bool same = hashes_.model.value() == metadata_.fingerprint &&
                      hashes_.rest.value() == metadata_.checksum;
    return same ? nullptr : "is damaged";
  }

  const char* tensor() const { return tensor_.name; }
  std::uint64_t data_begin() const { return header_.data_begin(); }
  std::uint64_t seed() const { return metadata_.seed; }

 private:
  static constexpr const char* kUnreadable = "cannot be read";

  const char* add_tensor() {
    const std::uint32_t index = find(tables_, tensor_.name);
    const StorageRow* const storage = index == kNone ? nullptr : &tables_.storages[index];
    if (storage == nullptr && !is_of_training(tensor_.name)) {
      return "is of another model: it has";
    }
    if (storage != nullptr && !is_of_type(tensor_, tables_, tables_.types[storage->type])) {
      return "is of another model: it has in another type";
    }
    if (tensor_.begin > tensor_.end || tensor_.end > header_.data_bytes()) {
      tensor_.name[0] = 0;
      return "is no whole checkpoint";
    }
    const std::uint64_t bytes = tensor_.end - tensor_.begin;
    if (storage != nullptr) {
      if (bytes != bytes_of(tables_, storage->type)) return "is damaged at";
      offsets_[index] = tensor_.begin;
    }
    covered_ += bytes;
    executor::Hash64& hash =
        storage != nullptr && is_model(storage->kind) ? hashes_.model : hashes_.rest;
    begin_tensor(tensor_, hash);
    const bool bools = std::strcmp(tensor_.dtype, "BOOL") == 0;
    const bool added =
        file_.seek(header_.data_begin() + tensor_.begin) && add_bytes(file_, bytes, bools, hash);
    return added ? nullptr : "cannot be read at";
  }

  const Tables& tables_;
  File& file_;
  CheckpointHeader header_;
  CheckpointMetadata metadata_;
  TensorHeader tensor_;
  FileHashes hashes_;
  std::span<std::uint64_t> offsets_;
  std::uint64_t covered_ = 0;
};

}  // namespace

Code Instance::load(const char* name) {
  if (name == nullptr) return refuse(Code::null, "%s_load: the file's name is NULL", tables_.name);
  File file(name, "rb");
  if (!file) {
    return refuse(Code::wrong_file, "%s_load: \"%s\" cannot be opened", tables_.name, name);
  }
  std::fill(file_offsets_.begin(), file_offsets_.end(), kNotInFile);
  FileCheck check(tables_, file, file_offsets_);
  if (const char* why = check.run()) {
    const bool names = *check.tensor() != 0;
    return refuse(Code::wrong_file, names ? "%s_load: \"%s\" %s \"%.100s\"" : "%s_load: \"%s\" %s",
                  tables_.name, name, why, check.tensor());
  }
  bool read = true;
  for (const std::uint32_t index : tables_.checkpoint.in_file) {
    const StorageRow& storage = tables_.storages[index];
    read = read && file.seek(check.data_begin() + file_offsets_[index]) &&
           file.read(at(storage.place), bytes_of(storage.type));
    ++versions_[index];
  }
  if (const std::int32_t seed = tables_.checkpoint.seed; seed >= 0) {
    const std::uint64_t number = check.seed();
    std::memcpy(at(tables_.storages[seed].place), &number, sizeof number);
  }
  has_weights_ = true;
  if (read) return Code::ok;
  fill();
  return refuse(Code::wrong_file,
                "%s_load: \"%s\" changed while it was read; everything is as it was exported",
                tables_.name, name);
}

}  // namespace metronome::exported
