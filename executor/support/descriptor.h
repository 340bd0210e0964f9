#pragma once

#include <unistd.h>

#include <utility>

namespace metronome::executor {

/// Owns a file descriptor; below zero means none.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }

  int get() const { return fd_; }
  bool present() const { return fd_ >= 0; }

 private:
  int fd_ = -1;
};

}  // namespace metronome::executor
