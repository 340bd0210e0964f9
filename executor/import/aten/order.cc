// Order among elements, in ATen's words: sorts, middles, places in a sorted line.
#include <algorithm>
#include <string>

#include "executor/import/aten/call.h"
#include "executor/import/aten/places.h"
#include "ops/language/indexing.h"

namespace metronome::pt2 {
namespace {

Values both_of(const Sorted& found) { return {found.values, found.indices}; }

/// Element `k` of each line in order, and its place: a median, a k-th value.
Values kth(const Call& c, const Value& x, std::int64_t axis, std::int64_t k) {
  const Line line = c.line();
  const Sorted sorted = sort(x, axis, false, line);
  Values both;
  for (const Value& of : {sorted.values, sorted.indices}) {
    both.push_back(of.slice(axis, k, k + 1, line).reshape(c.output().shape, line));
  }
  return both;
}

Values median_of(const Call& c) {
  const Value x = c.value("self");
  const Line line = c.line();
  const Value flat = c.has("dim") ? x : x.reshape({x.type().numel()}, line);
  const std::int64_t axis = c.has("dim") ? c.axis("dim", x) : 0;
  Values both = kth(c, flat, axis, (flat.size(axis) - 1) / 2);
  if (!is_floating(x.element())) return both;
  // A line with a NaN has it, the largest of all, for its median: its first one.
  const Value is_nan = not_equal({flat, line}, {flat, line}).cast(f32, line);
  const Shape& shape = both[0].shape();
  const Value any = max(is_nan, axis, false, line).reshape(shape, line) > Operand(0.5, line);
  const Value largest = max(flat, axis, false, line).reshape(shape, line);
  both[0] = where(any, largest, both[0], line);
  if (c.has("dim")) {
    both[1] = where(any, argmax(is_nan, axis, line).reshape(shape, line), both[1], line);
  }
  return both;
}

/// How many of a sorted line lie below each value; with `right` also those that equal it.
Values searched(const Call& c, const Value& sorted, const Value& values) {
  const Line line = c.line();
  const bool right = c.flag("right", false) || c.text("side", "left") == "right";
  const std::int64_t count = sorted.size(-1);
  Shape lines = values.shape(), sorted_lines;
  lines.push_back(1);
  if (sorted.rank() == 1) {
    sorted_lines.assign(values.shape().size(), 1);
  } else {
    sorted_lines.assign(sorted.shape().begin(), sorted.shape().end() - 1);
    sorted_lines.push_back(1);
  }
  sorted_lines.push_back(count);
  const Value a = sorted.reshape(sorted_lines, line), b = values.reshape(lines, line);
  const Value below = right ? a <= b : a < b;
  return {sum(below.cast(i64, line), -1, false, line)
              .cast(c.output().element, line)
              .reshape(c.output().shape, line)};
}

/// The largest up to each element along an axis, and its place; of equal ones the last.
template <bool kLargest>
Values running(const Call& c) {
  constexpr std::int64_t kMost = 256;  // elements, each some nodes
  const Line line = c.line();
  const Value x = c.value("self");
  const std::int64_t axis = c.axis("dim", x), size = x.size(axis);
  if (size > kMost) throw Unsupported{"it runs over more than 256 elements"};
  const auto at = [&](std::int64_t i) { return x.slice(axis, i, i + 1, line); };
  const auto place = [&](std::int64_t i, const Shape& shape) {
    return make_constant(c.emitter(), static_cast<double>(i), {i64, shape}, line);
  };
  if (size == 0) return {x, x.cast(i64, line)};
  Values best = {at(0)}, places = {place(0, best[0].shape())};
  for (std::int64_t i = 1; i < size; ++i) {
    const Value now = at(i), before = best.back();
    const Value better = kLargest ? now >= before : now <= before;
    best.push_back(where(better, now, before, line));
    places.push_back(where(better, place(i, now.shape()), places.back(), line));
  }
  return {concat(best, axis, line), concat(places, axis, line)};
}

}  // namespace

void add_order(Table& t) {
  t["aten.topk"] = with_scalars([](const Call& c) {
    return both_of(topk(c.value("self"), c.integer("k"), c.integer("dim", -1),
                        c.flag("largest", true), c.line()));
  });
  t["aten.sort"] = with_scalars([](const Call& c) {
    return both_of(
        sort(c.value("self"), c.integer("dim", -1), c.flag("descending", false), c.line()));
  });
  t["aten.msort"] = with_scalars(
      [](const Call& c) { return Values{sort(c.value("self"), 0, false, c.line()).values}; });
  t["aten.argsort"] = with_scalars([](const Call& c) {
    return Values{
        argsort(c.value("self"), c.integer("dim", -1), c.flag("descending", false), c.line())};
  });
  t["aten.kthvalue"] = with_scalars([](const Call& c) {
    const Value x = c.value("self");
    return kth(c, x, c.axis("dim", x, -1), c.integer("k") - 1);
  });
  t["aten.median"] = with_scalars(median_of);
  t["aten.cummax"] = with_scalars(running<true>);
  t["aten.cummin"] = with_scalars(running<false>);
  t["aten.searchsorted"] = [](const Call& c) {
    if (c.has("sorter")) throw Unsupported{"it has a sorter"};
    return searched(c, c.value("sorted_sequence"), c.value("self"));
  };
  t["aten.bucketize"] = [](const Call& c) {
    return searched(c, c.value("boundaries"), c.value("self"));
  };
  t["aten.isin"] = [](const Call& c) {
    const Line line = c.line();
    const Value x = c.value("elements"), among = c.value("test_elements");
    Shape shape = x.shape();
    shape.push_back(1);
    const Value same =
        equal({x.reshape(shape, line), line}, {among.reshape({among.type().numel()}, line), line});
    const Value found = max(same.cast(f32, line), -1, false, line) > Operand(0.5, line);
    return Values{c.flag("invert", false) ? logical_not(found, line) : found};
  };
}

}  // namespace metronome::pt2
