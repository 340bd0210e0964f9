#include "ops/layers/resize.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <numeric>
#include <span>
#include <string_view>

#include "graph/emit/scope.h"
#include "graph/ir/error.h"
#include "ops/expr/functions.h"
#include "ops/pad/pad.h"
#include "ops/reshape/reshape.h"
#include "ops/rules/require.h"
#include "ops/upsample/upsample.h"

namespace metronome {
namespace {

/// `build()`; where it throws a Requirement, that is a mistake. Verbs on a value that is absent or
/// poisoned say so themselves.
template <class Build>
Value build_or_refuse(std::string_view name, const Value& x, Line line, const Build& build) {
  if (!x.usable(line)) return x.reshape({}, line);
  const LineScope scope(x.emitter(line), line);
  try {
    return build();
  } catch (const Requirement& wrong) {
    return mistake(x.emitter(line), line, fmt::format("{} cannot be applied", name),
                   std::span(&x, 1), wrong);
  }
}

/// One for each of n dimensions.
template <class Number>
std::vector<Number> for_each(std::string_view what, const std::vector<Number>& numbers,
                             std::size_t n) {
  if (numbers.size() == 1) return std::vector<Number>(n, numbers[0]);
  if (numbers.size() == n) return numbers;
  throw Requirement{fmt::format("one {} or {}, but [{}]", what, n, fmt::join(numbers, ", "))};
}

/// Sizes times factors, rounded down.
Spatial scale_sizes(const Spatial& sizes, const std::vector<double>& factors) {
  Spatial result;
  for (std::size_t d = 0; d < sizes.size(); ++d) {
    require(unless_above_0("scale_factor", factors[d]));
    const double size = std::floor(static_cast<double>(sizes[d]) * factors[d]);
    if (!(size >= 1 && size <= 0x1p29)) {
      throw Requirement{
          fmt::format("an output size from 1 to 2^29, but {} times {}", sizes[d], factors[d])};
    }
    result.push_back(static_cast<std::int64_t>(size));
  }
  return result;
}

Resizing resizing_of(const InterpolateOptions& options, const Shape& shape) {
  if (shape.size() < 3) {
    throw Requirement{fmt::format("an operand [N, C, spatial...], but {}", to_string(shape))};
  }
  const std::size_t n = shape.size() - 2;
  if (options.size.list.empty() == options.scale_factor.list.empty()) {
    throw Requirement{fmt::format("either a size or a scale_factor, but {}",
                                  options.size.list.empty() ? "none" : "both")};
  }
  Resizing result{options.mode, options.align_corners};
  if (options.scale_factor.list.empty()) {
    result.out = for_each("size", options.size.list, n);
  } else {
    result.scales = for_each("scale_factor", options.scale_factor.list, n);
    result.out = scale_sizes({shape.begin() + 2, shape.end()}, result.scales);
  }
  return result;
}

struct Image {
  Shape leading;
  std::int64_t channels, height, width;
};

Image image_of(const Value& x, std::int64_t factor) {
  if (factor < 1 || factor > 1 << 15) {
    throw Requirement{fmt::format("a factor from 1 to 2^15, but {}", factor)};
  }
  if (x.rank() < 3) {
    throw Requirement{fmt::format("an operand [..., C, H, W], but {}", to_string(x.shape()))};
  }
  const Shape& shape = x.shape();
  return {{shape.begin(), shape.end() - 3}, x.size(-3), x.size(-2), x.size(-1)};
}

/// Reshapes to the leading dimensions and `from`, orders the others by `axes`, counted from their
/// first, and reshapes to `to`.
Value rearrange(const Value& x, const Shape& leading, const Shape& from,
                const std::vector<std::int64_t>& axes, const Shape& to) {
  const auto with_leading = [&](const Shape& shape) {
    Shape result = leading;
    result.insert(result.end(), shape.begin(), shape.end());
    return result;
  };
  const auto n = static_cast<std::int64_t>(leading.size());
  std::vector<std::int64_t> order(leading.size());
  std::iota(order.begin(), order.end(), 0);
  for (const std::int64_t axis : axes) order.push_back(n + axis);
  return permute(x.reshape(with_leading(from)), order).reshape(with_leading(to));
}

}  // namespace

Value flatten(Value x, std::int64_t start, std::int64_t end, Line line) {
  return build_or_refuse("flatten", x, line, [&] {
    const std::int64_t rank = x.rank();
    if (rank == 0) return x.reshape({1});
    const std::int64_t first = normalized_axis(start, rank);
    const std::int64_t last = normalized_axis(end, rank);
    if (first > last) {
      throw Requirement{fmt::format("a start that is not behind the end, but {} and {} of {}",
                                    start, end, to_string(x.shape()))};
    }
    const Shape& shape = x.shape();
    Shape result(shape.begin(), shape.begin() + first);
    result.push_back(numel(Shape(shape.begin() + first, shape.begin() + last + 1)));
    result.insert(result.end(), shape.begin() + last + 1, shape.end());
    return x.reshape(std::move(result));
  });
}

Value pad(Value x, std::vector<std::int64_t> widths, double value, Line line) {
  return build_or_refuse("pad", x, line, [&] {
    const auto rank = static_cast<std::size_t>(x.rank());
    if (widths.size() % 2 != 0 || widths.size() / 2 > rank) {
      throw Requirement{
          fmt::format("two widths for each of {} dimensions at most, but {}", rank, widths.size())};
    }
    Pad op{std::vector<std::int64_t>(rank, 0), std::vector<std::int64_t>(rank, 0), value};
    for (std::size_t k = 0; k < widths.size(); k += 2) {
      op.low[rank - 1 - k / 2] = widths[k];
      op.high[rank - 1 - k / 2] = widths[k + 1];
    }
    return apply(std::move(op), {x}, line);
  });
}

Value interpolate(Value x, InterpolateOptions options, Line line) {
  return build_or_refuse("interpolate", x, line, [&] {
    return apply(Upsample{resizing_of(options, x.shape())}, {x}, line);
  });
}

Value pixel_shuffle(Value x, std::int64_t r, Line line) {
  return build_or_refuse("pixel_shuffle", x, line, [&] {
    const auto [leading, c, h, w] = image_of(x, r);
    if (c % (r * r) != 0) {
      throw Requirement{fmt::format("channels that {} divides, but {}", r * r, c)};
    }
    const std::int64_t out = c / (r * r);
    return rearrange(x, leading, {out, r, r, h, w}, {0, 3, 1, 4, 2}, {out, h * r, w * r});
  });
}

Value pixel_unshuffle(Value x, std::int64_t r, Line line) {
  return build_or_refuse("pixel_unshuffle", x, line, [&] {
    const auto [leading, c, h, w] = image_of(x, r);
    if (h % r != 0 || w % r != 0) {
      throw Requirement{
          fmt::format("a height and a width that {} divides, but {} and {}", r, h, w)};
    }
    return rearrange(x, leading, {c, h / r, r, w / r, r}, {0, 2, 4, 1, 3},
                     {c * r * r, h / r, w / r});
  });
}

Layer flatten(std::int64_t start, std::int64_t end) {
  return [=](Value x, Line line) { return flatten(x, start, end, line); };
}
Layer pad(std::vector<std::int64_t> widths, double value) {
  return [=](Value x, Line line) { return pad(x, widths, value, line); };
}
Layer upsample(InterpolateOptions options) {
  return [=](Value x, Line line) { return interpolate(x, options, line); };
}
Layer pixel_shuffle(std::int64_t upscale_factor) {
  return [=](Value x, Line line) { return pixel_shuffle(x, upscale_factor, line); };
}
Layer pixel_unshuffle(std::int64_t downscale_factor) {
  return [=](Value x, Line line) { return pixel_unshuffle(x, downscale_factor, line); };
}

}  // namespace metronome
