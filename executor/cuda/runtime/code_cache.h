// Compiled kernels, kept on disk by what they were compiled from.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace metronome::executor::runtime {

/// A folder of files "<key>.cubin", each with a checksum. Losing it costs time, nothing else: a
/// damaged file, and a folder that cannot be written, are warnings. Several processes may share it.
class CodeCache {
 public:
  explicit CodeCache(std::string folder = default_folder());

  /// Nothing where there is no such file, or a damaged one.
  std::optional<std::vector<char>> find(std::uint64_t key) const;
  /// Replaces what is there.
  void keep(std::uint64_t key, const std::vector<char>& code);

  /// `kernels` under METRONOME_CACHE, else under `metronome` in XDG_CACHE_HOME or HOME/.cache.
  static std::string default_folder();

 private:
  std::string file(std::uint64_t key) const;

  std::string folder_;
  bool writable_ = true;  // as far as is known: one warning is enough
};

}  // namespace metronome::executor::runtime
