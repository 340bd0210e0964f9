// Memory that the executor owns.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>

namespace metronome {

/// Zeroed bytes at a multiple of 64.
class Block {
 public:
  Block() = default;
  explicit Block(std::size_t bytes) : bytes_(bytes) {
    // aligned_alloc wants a multiple of the alignment; an empty value still needs an address.
    const std::size_t rounded = (bytes + kAlignment) / kAlignment * kAlignment;
    data_.reset(static_cast<std::byte*>(std::aligned_alloc(kAlignment, rounded)));
    if (data_ == nullptr) throw std::bad_alloc();
    std::memset(data_.get(), 0, rounded);
  }

  std::byte* data() const { return data_.get(); }
  std::size_t bytes() const { return bytes_; }
  explicit operator bool() const { return data_ != nullptr; }

  static constexpr std::size_t kAlignment = 64;

 private:
  struct Free {
    void operator()(std::byte* p) const { std::free(p); }
  };
  std::unique_ptr<std::byte[], Free> data_;
  std::size_t bytes_ = 0;
};

}  // namespace metronome
