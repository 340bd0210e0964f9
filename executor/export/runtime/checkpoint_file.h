// A file of a checkpoint, and the hashes that tell a damaged one: reading and writing share them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>

#include "executor/export/runtime/tables.h"
#include "executor/support/hash64.h"

namespace metronome::exported {

/// The name of safetensors: "F32".
const char* dtype_of(Element element);

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
  int get() { return std::fgetc(file_); }
  void put_back(int character) { std::ungetc(character, file_); }
  bool seek(std::uint64_t at);
  std::uint64_t size();
  /// Whether all that was written has reached the disk.
  bool finish();

 private:
  std::FILE* file_;
};

/// Two hashes that cover a file once: of the model's numbers, and of the rest.
struct FileHashes {
  executor::Hash64 model, rest;
};

bool is_model(StorageRow::Kind kind);

}  // namespace metronome::exported
