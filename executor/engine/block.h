// Memory that the executor owns.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <utility>

namespace metronome::executor {

/// Zeroed bytes at a multiple of 64. Tensors that show them may outlive it: they share the bytes,
/// which are freed with the last of them.
class Block {
 public:
  Block() = default;
  Block(Block&&) noexcept = default;
  Block& operator=(Block&&) noexcept = default;
  explicit Block(std::size_t bytes) : Block(unset(bytes)) {
    std::memset(data(), 0, round_up(bytes, kAlignment));
  }
  /// A block that is not zeroed: whoever takes it writes all of it.
  static Block unset(std::size_t bytes) {
    const bool large = bytes >= kLarge;
    const std::size_t size = round_up(bytes, large ? kHugePage : kAlignment);
    void* taken = std::aligned_alloc(large ? kHugePage : kAlignment, size);
    if (taken == nullptr) throw std::bad_alloc();
    // They are ordinary pages where the system has no others.
    if (large) static_cast<void>(madvise(taken, size, MADV_HUGEPAGE));
    return {std::shared_ptr<std::byte>(static_cast<std::byte*>(taken),
                                       [](std::byte* p) { std::free(p); }),
            bytes};
  }

  /// Bytes that `data` owns, zeroed and aligned as these are.
  Block(std::shared_ptr<std::byte> data, std::size_t bytes)
      : data_(std::move(data)), bytes_(bytes) {}

  std::byte* data() const { return data_.get(); }
  std::size_t bytes() const { return bytes_; }
  explicit operator bool() const { return data_ != nullptr; }
  /// The owner that keeps the bytes.
  const std::shared_ptr<std::byte>& owner() const { return data_; }

  static constexpr std::size_t kAlignment = 64;

 private:
  static constexpr std::size_t kHugePage = std::size_t{2} << 20;  ///< of x86-64
  /// From so many bytes on a block asks for huge pages: fewer addresses to translate make steps at
  /// full scale 2 to 3 % faster (AMD EPYC). At most a quarter of it is lost at its end.
  static constexpr std::size_t kLarge = 4 * kHugePage;

  /// aligned_alloc wants a multiple of the alignment; an empty value still needs an address.
  static std::size_t round_up(std::size_t bytes, std::size_t alignment) {
    const std::size_t up = (bytes + alignment) / alignment * alignment;
    if (up < bytes) throw std::bad_alloc();
    return up;
  }

  std::shared_ptr<std::byte> data_;
  std::size_t bytes_ = 0;
};

/// The place of a value in a block.
struct BlockPlace {
  const Block* block = nullptr;
  std::size_t offset = 0;  ///< bytes

  std::byte* data() const { return block->data() + offset; }
};

}  // namespace metronome::executor
