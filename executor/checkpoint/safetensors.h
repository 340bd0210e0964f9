// The safetensors format (https://huggingface.co/docs/safetensors, "Format"), over plain memory:
// eight bytes with the header's length, a JSON header, then the tensors' bytes, dense and
// row-major, without holes. Here: F32, F64, I32, I64, BOOL, BF16 and F16, little-endian.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "executor/support/descriptor.h"
#include "graph/ir/type.h"

namespace metronome::executor::checkpoint {

/// Free text beside the tensors.
using Metadata = std::map<std::string, std::string>;

/// A tensor to be written; the bytes are borrowed and as many as the type says.
struct TensorBytes {
  std::string name;
  Type type;
  std::span<const std::byte> bytes;
};

/// Replaces `file` whole or not at all (see AtomicFile, and its errors). Wide elements come first,
/// equal ones by name, and the data begins at a multiple of 64 bytes, so that each tensor lies at a
/// multiple of its element's size. Equal tensors and metadata make equal files, whatever their
/// order in `tensors`. Throws RunError where a name or text is not UTF-8.
void write_safetensors(const std::string& file, std::span<const TensorBytes> tensors,
                       const Metadata& metadata);

/// Throws RunError "FILE: cannot be loaded: REASON". `file` may as well name a snapshot.
[[noreturn]] void refuse_file(const std::string& file, std::string_view reason);

/// An open file whose header has been checked in full: every tensor's bytes lie in the file, each
/// byte of data belongs to exactly one tensor. Data is read when it is asked for, with `pread` into
/// the caller's memory: a mapping would need no copy either, but a file that someone cuts short
/// under a mapping kills the process (SIGBUS), while a short `pread` is an error like any other.
///
/// Every failure is a RunError "FILE: cannot be loaded: REASON".
class SafetensorsFile {
 public:
  /// The place of a tensor: bytes [begin, end) of the data.
  struct Entry {
    Type type;
    std::uint64_t begin = 0;
    std::uint64_t end = 0;

    std::uint64_t bytes() const { return end - begin; }
  };
  using Entries = std::map<std::string, Entry, std::less<>>;

  explicit SafetensorsFile(std::string file);

  const std::string& file() const { return file_; }
  const Entries& tensors() const { return tensors_; }
  const Metadata& metadata() const { return metadata_; }

  /// All bytes of a tensor of this file, into memory of just that size.
  void read(const Entry& tensor, std::span<std::byte> into) const;
  /// All bytes of a tensor piece by piece, each at most 1 MiB and valid during the call.
  void stream(const Entry& tensor,
              const std::function<void(std::span<const std::byte>)>& consume) const;
  /// Whether someone has written to the file since it was opened.
  bool has_changed() const;

 private:
  void read_at(std::uint64_t offset, std::span<std::byte> into) const;

  std::string file_;
  Descriptor descriptor_;
  std::int64_t modified_ns_ = 0;  // since 1970
  std::uint64_t size_ = 0;        // bytes of the file
  std::uint64_t data_ = 0;        // where the data begins
  Entries tensors_;
  Metadata metadata_;
};

/// "F32", "F64", "I32", "I64" or "BOOL".
std::string_view dtype_of(Element element);

}  // namespace metronome::executor::checkpoint
