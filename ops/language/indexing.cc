#include "ops/language/indexing.h"

#include <fmt/format.h>

#include <numeric>
#include <optional>
#include <utility>

#include "graph/emit/scope.h"
#include "graph/ir/error.h"
#include "ops/cumsum/cumsum.h"
#include "ops/embedding/embedding.h"
#include "ops/expr/functions.h"
#include "ops/gather/gather.h"
#include "ops/row_updates/row_updates.h"
#include "ops/rules/require.h"
#include "ops/sort/sort.h"

namespace metronome {
namespace {

/// Counted from the front; one out of range stays as it is, for a shape rule to name.
std::int64_t from_front(const Value& x, std::int64_t axis, Line line) {
  static_cast<void>(x.emitter(line));  // where it was destroyed, the line is told
  return axis < 0 && axis >= -x.rank() ? axis + x.rank() : axis;
}

/// Returns why the axis is none of x's, or nothing.
std::optional<Requirement> wrong_axis(const Value& x, std::int64_t axis) {
  try {
    normalized_axis(axis, x.rank());
    return std::nullopt;
  } catch (const Requirement& requirement) {
    return requirement;
  }
}

Sorted apply_sort(Sort op, const Value& x, Line line) {
  op.axis = from_front(x, op.axis, line);
  const Values results = apply_all(std::move(op), {x}, 2, line);
  return {results[0], results[1]};
}

/// Slices of x along an axis that is right, by an index [n] that is right.
Value select_slices(const Value& x, std::int64_t axis, const Value& index) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(x.rank()));
  std::iota(order.begin(), order.end(), 0);
  // The axis changes places with dimension 0, unless all dimensions before it are 1.
  const bool moves = numel(Shape(x.shape().begin(), x.shape().begin() + axis)) != 1;
  if (moves) std::swap(order[0], order[static_cast<std::size_t>(axis)]);
  const Value front = moves ? permute(x, order) : x;
  Shape slice = front.shape(), shape = slice;
  shape[static_cast<std::size_t>(moves ? 0 : axis)] = index.size(0);
  slice.erase(slice.begin() + (moves ? 0 : axis));
  const Value table = front.reshape({x.size(axis), numel(slice)});
  const Value result =
      apply(Embedding{"index_select"}, {table, index}, {}).reshape(std::move(shape));
  return moves ? permute(result, order) : result;
}

/// x, but row index[i] is row i of `source`, of equal ones the last.
Value copy_rows(const Value& x, const Value& index, const Value& source) {
  const std::int64_t count = index.size(0);
  const IndexCopy op{"index_copy"};
  if (count < 2) return apply(op, {x, index, source}, {});
  // The op takes the first of equal neighbours.
  const Sorted last_first = sort(flip(index, {0}));
  const Value from = static_cast<double>(count - 1) - last_first.indices;
  return apply(op, {x, last_first.values, select_slices(source, 0, from)}, {});
}

/// Returns why a mask does not broadcast to x, or nothing.
std::optional<Requirement> wrong_mask(const Shape& from, const Shape& to) {
  const std::size_t rank = from.size();
  bool fits = rank <= to.size();
  for (std::size_t d = 0; fits && d < rank; ++d) {
    fits = from[d] == 1 || from[d] == to[to.size() - rank + d];
  }
  if (fits) return std::nullopt;
  return Requirement{
      fmt::format("a mask that broadcasts to {}, but {}", to_string(to), to_string(from))};
}

}  // namespace

Value gather(Value x, std::int64_t axis, Value index, Line line) {
  return apply(Gather{from_front(x, axis, line)}, {x, index}, line);
}

Value scatter_add(Value x, std::int64_t axis, Value index, Value source, Line line) {
  return apply(ScatterAdd{from_front(x, axis, line)}, {x, index, source}, line);
}

Value index_select(Value x, std::int64_t axis, Value index, Line line) {
  if (!x.usable(line)) return x;
  if (!index.usable(line)) return index;
  const auto refuse = [&](const Requirement& requirement) {
    return mistake(x.emitter(), line, "index_select cannot choose slices", {{x, index}},
                   requirement);
  };
  if (const auto wrong = wrong_axis(x, axis)) return refuse(*wrong);
  if (index.rank() != 1 || (index.element() != i32 && index.element() != i64)) {
    return refuse({fmt::format("an index i64[n] or i32[n], but {}", to_string(index.type()))});
  }
  const LineScope scope(x.emitter(), line);
  const PathScope place(x.emitter(), "index_select", PathScope::Kind::layer);
  return select_slices(x, from_front(x, axis, line), index);
}

Value index_copy(Value x, std::int64_t axis, Value index, Value source, Line line) {
  if (!x.usable(line)) return x;
  if (!index.usable(line)) return index;
  if (!source.usable(line)) return source;
  const auto refuse = [&](const Requirement& requirement) {
    return mistake(x.emitter(), line, "index_copy cannot write slices", {{x, index, source}},
                   requirement);
  };
  if (const auto wrong = wrong_axis(x, axis)) return refuse(*wrong);
  if (index.rank() != 1 || (index.element() != i32 && index.element() != i64)) {
    return refuse({fmt::format("an index i64[n] or i32[n], but {}", to_string(index.type()))});
  }
  const std::int64_t along = from_front(x, axis, line), count = index.size(0);
  Type slices = x.type();
  slices.shape[static_cast<std::size_t>(along)] = count;
  if (source.type() != slices) {
    return refuse({fmt::format("slices {}, but {}", to_string(slices), to_string(source.type()))});
  }
  const LineScope scope(x.emitter(), line);
  const PathScope place(x.emitter(), "index_copy", PathScope::Kind::layer);
  std::vector<std::int64_t> order(static_cast<std::size_t>(x.rank()));
  std::iota(order.begin(), order.end(), 0);
  std::swap(order[0], order[static_cast<std::size_t>(along)]);
  const auto moved = [&](const Value& v) { return along == 0 ? v : permute(v, order); };
  return moved(copy_rows(moved(x), index, moved(source)));
}

Value masked_fill(Value x, Value mask, Operand value, Line line) {
  if (!x.usable(line)) return x;
  if (!mask.usable(line)) return mask;
  const auto refuse = [&](const Requirement& requirement) {
    return mistake(x.emitter(), line, "masked_fill cannot fill", {{x, mask}}, requirement);
  };
  if (mask.element() != bool_) {
    return refuse({fmt::format("a mask of bool, but {}", to_string(mask.type()))});
  }
  if (const auto wrong = wrong_mask(mask.shape(), x.shape())) return refuse(*wrong);
  if (value.value.present() && value.value.usable(line) && value.value.rank() != 0) {
    return refuse({fmt::format("a number or a scalar, but {}", to_string(value.value.type()))});
  }
  return where(mask, value, Operand(x, line), line);
}

Sorted sort(Value x, std::int64_t axis, bool descending, Line line) {
  return apply_sort({.axis = axis, .descending = descending}, x, line);
}

Sorted topk(Value x, std::int64_t k, std::int64_t axis, bool largest, Line line) {
  return apply_sort({.axis = axis, .descending = largest, .top = k}, x, line);
}

Value argsort(Value x, std::int64_t axis, bool descending, Line line) {
  return sort(x, axis, descending, line).indices;
}

Value argmin(Value x, std::int64_t axis, Line line) {
  if (!x.usable(line)) return x;
  LineScope scope(x.emitter(), line);
  // -1 - x is smallest where x is largest, for all integers; -x would overflow for the least.
  return argmax(is_floating(x.element()) ? -x : -1.0 - x, axis, line);
}

Value cumsum(Value x, std::int64_t axis, CumsumOptions options, Line line) {
  return apply(Cumsum{from_front(x, axis, line), options.exclusive, options.reverse}, {x}, line);
}

Value flip(Value x, const std::vector<std::int64_t>& axes, Line line) {
  if (!x.usable(line)) return x;
  LineScope scope(x.emitter(), line);
  for (const std::int64_t axis : axes) {
    if (const auto wrong = wrong_axis(x, axis)) {
      return mistake(x.emitter(), line, "flip cannot reverse an axis", {{x}}, *wrong);
    }
  }
  for (const std::int64_t axis : axes) {
    const std::int64_t along = from_front(x, axis, line), size = x.size(along);
    std::vector<double> last_first(static_cast<std::size_t>(size));
    std::iota(last_first.rbegin(), last_first.rend(), 0.0);
    x = select_slices(x, along, make_constant(x.emitter(), last_first, {i64, {size}}, line));
  }
  return x;
}

Value roll(Value x, std::int64_t shift, std::int64_t axis, Line line) {
  if (!x.usable(line)) return x;
  if (const auto wrong = wrong_axis(x, axis)) {
    return mistake(x.emitter(), line, "roll cannot move along an axis", {{x}}, *wrong);
  }
  const std::int64_t along = from_front(x, axis, line), size = x.size(along);
  const std::int64_t moved = size == 0 ? 0 : (shift % size + size) % size;
  if (moved == 0) return x;
  LineScope scope(x.emitter(), line);
  return concat({x.slice(along, size - moved, size), x.slice(along, 0, size - moved)}, along);
}

}  // namespace metronome
