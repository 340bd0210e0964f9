// Memory of a device for many short runs, with guards around what is handed out.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <utility>
#include <vector>

#include "executor/cuda/program/device_state.h"

namespace metronome {

/// Taken from the device once, handed out again after `reset`.
class DevicePool {
 public:
  DevicePool(CudaDriver& driver, CudaStream stream) : driver_(driver), stream_(stream) {}

  /// Aligned to 256 bytes.
  std::byte* take(std::size_t bytes) {
    bytes = executor::program::device_aligned(std::max<std::size_t>(bytes, 1));
    while (chunk_ < chunks_.size() && used_ + bytes > chunks_[chunk_].bytes()) ++chunk_, used_ = 0;
    if (chunk_ == chunks_.size()) chunks_.emplace_back(driver_, std::max(bytes, kChunk));
    used_ += bytes;
    return chunks_[chunk_].data() + used_ - bytes;
  }
  void reset() { chunk_ = used_ = 0; }

  CudaDriver& driver() const { return driver_; }
  CudaStream stream() const { return stream_; }

 private:
  static constexpr std::size_t kChunk = std::size_t{1} << 25;
  CudaDriver& driver_;
  CudaStream stream_;
  std::vector<executor::program::DeviceBlock> chunks_;
  std::size_t chunk_ = 0, used_ = 0;
};

/// Device bytes between two guards. They begin as 0xFF, NaN in floating types, or as given; `shift`
/// bytes after a multiple of 256, as views may.
class DeviceBytes {
 public:
  DeviceBytes(DevicePool& pool, std::size_t bytes, const void* content = nullptr,
              std::size_t shift = 0)
      : pool_(&pool), shift_(shift), image_(2 * kGuard + shift + bytes, std::byte{kMark}) {
    std::byte* const inside = image_.data() + kGuard + shift;
    if (content == nullptr) {
      std::fill_n(inside, bytes, std::byte{0xFF});
    } else if (bytes > 0) {
      std::memcpy(inside, content, bytes);
    }
    block_ = pool.take(image_.size());
    pool.driver().upload(block_, image_.data(), image_.size(), pool.stream());
    pool.driver().synchronize(pool.stream());
  }

  void* data() const { return block_ + kGuard + shift_; }

  /// Brings what the device holds here, if it computes; false where a guard was written to.
  bool fetch() {
    if (!pool_->driver().computes()) return true;
    std::vector<std::byte> now(image_.size());
    pool_->driver().download(now.data(), block_, now.size(), pool_->stream());
    const auto before = static_cast<std::ptrdiff_t>(kGuard + shift_);
    const bool intact = std::equal(now.begin(), now.begin() + before, image_.begin()) &&
                        std::equal(now.end() - kGuard, now.end(), image_.end() - kGuard);
    image_ = std::move(now);
    return intact;
  }
  /// True where the device still holds what was last fetched, or given.
  bool unchanged() {
    const std::vector<std::byte> before = image_;
    fetch();
    return image_ == before;
  }
  /// True where the same bytes, as many, were last fetched of both.
  bool same(const DeviceBytes& other) const {
    return std::equal(image_.begin() + static_cast<std::ptrdiff_t>(kGuard + shift_),
                      image_.end() - kGuard,
                      other.image_.begin() + static_cast<std::ptrdiff_t>(kGuard + other.shift_),
                      other.image_.end() - kGuard);
  }

 private:
  static constexpr std::ptrdiff_t kGuard = 256;  // keeps the alignment
  static constexpr int kMark = 0x5A;

  DevicePool* pool_;
  std::size_t shift_;
  std::vector<std::byte> image_;  // with the guards
  std::byte* block_ = nullptr;
};

}  // namespace metronome
