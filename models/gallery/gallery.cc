#include "models/gallery/gallery.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/frac.h>
#include <ATen/ops/sin.h>

#include <array>

namespace metronome::gallery {

at::Tensor hash_numbers(std::int64_t rows, std::int64_t width, std::int64_t step, double salt) {
  const at::TensorOptions options(at::kDouble);
  const at::Tensor row = at::arange(rows, options).reshape({rows, 1}) + rows * step;
  const at::Tensor column = at::arange(width, options).reshape({1, width}) + salt * 1000;
  // The usual hash of shaders: the digits of a large multiple of a sine.
  return at::frac(at::sin(row * 12.9898 + column * 78.233) * 43758.5453);
}

at::Tensor cast(const at::Tensor& numbers, Element element) {
  return numbers.to(element == f64 ? at::kDouble : at::kFloat);
}

std::span<const Entry> all() {
  static constexpr std::array kAll = {
      Entry{"u_net", u_net},
      Entry{"mixture", mixture},
      Entry{"halting", [](Element element) { return halting(element); }},
      Entry{"recurrent", recurrent},
      Entry{"twin_towers", twin_towers},
      Entry{"adversaries", adversaries},
      Entry{"delayed_actor", delayed_actor},
      Entry{"soft_actor", soft_actor},
  };
  return kAll;
}

}  // namespace metronome::gallery
