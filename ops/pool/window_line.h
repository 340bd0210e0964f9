// Windows as kernels of a CPU walk over them.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "ops/pool/windows.h"

namespace metronome::METRONOME_ISA {

/// Windows along one dimension; one that is not there is one element and one window.
struct WindowLine {
  std::int64_t in = 1, out = 1;
  std::int64_t kernel = 1, stride = 1, padding = 0, dilation = 1;

  /// The place of element `tap` of window `o`; outside [0, in) in the padding.
  std::int64_t place(std::int64_t o, std::int64_t tap) const {
    return o * stride - padding + tap * dilation;
  }
  /// The window of which element `tap` lies at i; -1 if there is none.
  std::int64_t window(std::int64_t i, std::int64_t tap) const {
    const std::int64_t from = i + padding - tap * dilation;
    if (from < 0 || from % stride != 0 || from / stride >= out) return -1;
    return from / stride;
  }
  /// The windows [first, last) of which element `tap` lies inside.
  std::int64_t first(std::int64_t tap) const {
    const std::int64_t missing = padding - tap * dilation;
    return missing <= 0 ? 0 : std::min((missing + stride - 1) / stride, out);
  }
  std::int64_t last(std::int64_t tap) const {
    const std::int64_t room = in + padding - tap * dilation;
    return room <= 0 ? 0 : std::min((room + stride - 1) / stride, out);
  }
};

using Along3 = std::array<WindowLine, 3>;

}  // namespace metronome::METRONOME_ISA
