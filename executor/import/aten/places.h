// Places of an axis: read, replaced, seen as windows, or mixed by a matrix. Internal to
// executor/import/aten.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "executor/import/aten/call.h"

namespace metronome::pt2 {

/// Windows along an axis: window i has the places i step, i step + dilation, ...
struct AxisWindows {
  std::int64_t count = 1, size = 1, step = 1, dilation = 1;

  /// Place i of the windows, one window after the other.
  std::int64_t place(std::int64_t i) const { return i / size * step + i % size * dilation; }
};

// A value that a mistake has poisoned has no axes: each of these throws Unsupported then.

/// x [..., axis, ...] as [..., count, size, ...].
Value in_windows(const Call& c, const Value& x, std::int64_t axis, const AxisWindows& windows);

/// x at the places of an axis, in their order; a place may come often.
Value at_places(const Call& c, const Value& x, std::int64_t axis,
                const std::vector<std::int64_t>& places);

/// For each place of a resized axis (a row) the share that each place of the axis has in it.
struct AxisWeights {
  /// Throws Unsupported for more numbers than a file may ask for.
  AxisWeights(std::int64_t rows, std::int64_t columns) : rows(rows), columns(columns) {
    require_few(rows);
    require_few(columns);
    require_few(rows * columns);
    numbers.resize(static_cast<std::size_t>(rows * columns), 0);
  }
  double& at(std::int64_t row, std::int64_t column) {
    return numbers[static_cast<std::size_t>(row * columns + column)];
  }

  std::int64_t rows, columns;
  std::vector<double> numbers;
};

/// Each line of x along an axis, of as many elements as the matrix has columns, times it.
Value by_matrix(const Call& c, const Value& x, std::int64_t axis, const AxisWeights& matrix);

/// x with `part` in place of the places of an axis.
Value with_part(const Call& c, const Value& x, std::int64_t axis,
                const std::vector<std::int64_t>& places, const Value& part);
/// The places of its axis that a call's select, slice or narrow, or output k of a split, shows.
std::vector<std::int64_t> places_of_view(const Call& c, const Value& x, std::size_t output = 0);

/// Indices as ATen counts them, of so many places: none is negative that is in range.
Value counted_from_zero(Value index, std::int64_t places, Line line);

/// x, but element `index` along an axis is that of `source`: of three dimensions and axis 1,
/// y[i, index[i, j, k], k] = source[i, j, k]; of equal places the last counts. Source and index
/// have one shape, which is no larger than x's along other axes.
Value scatter_set(const Call& c, const Value& x, std::int64_t axis, const Value& index,
                  const Value& source);

}  // namespace metronome::pt2
