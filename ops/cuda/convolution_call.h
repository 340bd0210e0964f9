// The three convolutions (ops/convolution/convolution.h says what they compute) by a device's
// library.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "graph/ir/type.h"
#include "ops/cuda/library.h"

namespace metronome {

/// One of x, weight and y is made of the other two. All are dense; there is no bias.
struct ConvolutionProblem {
  enum class ComputedTensor : std::uint8_t { y, x, weight };
  ComputedTensor makes = ComputedTensor::y;
  Element element = f32;              ///< f32 or f64, computed in the same precision (IEEE)
  Shape x;                            ///< [N, C, spatial...]
  Shape weight;                       ///< [K, C / groups, kernel...]
  Shape y;                            ///< [N, K, spatial...]
  Shape stride, low, high, dilation;  ///< of each spatial dimension; low and high 0 or more
  std::int64_t groups = 1;
  bool tf32 = false;  ///< products rounded to TF32: only by the user's explicit choice
  /// All three are stored [.., spatial..., channels]; else row-major.
  bool channels_last = false;
  /// Checks only: engines of any numerical notes but TF32's, and with up to a GiB of workspace.
  bool any_engine = false;

  bool operator==(const ConvolutionProblem&) const = default;
};

/// "f32 y [8, 4, 6, 6] of x [8, 3, 8, 8], weight [4, 3, 3, 3], low [1, 1], high [1, 1]": what a
/// window has otherwise than a plain one is told.
std::string to_string(const ConvolutionProblem& problem);

struct ConvolutionCommand {
  static constexpr std::string_view name = "convolution";
  static constexpr Maker maker = Maker::cudnn;

  ConvolutionProblem problem = {};
  const void* x = nullptr;  ///< what is made is written
  const void* weight = nullptr;
  const void* y = nullptr;
  void* workspace = nullptr;
  std::size_t workspace_bytes = 0;
  std::optional<Algorithm> algorithm = {};  ///< the chosen candidate's; absent: the library's first

  std::string text() const { return to_string(problem); }
  std::vector<LibraryOperand> operands() const;
  void check() const;  ///< refuses one without elements, and other elements than f32 and f64
};

}  // namespace metronome
