// Sizes that change: pads, and images that are resized. A blend that we have no op for is a product
// with a matrix of its weights, axis by axis.
#include "executor/import/aten/places.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <string>

#include "graph/ir/structural.h"
#include "ops/language/indexing.h"
#include "ops/language/layers.h"
#include "ops/layers/resize.h"
#include "ops/upsample/upsample.h"

namespace metronome::pt2 {

Value at_places(const Call& c, const Value& x, std::int64_t axis,
                const std::vector<std::int64_t>& places) {
  counted_axis(axis, x.rank());
  const std::vector<double> numbers(places.begin(), places.end());
  const auto count = static_cast<std::int64_t>(places.size());
  const Value index = make_constant(c.emitter(), numbers, {i64, {count}}, c.line());
  return index_select(x, axis, index, c.line());
}

Value in_windows(const Call& c, const Value& x, std::int64_t axis, const AxisWindows& windows) {
  counted_axis(axis, x.rank());
  require_few(windows.count);
  require_few(windows.size);
  require_few(windows.count * windows.size);
  std::vector<std::int64_t> places;
  for (std::int64_t i = 0; i < windows.count * windows.size; ++i)
    places.push_back(windows.place(i));
  Shape shape = x.shape();
  shape[static_cast<std::size_t>(axis)] = windows.count;
  shape.insert(shape.begin() + axis + 1, windows.size);
  return at_places(c, x, axis, places).reshape(shape, c.line());
}

Value by_matrix(const Call& c, const Value& x, std::int64_t axis, const AxisWeights& matrix) {
  counted_axis(axis, x.rank());
  const Value m = make_constant(c.emitter(), matrix.numbers,
                                {x.element(), {matrix.rows, matrix.columns}}, c.line());
  std::vector<std::int64_t> order(static_cast<std::size_t>(x.rank()));
  std::iota(order.begin(), order.end(), 0);
  std::swap(order[static_cast<std::size_t>(axis)], order.back());
  const bool last = axis == x.rank() - 1;
  const Value lines = last ? x : permute(x, order, c.line());
  const Value mixed = linear(lines, m, {}, c.line());
  return last ? mixed : permute(mixed, order, c.line());
}

namespace {

// ---- pads --------------------------------------------------------------------------------------

/// The place of an axis that a place of the padded one shows; `at` counts from the first.
std::int64_t shown(std::int64_t at, std::int64_t size, const std::string& mode) {
  if (mode == "replicate") return std::clamp<std::int64_t>(at, 0, size - 1);
  if (mode == "circular") return ((at % size) + size) % size;
  if (at < 0) at = -at;
  return at < size ? at : 2 * (size - 1) - at;
}

Values padded_by(const Call& c, std::vector<std::int64_t> widths, const std::string& mode) {
  Value x = c.value("self");
  if (mode == "constant") return {pad(x, widths, c.number("value", 0), c.line())};
  if (mode != "reflect" && mode != "replicate" && mode != "circular") {
    throw Unsupported{fmt::format("its mode is {}", mode)};
  }
  if (widths.size() % 2 != 0 || static_cast<std::int64_t>(widths.size()) > 2 * x.rank()) {
    throw Unsupported{fmt::format("it has {} widths for {} axes", widths.size(), x.rank())};
  }
  if (mode == "circular") {  // what is cut off leaves first, and does not come round
    const auto inward = [](std::int64_t width) { return std::min<std::int64_t>(width, 0); };
    std::vector<std::int64_t> cut(widths.size());
    std::ranges::transform(widths, cut.begin(), inward);
    x = pad(x, cut, 0, c.line());
    for (std::int64_t& width : widths) width = std::max<std::int64_t>(width, 0);
  }
  for (std::size_t i = 0; i + 1 < widths.size(); i += 2) {
    const std::int64_t axis = x.rank() - 1 - static_cast<std::int64_t>(i / 2);
    const std::int64_t size = x.size(axis);
    for (const std::int64_t width : {widths[i], widths[i + 1]}) {
      require_few(width < 0 ? -(width + 1) : width);
    }
    if (size < 1) throw Unsupported{"it pads an axis without elements"};
    std::vector<std::int64_t> places;
    for (std::int64_t at = -widths[i]; at < size + widths[i + 1]; ++at) {
      places.push_back(shown(at, size, mode));
    }
    if (widths[i] != 0 || widths[i + 1] != 0) x = at_places(c, x, axis, places);
  }
  return {x};
}

// ---- images ------------------------------------------------------------------------------------

/// How ATen resizes one axis of an image.
struct Axis {
  std::int64_t in = 1, out = 1;
  double scale = 0;  ///< that the call gives; 0 for none
  bool align_corners = false;

  double ratio() const {
    return scale > 0 ? 1 / scale : static_cast<double>(in) / static_cast<double>(out);
  }
  /// The spot of the operand, between places, that a place of the result lies at.
  double source(std::int64_t o) const {
    if (align_corners) {
      return out > 1 ? static_cast<double>(o * (in - 1)) / static_cast<double>(out - 1) : 0;
    }
    return (static_cast<double>(o) + 0.5) * ratio() - 0.5;
  }
};

AxisWeights linear_weights(const Axis& axis) {
  AxisWeights m(axis.out, axis.in);
  for (std::int64_t o = 0; o < axis.out; ++o) {
    const double at = std::max(0.0, axis.source(o));
    const auto below = std::min(static_cast<std::int64_t>(at), axis.in - 1);
    const double share = std::min(at - static_cast<double>(below), 1.0);
    m.at(o, below) += 1 - share;
    m.at(o, std::min(below + 1, axis.in - 1)) += share;
  }
  return m;
}

/// Keys' kernel with a = -0.75, over the four places around.
AxisWeights cubic_weights(const Axis& axis) {
  constexpr double a = -0.75;
  const auto near = [](double x) { return ((a + 2) * x - (a + 3)) * x * x + 1; };
  const auto far = [](double x) { return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a; };
  AxisWeights m(axis.out, axis.in);
  for (std::int64_t o = 0; o < axis.out; ++o) {
    const double at = axis.source(o), floor = std::floor(at), t = at - floor;
    const std::array weights = {far(t + 1), near(t), near(1 - t), far(2 - t)};
    for (std::int64_t k = 0; k < 4; ++k) {
      const std::int64_t place = static_cast<std::int64_t>(floor) - 1 + k;
      m.at(o, std::clamp<std::int64_t>(place, 0, axis.in - 1)) +=
          weights[static_cast<std::size_t>(k)];
    }
  }
  return m;
}

/// The axes that a call resizes, the first spatial one first.
std::vector<Axis> axes_of(const Call& c, const Value& x) {
  std::vector<double> scales = c.numbers("scale_factors");
  if (scales.empty() && x.rank() > 2) {
    for (const char* name : {"scales_d", "scales_h", "scales_w", "scales"}) {
      if (c.has(name)) scales.push_back(c.number(name));
    }
  }
  std::vector<Axis> axes;
  for (std::int64_t d = 2; d < x.rank(); ++d) {
    axes.push_back({.in = x.size(d),
                    .out = c.sizes(x.rank())[static_cast<std::size_t>(d)],
                    .align_corners = c.flag("align_corners", false)});
  }
  if (scales.size() == axes.size()) {
    for (std::size_t i = 0; i < axes.size(); ++i) axes[i].scale = scales[i];
  }
  return axes;
}

Value image_of(const Call& c) { return c.value(c.has("input") ? "input" : "self"); }

Values resized(const Call& c, AxisWeights (*weights)(const Axis&)) {
  Value x = image_of(c);
  const std::vector<Axis> axes = axes_of(c, x);
  for (std::size_t i = 0; i < axes.size(); ++i) {
    x = by_matrix(c, x, static_cast<std::int64_t>(i) + 2, weights(axes[i]));
  }
  return {x};
}

/// By our own op, which has nearest of one to three axes and bilinear.
Values upsampled(const Call& c, Interpolation mode) {
  const Value x = image_of(c);
  Resizing how{.mode = mode, .align_corners = c.flag("align_corners", false)};
  std::vector<double> scales;
  for (const Axis& axis : axes_of(c, x)) {
    how.out.push_back(axis.out);
    if (axis.scale > 0) scales.push_back(axis.scale);
  }
  if (scales.size() == how.out.size()) how.scales = scales;
  return {apply(Upsample{how}, {x}, c.line())};
}

Values nearest_exact(const Call& c) {
  Value x = image_of(c);
  const std::vector<Axis> axes = axes_of(c, x);
  for (std::size_t i = 0; i < axes.size(); ++i) {
    std::vector<std::int64_t> places;
    for (std::int64_t o = 0; o < axes[i].out; ++o) {
      const auto at = static_cast<std::int64_t>((static_cast<double>(o) + 0.5) * axes[i].ratio());
      places.push_back(std::min(at, axes[i].in - 1));
    }
    x = at_places(c, x, static_cast<std::int64_t>(i) + 2, places);
  }
  return {x};
}

}  // namespace

void add_resizing(Table& t) {
  t["aten.pad"] = [](const Call& c) {
    return padded_by(c, c.integers("pad"), c.text("mode", "constant"));
  };
  t["aten.constant_pad_nd"] = [](const Call& c) {
    return padded_by(c, c.integers("pad"), "constant");
  };
  for (const char* dimensions : {"1d", "2d", "3d"}) {
    t[fmt::format("aten.reflection_pad{}", dimensions)] = [](const Call& c) {
      return padded_by(c, c.integers("padding"), "reflect");
    };
    t[fmt::format("aten.replication_pad{}", dimensions)] = [](const Call& c) {
      return padded_by(c, c.integers("padding"), "replicate");
    };
    t[fmt::format("aten.upsample_nearest{}", dimensions)] = [](const Call& c) {
      return upsampled(c, Interpolation::nearest);
    };
    t[fmt::format("aten._upsample_nearest_exact{}", dimensions)] = nearest_exact;
  }
  t["aten.upsample_bilinear2d"] = [](const Call& c) {
    return upsampled(c, Interpolation::bilinear);
  };
  for (const char* name : {"upsample_linear1d", "upsample_trilinear3d"}) {
    t[std::string("aten.") + name] = [](const Call& c) { return resized(c, linear_weights); };
  }
  t["aten.upsample_bicubic2d"] = [](const Call& c) { return resized(c, cubic_weights); };
  t["aten.pixel_shuffle"] = [](const Call& c) {
    return Values{pixel_shuffle(c.value("self"), c.integer("upscale_factor"), c.line())};
  };
  t["aten.pixel_unshuffle"] = [](const Call& c) {
    return Values{pixel_unshuffle(c.value("self"), c.integer("downscale_factor"), c.line())};
  };
}

}  // namespace metronome::pt2
