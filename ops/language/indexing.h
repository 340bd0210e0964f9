// Elements by index, in order, summed up and moved along an axis. Names are PyTorch's; a negative
// axis counts from the end.
//
// Of all functions that read or add by index: an index out of range reads zero, adds nothing,
// receives no gradient and is reported (`Executable::fault`; `eager` throws). Indices are i32 or
// i64.
#pragma once

#include <cstdint>
#include <vector>

#include "graph/ir/line.h"
#include "graph/ir/value.h"

namespace metronome {

// ---- by index ----------------------------------------------------------------------------------

/// Along an axis, the elements of x that `index` names: of three dimensions and axis 1, y[i, j, k]
/// = x[i, index[i, j, k], k]. The index has x's rank, and is no larger along other axes; the result
/// has its shape.
Value gather(Value x, std::int64_t axis, Value index, Line line = Line::here());
/// x, to which each element of `source` is added where `gather` would read: of three dimensions and
/// axis 1, y[i, index[i, j, k], k] += source[i, j, k]. Source and index have one shape. Each sum is
/// added in the order of the index, so that a step's bits never differ.
Value scatter_add(Value x, std::int64_t axis, Value index, Value source, Line line = Line::here());
/// Slices of x along an axis: y is as large as `index` [n] there, and its slice i is slice index[i]
/// of x.
Value index_select(Value x, std::int64_t axis, Value index, Line line = Line::here());
/// x, but slice index[i] along an axis is slice i of `source`; of equal indices the last counts.
/// The index is [n], and `source` has x's shape, but n along the axis. Fed to the state that x is,
/// along axis 0, it writes those rows alone: `g.feed(memory, mt::index_copy(memory, 0, rows,
/// values))`.
Value index_copy(Value x, std::int64_t axis, Value index, Value source, Line line = Line::here());
/// `value`, a number or a scalar, where the bool `mask` holds, else x. The mask is broadcast to x.
Value masked_fill(Value x, Value mask, Operand value, Line line = Line::here());

// ---- in order ----------------------------------------------------------------------------------

/// Elements along an axis in order, and the i64 index of each in the operand. Gradient flows
/// through the values.
struct Sorted {
  Value values, indices;
};

/// Equal elements stay in their order; a NaN is larger than any number.
Sorted sort(Value x, std::int64_t axis = -1, bool descending = false, Line line = Line::here());
/// The first k of `sort`: the largest, largest first, or else the smallest. With k = 1 it gives the
/// largest element and its index, along an axis that stays as 1.
Sorted topk(Value x, std::int64_t k, std::int64_t axis = -1, bool largest = true,
            Line line = Line::here());
/// The indices of `sort`.
Value argsort(Value x, std::int64_t axis = -1, bool descending = false, Line line = Line::here());
/// Index of the first of the smallest elements along an axis, which leaves the shape; i64. A NaN is
/// smaller than any number here, as in PyTorch.
Value argmin(Value x, std::int64_t axis = -1, Line line = Line::here());

// ---- along an axis -----------------------------------------------------------------------------

struct CumsumOptions {
  bool exclusive = false;  ///< without the element itself: the first sum is 0
  bool reverse = false;    ///< from the last element on
};

/// The sum of the elements up to each one along an axis. Numbers keep their element type; integers
/// wrap around.
Value cumsum(Value x, std::int64_t axis, CumsumOptions options = {}, Line line = Line::here());
/// x with the order along each of the axes reversed.
Value flip(Value x, const std::vector<std::int64_t>& axes, Line line = Line::here());
/// x moved `shift` elements on along an axis; what leaves at the end comes in at the front. A
/// negative shift moves it back.
Value roll(Value x, std::int64_t shift, std::int64_t axis, Line line = Line::here());

}  // namespace metronome
