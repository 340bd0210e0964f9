// Scatters of ATen: elements set, added or averaged where an index says.
#include "executor/import/aten/places.h"

#include <string>
#include <vector>

#include "ops/language/indexing.h"

namespace metronome::pt2 {
namespace {

/// The place in x, counted row by row, of each element that an index along an axis names. One
/// beyond the axis is the place -1, which is reported.
Value flat_places(const Call& c, const Shape& x, std::int64_t axis, const Value& index) {
  const Line line = c.line();
  const auto along = static_cast<std::size_t>(axis);
  const Shape& shape = index.shape();
  if (shape.size() != x.size()) throw Unsupported{"its index has another number of axes"};
  std::vector<std::int64_t> strides(x.size(), 1);
  for (std::size_t d = x.size(); d-- > 1;) strides[d - 1] = strides[d] * x[d];
  std::vector<double> base;
  Shape at(shape.size(), 0);
  for (std::int64_t i = 0; i < index.type().numel(); ++i) {
    std::int64_t place = 0;
    for (std::size_t d = 0; d < at.size(); ++d) place += d == along ? 0 : at[d] * strides[d];
    base.push_back(static_cast<double>(place));
    for (std::size_t d = at.size(); d-- > 0 && ++at[d] == shape[d];) at[d] = 0;
  }
  const Value inside =
      logical_and(index >= Operand(0, line), index < Operand(static_cast<double>(x[along]), line));
  const Value place = make_constant(c.emitter(), base, {i64, shape}, line) +
                      index * Operand(static_cast<double>(strides[along]), line);
  return where(inside, place, Operand(-1, line), line).reshape({index.type().numel()}, line);
}

/// The part of a source that an index of another shape names.
Value cut_to(Value source, const Shape& shape, Line line) {
  if (source.shape().size() != shape.size()) {
    throw Unsupported{"its source has another number of axes than its index"};
  }
  for (std::size_t d = 0; d < shape.size(); ++d) {
    const auto axis = static_cast<std::int64_t>(d);
    if (source.size(axis) > shape[d]) source = source.slice(axis, 0, shape[d], line);
  }
  return source;
}

/// The source of a scatter: a tensor, or a number as one, of the index' shape.
Value source_of(const Call& c, const Value& x, const Value& index) {
  if (c.has("src")) return cut_to(c.value("src"), index.shape(), c.line());
  return make_constant(c.emitter(), c.number("value"), {x.element(), index.shape()}, c.line());
}

Values scatter(const Call& c) {
  const Value x = c.value("self"), index = c.value("index");
  const std::int64_t axis = c.axis("dim", x);
  const std::string reduce = c.text("reduce", "");
  if (reduce == "add") return {scatter_add(x, axis, index, source_of(c, x, index), c.line())};
  if (!reduce.empty()) throw Unsupported{"it reduces by " + reduce};
  return {scatter_set(c, x, axis, index, source_of(c, x, index))};
}

Values scatter_added(const Call& c) {
  const Value x = c.value("self"), index = c.value("index");
  return {scatter_add(x, c.axis("dim", x), index, source_of(c, x, index), c.line())};
}

Values scatter_reduced(const Call& c) {
  const Line line = c.line();
  const std::string reduce = c.text("reduce", "");
  if (reduce != "sum" && reduce != "mean") throw Unsupported{"it reduces by " + reduce};
  Value x = c.value("self");
  const Value index = c.value("index");
  const std::int64_t axis = c.axis("dim", x);
  const auto numbers = [&](double number, const Shape& shape) {
    return make_constant(c.emitter(), number, {x.element(), shape}, line);
  };
  const bool with_self = c.flag("include_self", true);
  if (!with_self) x = scatter_set(c, x, axis, index, numbers(0, index.shape()));
  const Value total = scatter_add(x, axis, index, source_of(c, x, index), line);
  if (reduce == "sum") return {total};
  const Value counted = scatter_add(numbers(with_self ? 1 : 0, x.shape()), axis, index,
                                    numbers(1, index.shape()), line);
  return {total / maximum({counted, line}, {1, line})};
}

/// Elements of x, counted row by row.
Values taken(const Call& c) {
  const Line line = c.line();
  const Value x = c.value("self"), index = c.value("index");
  const std::int64_t size = x.type().numel();
  const Value all = index.reshape({index.type().numel()}, line);
  const Value from_zero = counted_from_zero(all, size, line);
  return {gather(x.reshape({size}, line), 0, from_zero, line).reshape(c.output().shape, line)};
}

Values put_at(const Call& c) {
  const Line line = c.line();
  const Value x = c.value("self"), index = c.value("index");
  const std::int64_t size = x.type().numel(), count = index.type().numel();
  const Value all = index.reshape({count}, line);
  const Value from_zero = counted_from_zero(all, size, line);
  const Value source = c.value("source").reshape({count}, line), flat = x.reshape({size}, line);
  const Value made = c.flag("accumulate", false) ? scatter_add(flat, 0, from_zero, source, line)
                                                 : index_copy(flat, 0, from_zero, source, line);
  return {made.reshape(x.shape(), line)};
}

/// Elements of a source in their order, where a mask holds.
Values masked_scattered(const Call& c) {
  const Line line = c.line();
  const Value x = c.value("self"), source = c.value("source");
  const Value mask = expand(c.value("mask"), x.shape(), line);
  const std::int64_t count = x.type().numel();
  const Value flat = mask.reshape({count}, line);
  const Value place = cumsum(flat.cast(i64, line), 0, {.exclusive = true}, line);
  const Value used = where(flat, place, Operand(0, line), line);
  const Value taken = gather(source.reshape({source.type().numel()}, line), 0, used, line);
  return {where(mask, taken.reshape(x.shape(), line), x, line)};
}

}  // namespace

Value scatter_set(const Call& c, const Value& x, std::int64_t axis, const Value& index,
                  const Value& source) {
  const Line line = c.line();
  const std::int64_t count = index.type().numel();
  if (count == 0) return x;
  const Value places = flat_places(c, x.shape(), axis, index);
  return index_copy(x.reshape({x.type().numel()}, line), 0, places, source.reshape({count}, line),
                    line)
      .reshape(x.shape(), line);
}

void add_scatters(Table& t) {
  t["aten.scatter"] = with_scalars(scatter);
  t["aten.scatter_add"] = with_scalars(scatter_added);
  t["aten.scatter_reduce"] = with_scalars(scatter_reduced);
  t["aten.take"] = with_scalars(taken);
  t["aten.put"] = with_scalars(put_at);
  t["aten.masked_scatter"] = masked_scattered;
}

}  // namespace metronome::pt2
