#include "ops/pool/windows.h"

#include <fmt/format.h>

#include <algorithm>

#include "graph/ir/error.h"
#include "ops/rules/require.h"

namespace metronome {
namespace {

constexpr std::int64_t kMost = std::int64_t{1} << 30;

bool all_equal(const Spatial& numbers, std::int64_t to) {
  return std::ranges::all_of(numbers, [to](std::int64_t n) { return n == to; });
}

void require_numbers(std::string_view what, const Spatial& numbers, std::size_t count,
                     std::int64_t least) {
  if (numbers.size() != count) {
    throw Requirement{fmt::format("{} numbers of {}, but {}", count, what, to_string(numbers))};
  }
  for (const std::int64_t n : numbers) {
    if (n < least || n > kMost) {
      throw Requirement{
          fmt::format("a {} from {} to 2^30, but {}", what, least, to_string(numbers))};
    }
  }
}

}  // namespace

std::string Windows::text() const {
  std::string text = "kernel=" + to_string(kernel) + ", stride=" + to_string(stride);
  if (!all_equal(padding, 0)) text += ", padding=" + to_string(padding);
  if (!all_equal(dilation, 1)) text += ", dilation=" + to_string(dilation);
  return ceil_mode ? text + ", ceil_mode" : text;
}

void require_images(const Type& x, std::size_t dimensions) {
  require_floating(x);
  if (dimensions < 1 || dimensions > 3) {
    throw Requirement{fmt::format("one to three spatial dimensions, but {}", dimensions)};
  }
  constexpr std::string_view kSpatial[] = {"L", "H, W", "D, H, W"};
  const std::string_view names = kSpatial[dimensions - 1];
  if (x.rank() != static_cast<std::int64_t>(dimensions) + 2) {
    throw Requirement{fmt::format("an operand [N, C, {}], but {}", names, to_string(x.shape))};
  }
  for (std::size_t d = 1; d < x.shape.size(); ++d) {
    if (x.shape[d] < 1 || x.shape[d] > kMost) {
      throw Requirement{fmt::format("C, {} from 1 to 2^30, but {}", names, to_string(x.shape))};
    }
  }
}

Type with_spatial(const Type& x, const Spatial& sizes) {
  Shape shape{x.shape[0], x.shape[1]};
  shape.insert(shape.end(), sizes.begin(), sizes.end());
  return {x.element, std::move(shape)};
}

Spatial count_of(const Windows& w, const Spatial& sizes) {
  const std::size_t n = sizes.size();
  require_numbers("kernel", w.kernel, n, 1);
  require_numbers("stride", w.stride, n, 1);
  require_numbers("padding", w.padding, n, 0);
  require_numbers("dilation", w.dilation, n, 1);
  const Spatial counts = window_counts(w, sizes);
  for (std::size_t d = 0; d < n; ++d) {
    if (w.padding[d] > w.kernel[d] / 2) {
      throw Requirement{
          fmt::format("a padding of at most half the kernel, but padding {} and kernel {}",
                      to_string(w.padding), to_string(w.kernel))};
    }
    if (counts[d] < 1) {
      throw Requirement{fmt::format(
          "windows that fit into {} with padding {}, but a window takes {} of dimension {}",
          to_string(sizes), to_string(w.padding), window_extent(w, d), d + 2)};
    }
  }
  return counts;
}

}  // namespace metronome
