// Memory that shows writes beside it.
#pragma once

#include <cstddef>
#include <cstring>
#include <memory>
#include <new>

namespace metronome {

/// Bytes at a multiple of 256 between two guards. They begin as 0xFF: NaN in floating types.
class GuardedBytes {
 public:
  explicit GuardedBytes(std::size_t bytes)
      : size_(bytes),
        block_(
            static_cast<std::byte*>(::operator new(bytes + 2 * kGuard, std::align_val_t{kGuard}))) {
    std::memset(block_.get(), kMark, kGuard);
    std::memset(block_.get() + kGuard, 0xFF, bytes);
    std::memset(block_.get() + kGuard + bytes, kMark, kGuard);
  }
  std::byte* data() const { return block_.get() + kGuard; }
  std::size_t size() const { return size_; }
  bool intact() const {
    for (std::size_t i = 0; i < kGuard; ++i) {
      if (std::to_integer<int>(block_.get()[i]) != kMark) return false;
      if (std::to_integer<int>(data()[size_ + i]) != kMark) return false;
    }
    return true;
  }

 private:
  static constexpr std::size_t kGuard = 256;  // wider than any vector; keeps the alignment
  static constexpr int kMark = 0x5A;
  struct Free {
    void operator()(std::byte* block) const { ::operator delete(block, std::align_val_t{kGuard}); }
  };
  std::size_t size_;
  std::unique_ptr<std::byte, Free> block_;
};

}  // namespace metronome
