// The header of a checkpoint, read piece by piece, as Metronome writes it: JSON without blanks.
#pragma once

#include <cstddef>
#include <cstdint>

#include "executor/export/runtime/checkpoint_file.h"

namespace metronome::exported {

/// The numbers beside the tensors.
struct CheckpointMetadata {
  std::uint64_t seed = 0, choices = 0, fingerprint = 0, checksum = 0;
  std::uint64_t states_at = 0;  ///< where the states' text lies in the header; 0: nowhere, as in
                                ///< files of earlier programs
  std::uint64_t states_bytes = 0;
};

struct TensorHeader {
  char name[4096];
  char dtype[8];
  std::size_t rank;
  std::uint64_t sizes[64];
  std::uint64_t begin, end;  ///< bytes of the data
};

class CheckpointHeader {
 public:
  /// At the beginning of a file, which outlives it.
  explicit CheckpointHeader(File& file);

  /// Whether the file is as long as its first bytes say, or longer.
  bool is_whole() const { return whole_; }
  /// The data: their first byte in the file, and how many they are.
  std::uint64_t data_begin() const { return kBegin + bytes_; }
  std::uint64_t data_bytes() const { return data_bytes_; }

  /// False where it is no header of a checkpoint.
  bool read_metadata(CheckpointMetadata& metadata);
  /// Adds the text of the states to a hash.
  bool add_states(const CheckpointMetadata& metadata, executor::Hash64& hash);

  enum class Next : std::uint8_t { tensor, end, broken };
  /// The next tensor, from the first on after `rewind`. The file may stand elsewhere.
  Next next(TensorHeader& tensor);
  void rewind() { taken_ = 0; }

 private:
  static constexpr std::uint64_t kBegin = 8;  // behind the header's length

  bool seek();
  /// A character; -1 behind the last.
  int take();
  void put_back(int character);
  bool take(const char* text);
  /// A character of a string, decoded; -1 for its end or what no string has: see `ended_`.
  int take_decoded();
  bool take_string(char* to, std::size_t room);
  bool take_number(std::uint64_t& number);
  bool take_tensor(TensorHeader& tensor);
  bool take_metadata();
  bool take_metadatum(const char* key);

  File& file_;
  bool whole_ = false;
  std::uint64_t bytes_ = 0, data_bytes_ = 0;
  std::uint64_t taken_ = 0;  ///< characters of the header
  bool ended_ = false;       ///< the string that was taken last, by its quotes
  CheckpointMetadata metadata_;
  unsigned met_ = 0;  ///< a bit for each key of metadata that was met
};

}  // namespace metronome::exported
