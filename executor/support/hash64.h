// A 64-bit hash of many bytes, for telling damaged files from whole ones.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace metronome::executor {

/// XXH64 with seed 0 (Yann Collet, https://github.com/Cyan4973/xxHash, the published
/// specification), fed piece by piece: `value` depends on the bytes, not on where the pieces are
/// cut.
class Hash64 {
 public:
  void add(std::span<const std::byte> bytes);
  /// The number's eight bytes, lowest first.
  void add(std::uint64_t number);
  /// Length and bytes, so that "ab", "c" and "a", "bc" differ.
  void add_text(std::string_view text);
  /// Returns the hash of everything added so far; more may be added afterwards.
  std::uint64_t value() const;

 private:
  static constexpr std::size_t kStripe = 32;  // bytes: one 64-bit word for each of four lanes

  void consume(const std::byte* stripe);

  std::array<std::uint64_t, 4> lanes_ = {0x60EA27EEADC0B5D6u, 0xC2B2AE3D27D4EB4Fu, 0,
                                         0x61C8864E7A143579u};
  std::array<std::byte, kStripe> rest_ = {};  // bytes that do not fill a stripe yet
  std::uint64_t length_ = 0;                  // bytes added
};

}  // namespace metronome::executor
