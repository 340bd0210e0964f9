// Pools and images of another size. If ONNX has no operator for one, or ONNX Runtime none in f64,
// it is a weighted sum of gathered elements, along one dimension after the other, by the tables
// that Metronome's kernels use (ops/bands/bands.h).
#include <algorithm>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "executor/onnx/mappings.h"
#include "ops/bands/bands.h"
#include "ops/pool/avg_pool.h"
#include "ops/pool/max_pool.h"
#include "ops/upsample/upsample.h"

namespace metronome::onnx {
namespace {

using Numbers = std::vector<std::int64_t>;

Numbers twice(const Spatial& numbers) {
  Numbers both = numbers;
  both.insert(both.end(), numbers.begin(), numbers.end());
  return both;
}

// ---- tables -------------------------------------------------------------------------------------

/// A map as a rectangle: the elements that each result sums, and how they weigh.
struct GatherTable {
  std::int64_t most = 0;   ///< elements of a result
  bool is_filled = false;  ///< some have fewer: they take an element behind the last, a zero
  Numbers index;           ///< [result, most]
  std::vector<double> weight;
  bool copies() const {
    return most == 1 && !is_filled && std::ranges::all_of(weight, [](double w) { return w == 1; });
  }
};

GatherTable table_of(const Bands& bands) {
  GatherTable table;
  table.most = bands.count.empty() ? 1 : std::ranges::max(bands.count);
  for (std::size_t o = 0; o < bands.begin.size(); ++o) {
    for (std::int32_t k = 0; k < table.most; ++k) {
      const bool inside = k < bands.count[o];
      table.is_filled |= !inside;
      table.index.push_back(inside ? bands.begin[o] + k : bands.in);
      const auto at = static_cast<std::size_t>(bands.at[o] + k * bands.step);
      table.weight.push_back(inside ? bands.weight[at] : 0);
    }
  }
  return table;
}

std::string apply_table(NodeWriter& writer, const std::string& x, std::int64_t axis,
                        const GatherTable& table) {
  const std::int64_t rank = writer.type(0).rank();
  const Element element = writer.type(0).element;
  const auto results = static_cast<std::int64_t>(table.index.size()) / table.most;
  const Attributes along{{"axis", axis}};
  if (table.copies()) return writer.call("Gather", {x, writer.integers(table.index)}, along);
  std::string source = x;
  if (table.is_filled) {
    Numbers pads(static_cast<std::size_t>(2 * rank), 0);
    pads[static_cast<std::size_t>(rank + axis)] = 1;
    source = writer.call("Pad", {x, writer.integers(std::move(pads)), writer.number(0, element)});
  }
  const std::string index = writer.call(
      "Reshape", {writer.integers(table.index), writer.integers({results, table.most})});
  Shape shape{results, table.most};
  shape.resize(static_cast<std::size_t>(rank - axis) + 1, 1);
  const std::string weight = writer.constant({element, shape}, bytes_of(table.weight, element));
  const std::string gathered = writer.call("Gather", {source, index}, along);
  return writer.reduce("ReduceSum", writer.call("Mul", {gathered, weight}), {axis + 1}, false);
}

/// The sizes of the spatial dimensions; refuses those that differ between the graphs.
Spatial spatial_sizes(const NodeWriter& writer, std::size_t dimensions) {
  const SizesByGraph sizes = writer.sizes(0);
  return writer.require_fixed(std::span(sizes).last(dimensions),
                              "its spatial sizes differ between the compiled sizes");
}

std::string apply_bands(NodeWriter& writer, const BandsOf3& bands, std::size_t dimensions) {
  std::string x = writer.in(0);
  for (std::size_t d = 0; d < dimensions; ++d) {
    const GatherTable table = table_of(bands[3 - dimensions + d]);
    const auto axis = writer.type(0).rank() - static_cast<std::int64_t>(dimensions - d);
    x = apply_table(writer, x, axis, table);
  }
  return x;
}

// ---- pools --------------------------------------------------------------------------------------

/// The largest of each window, by an operator that passes NaN over: windows that hold one are found
/// by a second pool.
Term propagate_nan(const Term& x, const Term& largest, const Term& nan_in_window) {
  return select(nan_in_window > 0, number_like(x, std::numeric_limits<double>::quiet_NaN()),
                largest);
}

/// The operand with the padding of `ceil_mode`, as far as the last windows reach: smaller than any
/// number.
Term pad_to_ends(const Term& x, const Windows& windows) {
  NodeWriter& writer = *x.writer;
  const std::size_t n = windows.kernel.size();
  const Spatial sizes = spatial_sizes(writer, n), counts = window_counts(windows, sizes);
  Numbers pads(2 * (n + 2), 0);
  for (std::size_t d = 0; d < n; ++d) {
    const std::int64_t low = windows.padding[d];
    const std::int64_t end = (counts[d] - 1) * windows.stride[d] + window_extent(windows, d);
    pads[2 + d] = low;
    pads[n + 4 + d] = std::max<std::int64_t>(end - sizes[d] - low, 0);
  }
  const Term nothing = number_like(x, -std::numeric_limits<double>::infinity());
  const std::string padded =
      writer.call("Pad", {x.name, writer.integers(std::move(pads)), nothing.name});
  return {&writer, padded, x.element};
}

Names write_max_pool(const MaxPool& op, NodeWriter& writer) {
  const Windows& windows = op.windows;
  const Term given = term_of(writer, 0);
  const Term x = windows.ceil_mode ? pad_to_ends(given, windows) : given;
  Attributes attributes{{"kernel_shape", windows.kernel},
                        {"strides", windows.stride},
                        {"dilations", windows.dilation}};
  if (!windows.ceil_mode) attributes.push_back({"pads", twice(windows.padding)});
  const auto pool = [&](const Term& of) {
    return Term{&writer, writer.call("MaxPool", {of.name}, attributes), of.element};
  };
  return {propagate_nan(x, pool(x), pool(cast(is_nan(x), f32))).name};
}

Names write_avg_pool(const AvgPool& op, NodeWriter& writer) {
  const Averaging& averaging = op.averaging;
  const Windows& windows = averaging.windows;
  const std::size_t n = windows.kernel.size();
  if (writer.type(0).element == f64 || averaging.divisor || windows.ceil_mode) {
    return {apply_bands(writer, averaging.bands(spatial_sizes(writer, n)), n)};
  }
  return {writer.call("AveragePool", {writer.in(0)},
                      {{"kernel_shape", windows.kernel},
                       {"strides", windows.stride},
                       {"pads", twice(windows.padding)},
                       {"count_include_pad", std::int64_t{averaging.count_include_pad}}})};
}

Names write_adaptive_pool(const AdaptiveAvgPool& op, NodeWriter& writer) {
  const std::size_t n = op.out.size();
  if (std::ranges::all_of(op.out, [](std::int64_t size) { return size == 1; })) {
    Numbers axes;
    for (std::size_t d = n; d > 0; --d) axes.push_back(-static_cast<std::int64_t>(d));
    return {writer.reduce("ReduceMean", writer.in(0), std::move(axes), true)};
  }
  return {apply_bands(writer, adaptive_bands(spatial_sizes(writer, n), op.out), n)};
}

// ---- images of another size ---------------------------------------------------------------------

/// How many times as large each spatial dimension becomes, in every graph; absent if one does not
/// become a multiple.
std::optional<std::vector<double>> growth(const NodeWriter& writer, std::size_t dimensions) {
  const SizesByGraph from = writer.sizes(0), to = writer.result_sizes();
  std::vector<double> factors{1, 1};
  for (std::size_t d = from.size() - dimensions; d < from.size(); ++d) {
    const std::int64_t factor = to[d][0] / std::max<std::int64_t>(from[d][0], 1);
    for (std::size_t k = 0; k < from[d].size(); ++k) {
      if (from[d][k] * factor != to[d][k]) return std::nullopt;
    }
    factors.push_back(static_cast<double>(factor));
  }
  return factors;
}

Names write_upsample(const Upsample& op, NodeWriter& writer) {
  const Resizing& resizing = op.resizing;
  const std::size_t n = resizing.out.size();
  const auto factors = growth(writer, n);
  const bool by_sizes =
      resizing.scales.empty() ||
      (factors && std::equal(resizing.scales.begin(), resizing.scales.end(), factors->begin() + 2));
  const bool nearest = resizing.mode == Interpolation::nearest;
  if (factors && by_sizes && writer.type(0).element == f32 && !resizing.align_corners) {
    const std::string scales = writer.constant({f32, {static_cast<std::int64_t>(factors->size())}},
                                               bytes_of(*factors, f32));
    return {writer.call(
        "Resize", {writer.in(0), "", scales},
        {{"mode", std::string(nearest ? "nearest" : "linear")},
         {"coordinate_transformation_mode", std::string(nearest ? "asymmetric" : "half_pixel")},
         {"nearest_mode", std::string("floor")}})};
  }
  for (const Upsample* each : writer.ops<Upsample>()) {
    if (each->resizing != resizing) writer.require_same_attributes();
  }
  const BandsOf3 bands = resizing.bands(spatial_sizes(writer, n), writer.type(0).element);
  return {apply_bands(writer, bands, n)};
}

}  // namespace

std::span<const Mapping> pool_mappings() {
  static const Mapping kMappings[] = {
      mapping<MaxPool, write_max_pool>(),
      mapping<AvgPool, write_avg_pool>(),
      mapping<AdaptiveAvgPool, write_adaptive_pool>(),
      mapping<Upsample, write_upsample>(Attribution::by_sizes),
  };
  return kMappings;
}

}  // namespace metronome::onnx
