// Memory for what a kernel makes of a steady operand, kept between steps.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>

#include "ops/rules/mistake.h"

namespace metronome::METRONOME_ISA {

/// Memory of a kernel's own, aligned as the arena's values are, for a steady operand in a layout
/// that the kernel likes. It is made again when the operand has changed.
class Packed {
 public:
  Packed() = default;
  /// `version` changes when the operand does.
  Packed(std::size_t bytes, const std::uint64_t* version)
      : data_(allocate(bytes)), version_(version) {
    if (version == nullptr) own_mistake("a steady operand without a version");
    if (data_ == nullptr) no_memory();
  }

  template <class T>
  T* data() const {
    return static_cast<T*>(data_.get());
  }

  /// Calls `pack`, which fills the memory, unless that has been done for this version.
  template <class Pack>
  void update(const Pack& pack) {
    if (is_packed_ && packed_version_ == *version_) return;
    pack();
    packed_version_ = *version_;
    is_packed_ = true;
  }

 private:
  static constexpr std::size_t kAligned = 64, kHugePage = 2 << 20;

  /// Large ones in huge pages, where the system has some: they are read from front to back.
  static void* allocate(std::size_t bytes) {
    const std::size_t unit = bytes >= kHugePage ? kHugePage : kAligned;
    const std::size_t size = (bytes + unit - 1) / unit * unit;
    void* memory = std::aligned_alloc(unit, size);
    if (unit == kHugePage && memory != nullptr) madvise(memory, size, MADV_HUGEPAGE);
    return memory;
  }
  struct Free {
    void operator()(void* memory) const { std::free(memory); }
  };

  std::unique_ptr<void, Free> data_;
  const std::uint64_t* version_ = nullptr;
  std::uint64_t packed_version_ = 0;
  bool is_packed_ = false;
};

}  // namespace metronome::METRONOME_ISA
