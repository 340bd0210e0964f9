// Pools of ATen: largest elements, with their places where a call asks for them, and averages.
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "executor/import/aten/call.h"
#include "executor/import/aten/places.h"
#include "executor/import/aten/spatial.h"
#include "graph/ir/structural.h"
#include "ops/language/indexing.h"
#include "ops/layers/pooling.h"

namespace metronome::pt2 {
namespace {

Values max_pool(const Call& c) {
  const Value x = c.value("self");
  const std::int64_t d = x.rank() - 2;
  const SpatialNumbers kernel = spatial(c.integers("kernel_size"), d);
  const MaxPoolOptions how{.stride = spatial(c.integers("stride", {{}}), d),
                           .padding = spatial(c.integers("padding", {{0}}), d),
                           .dilation = spatial(c.integers("dilation", {{1}}), d),
                           .ceil_mode = c.flag("ceil_mode", false)};
  return by_dimensions(
      d, [&] { return max_pool1d(x, kernel, how, c.line()); },
      [&] { return max_pool2d(x, kernel, how, c.line()); },
      [&] { return max_pool3d(x, kernel, how, c.line()); });
}

Values avg_pool(const Call& c) {
  const Value x = c.value("self");
  const std::int64_t d = x.rank() - 2;
  const SpatialNumbers kernel = spatial(c.integers("kernel_size"), d);
  const AvgPoolOptions how{.stride = spatial(c.integers("stride", {{}}), d),
                           .padding = spatial(c.integers("padding", {{0}}), d),
                           .ceil_mode = c.flag("ceil_mode", false),
                           .count_include_pad = c.flag("count_include_pad", true),
                           .divisor_override = c.optional_integer("divisor_override")};
  return by_dimensions(
      d, [&] { return avg_pool1d(x, kernel, how, c.line()); },
      [&] { return avg_pool2d(x, kernel, how, c.line()); },
      [&] { return avg_pool3d(x, kernel, how, c.line()); });
}

Values adaptive_avg_pool(const Call& c) {
  const Value x = c.value("self");
  const std::int64_t d = x.rank() - 2;
  const SpatialNumbers out = spatial(c.integers("output_size"), d);
  return by_dimensions(
      d, [&] { return adaptive_avg_pool1d(x, out, c.line()); },
      [&] { return adaptive_avg_pool2d(x, out, c.line()); },
      [&] { return adaptive_avg_pool3d(x, out, c.line()); });
}

// ---- with places -------------------------------------------------------------------------------

/// The places of an axis in each window of it.
using WindowPlaces = std::vector<std::vector<std::int64_t>>;

/// For each window of all axes the places in it, counted row by row; all have as many, as the first
/// place stands for those that are missing.
std::vector<std::vector<std::int64_t>> joint_places(const std::vector<WindowPlaces>& axes,
                                                    const Shape& sizes) {
  std::vector<std::vector<std::int64_t>> all = {{0}};
  for (std::size_t d = 0; d < axes.size(); ++d) {
    std::vector<std::vector<std::int64_t>> next;
    for (const std::vector<std::int64_t>& window : all) {
      for (const std::vector<std::int64_t>& of_axis : axes[d]) {
        next.emplace_back();
        for (const std::int64_t outer : window) {
          for (const std::int64_t place : of_axis) next.back().push_back(outer * sizes[d] + place);
        }
      }
    }
    all = std::move(next);
  }
  if (all.empty()) throw Unsupported{"it has no window"};
  std::size_t most = 0;
  for (const auto& window : all) most = std::max(most, window.size());
  for (auto& window : all) {
    if (window.empty()) throw Unsupported{"it has a window without a place"};
    window.resize(most, window[0]);
  }
  return all;
}

/// The largest element of each window and its place in the image; the first of equal ones.
Values largest(const Call& c, const Value& x, const std::vector<WindowPlaces>& axes) {
  const Line line = c.line();
  const Shape sizes(x.shape().begin() + 2, x.shape().end());
  const auto windows = joint_places(axes, sizes);
  const auto count = static_cast<std::int64_t>(windows.size());
  const auto width = static_cast<std::int64_t>(windows[0].size());
  std::vector<std::int64_t> flat;
  for (const auto& window : windows) flat.insert(flat.end(), window.begin(), window.end());
  std::int64_t image = 1;
  for (const std::int64_t size : sizes) image *= size;
  const Shape each = {x.size(0), x.size(1), count, width};
  const Value in_windows =
      at_places(c, x.reshape({x.size(0), x.size(1), image}, line), 2, flat).reshape(each, line);
  const std::vector<double> numbers(flat.begin(), flat.end());
  const Value places =
      expand(make_constant(c.emitter(), numbers, {i64, {count, width}}, line), each, line);
  const Value best = argmax(in_windows, 3, line).reshape({each[0], each[1], count, 1}, line);
  Shape shape = {x.size(0), x.size(1)};
  for (const WindowPlaces& axis : axes) shape.push_back(static_cast<std::int64_t>(axis.size()));
  return {gather(in_windows, 3, best, line).reshape(shape, line),
          gather(places, 3, best, line).reshape(shape, line)};
}

/// Windows as `max_pool` has them.
Values max_pool_with_places(const Call& c) {
  const Value x = c.value("self");
  const std::int64_t d = x.rank() - 2;
  if (d < 1) throw Unsupported{"its operand has no batch"};
  const auto numbers = [&](const char* name, std::int64_t otherwise) {
    std::vector<std::int64_t> list = c.integers(name, {{otherwise}});
    if (list.empty()) list = c.integers("kernel_size");
    if (list.size() == 1) list.resize(static_cast<std::size_t>(d), list[0]);
    return list;
  };
  const auto kernel = numbers("kernel_size", 1), padding = numbers("padding", 0),
             dilation = numbers("dilation", 1);
  const auto stride = c.has("stride") ? numbers("stride", 1) : kernel;
  require_positive(stride, "stride");
  require_positive(dilation, "dilation");
  for (const auto* list : {&kernel, &stride, &padding, &dilation}) {
    if (list->size() != static_cast<std::size_t>(d)) {
      throw Unsupported{fmt::format("it has {} numbers for {} axes", list->size(), d)};
    }
    for (const std::int64_t number : *list) require_few(number);
  }
  std::vector<WindowPlaces> axes;
  for (std::size_t a = 0; a < static_cast<std::size_t>(d); ++a) {
    const std::int64_t size = x.size(static_cast<std::int64_t>(a) + 2);
    const std::int64_t room = size + 2 * padding[a] - dilation[a] * (kernel[a] - 1) - 1;
    std::int64_t count = room / stride[a] + 1;
    if (c.flag("ceil_mode", false) && room % stride[a] != 0 &&
        count * stride[a] < size + padding[a]) {
      ++count;
    }
    WindowPlaces windows(static_cast<std::size_t>(count));
    for (std::int64_t o = 0; o < count; ++o) {
      for (std::int64_t k = 0; k < kernel[a]; ++k) {
        const std::int64_t at = o * stride[a] - padding[a] + k * dilation[a];
        if (at >= 0 && at < size) windows[static_cast<std::size_t>(o)].push_back(at);
      }
    }
    axes.push_back(std::move(windows));
  }
  return largest(c, x, axes);
}

Values adaptive_max_pool(const Call& c) {
  const Value x = c.value("self");
  std::vector<std::int64_t> out = c.integers("output_size");
  const auto d = static_cast<std::size_t>(std::max<std::int64_t>(x.rank() - 2, 0));
  if (out.size() == 1) out.resize(d, out[0]);
  if (d == 0 || out.size() != d) throw Unsupported{"its sizes are not as many as its axes"};
  for (const std::int64_t size : out) require_few(size);
  std::vector<WindowPlaces> axes;
  for (std::size_t a = 0; a < out.size(); ++a) {
    const std::int64_t size = x.size(static_cast<std::int64_t>(a) + 2);
    WindowPlaces windows;
    for (std::int64_t o = 0; o < out[a]; ++o) {
      windows.emplace_back();
      const std::int64_t end = ((o + 1) * size + out[a] - 1) / out[a];
      for (std::int64_t at = o * size / out[a]; at < end; ++at) windows.back().push_back(at);
    }
    axes.push_back(std::move(windows));
  }
  return largest(c, x, axes);
}

/// Each element at the place of an image of zeros that its index names.
Values max_unpool(const Call& c) {
  const Line line = c.line();
  const Value x = c.value("self"), index = c.value("indices");
  const Shape& shape = c.output().shape;
  if (x.rank() != c.output().rank() || c.integers("output_size").size() > shape.size()) {
    throw Unsupported{"its sizes are not as many as its axes"};
  }
  std::int64_t outer = 1, image = 1, in_image = 1;
  const std::size_t spatial_from = shape.size() - c.integers("output_size").size();
  for (std::size_t d = 0; d < shape.size(); ++d) {
    (d < spatial_from ? outer : image) *= shape[d];
    if (d >= spatial_from) in_image *= x.size(static_cast<std::int64_t>(d));
  }
  const Value zeros = make_constant(c.emitter(), 0.0, {x.element(), {outer, image}}, line);
  const Value places = index.reshape({outer, in_image}, line);
  const Value elements = x.reshape({outer, in_image}, line);
  // Windows that overlap name a place often: one of them sets it, all receive its gradient.
  const Value set = scatter_set(c, zeros, 1, places, stop_gradient(elements, line));
  const Value all = scatter_add(zeros, 1, places, elements, line);
  const Value finite = abs(all, line) < Operand(std::numeric_limits<double>::infinity(), line);
  const Value slope = where(finite, {all - stop_gradient(all, line), line}, {0, line}, line);
  return {(set + slope).reshape(shape, line)};
}

}  // namespace

void add_pools(Table& t) {
  for (const std::int64_t d : {1, 2, 3}) {
    const auto add = [&](const char* name, const Translation& translation) {
      t[fmt::format(fmt::runtime(name), d)] = with_single_images("self", d, translation);
    };
    add("aten.max_pool{}d", max_pool);
    add("aten.avg_pool{}d", avg_pool);
    add("aten.adaptive_avg_pool{}d", adaptive_avg_pool);
    add("aten.max_pool{}d_with_indices", max_pool_with_places);
    add("aten.adaptive_max_pool{}d", adaptive_max_pool);
    t[fmt::format("aten.max_unpool{}d", d)] = max_unpool;
  }
}

}  // namespace metronome::pt2
