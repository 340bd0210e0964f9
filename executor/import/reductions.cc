// Reductions, orders and sums along an axis of ATen.
#include <string>
#include <utility>

#include "executor/import/call.h"
#include "ops/language/derived.h"
#include "ops/language/indexing.h"
#include "ops/language/layers.h"

namespace metronome::pt2 {
namespace {

/// `dim` of a call: absent or empty for all axes.
Axes axes_of(const Call& c, const char* name = "dim") {
  const auto list = c.optional_integers(name);
  return list && !list->empty() ? Axes(*list) : Axes();
}

template <class F>
void add_reduction(Table& table, const char* name, F reduction) {
  table[std::string("aten.") + name] = [reduction](const Call& c) {
    return Values{reduction(c.promoted("self"), axes_of(c), c.flag("keepdim", false), c.line())};
  };
}

/// The largest or smallest of each line along an axis, and where it lies. Its gradient goes to that
/// one alone.
template <class Arg>
Values with_index(const Call& c, Arg arg) {
  const Value x = c.value("self");
  const std::int64_t axis = c.integer("dim") < 0 ? c.integer("dim") + x.rank() : c.integer("dim");
  Shape kept = x.shape();
  kept[static_cast<std::size_t>(axis)] = 1;
  const Value index = arg(x, axis, c.line());
  const Value best = gather(x, axis, index.reshape(kept, c.line()), c.line());
  const Shape& shape = c.output().shape;
  return {best.reshape(shape, c.line()), index.reshape(shape, c.line()).cast(i64, c.line())};
}

template <class Reduce, class Arg, class Of>
Translation extreme(Reduce reduce, Arg arg, Of of_two) {
  return [=](const Call& c) {
    if (c.has("dim")) return with_index(c, arg);
    if (c.has("other")) {
      return Values{of_two(c.promoted_operand("self"), c.promoted_operand("other"))};
    }
    return Values{reduce(c.value("self"), Axes(), false, c.line())};
  };
}

template <class Arg>
Translation place_of_extreme(Arg arg) {
  return [=](const Call& c) {
    const Value x = c.value("self");
    const bool all = !c.has("dim");
    const Value line = all ? x.reshape({x.type().numel()}, c.line()) : x;
    const Value index = arg(line, all ? 0 : c.integer("dim"), c.line());
    return Values{index.reshape(c.output().shape, c.line()).cast(i64, c.line())};
  };
}

/// The product of all numbers along an axis, one by one, so that gradients at zero are right.
Values product_of(const Call& c) {
  constexpr std::int64_t kMost = 256;  // factors, each a node or two
  Value x = c.promoted("self");
  if (!c.has("dim")) x = x.reshape({x.type().numel()}, c.line());
  const std::int64_t dim = c.integer("dim", 0), axis = dim < 0 ? dim + x.rank() : dim;
  const std::int64_t count = x.size(axis);
  if (count < 1 || count > kMost) {
    throw Unsupported{"it multiplies none, or more than 256 numbers"};
  }
  Value made = x.slice(axis, 0, 1, c.line());
  for (std::int64_t i = 1; i < count; ++i) made = made * x.slice(axis, i, i + 1, c.line());
  return {made.reshape(c.output().shape, c.line())};
}

/// Each element's distance from the one before it along an axis, n times.
Values differences(const Call& c) {
  Value x = c.value("self");
  const std::int64_t axis = c.axis("dim", x, -1);
  Values all;
  for (const char* name : {"prepend", "self", "append"}) {
    if (c.has(name)) all.push_back(c.value(name));
  }
  if (all.size() > 1) x = concat(all, axis, c.line());
  for (std::int64_t i = 0; i < c.integer("n", 1); ++i) {
    const Value later = x.slice(axis, 1, x.size(axis), c.line());
    const Value earlier = x.slice(axis, 0, x.size(axis) - 1, c.line());
    x = x.element() == bool_ ? not_equal(later, earlier) : later - earlier;
  }
  return {x};
}

VarOptions spread_of(const Call& c) {
  const double correction =
      c.has("unbiased") ? (c.flag("unbiased") ? 1 : 0) : c.number("correction", 1);
  return {.correction = correction, .keep = c.flag("keepdim", false)};
}

Values norm_of(const Call& c) {
  const double p = c.number(c.has("ord") ? "ord" : "p", 2);
  return {norm(c.value("self"), p, axes_of(c), c.flag("keepdim", false), c.line())};
}

template <bool kAll>
Values any_or_all(const Call& c) {
  Value x = c.value("self");
  if (x.element() != bool_) x = not_equal({x, c.line()}, {0, c.line()});
  x = x.cast(f32, c.line());
  const Axes axes = axes_of(c);
  const bool keep = c.flag("keepdim", false);
  const Value found = kAll ? min(x, axes, keep, c.line()) : max(x, axes, keep, c.line());
  return {found > Operand(0.5, c.line())};
}

}  // namespace

void add_reductions(Table& t) {
  add_reduction(t, "sum", sum);
  add_reduction(t, "mean", mean);
  add_reduction(t, "amax", max);
  add_reduction(t, "amin", min);
  add_reduction(t, "logsumexp", logsumexp);
  t["aten.max"] = extreme(max, argmax, maximum);
  t["aten.min"] = extreme(min, argmin, minimum);
  t["aten.argmax"] = place_of_extreme(argmax);
  t["aten.argmin"] = place_of_extreme(argmin);
  t["aten.any"] = any_or_all<false>;
  t["aten.all"] = any_or_all<true>;
  t["aten.var"] = [](const Call& c) {
    return Values{var(c.value("self"), axes_of(c), spread_of(c), c.line())};
  };
  t["aten.std"] = [](const Call& c) {
    return Values{stddev(c.value("self"), axes_of(c), spread_of(c), c.line())};
  };
  t["aten.prod"] = product_of;
  t["aten.norm"] = norm_of;
  t["aten.linalg_vector_norm"] = norm_of;
  for (const char* name : {"softmax", "_softmax"}) {
    t[std::string("aten.") + name] = [](const Call& c) {
      return Values{softmax(c.promoted("self"), c.integer("dim"), c.line())};
    };
  }
  for (const char* name : {"log_softmax", "_log_softmax"}) {
    t[std::string("aten.") + name] = [](const Call& c) {
      return Values{log_softmax(c.promoted("self"), c.integer("dim"), c.line())};
    };
  }
  t["aten.cumsum"] = [](const Call& c) {
    return Values{cumsum(c.promoted("self"), c.integer("dim"), {}, c.line())};
  };
  t["aten.diff"] = differences;
  t["aten.topk"] = [](const Call& c) {
    const Sorted found = topk(c.value("self"), c.integer("k"), c.integer("dim", -1),
                              c.flag("largest", true), c.line());
    return Values{found.values, found.indices};
  };
  t["aten.sort"] = [](const Call& c) {
    const Sorted found =
        sort(c.value("self"), c.integer("dim", -1), c.flag("descending", false), c.line());
    return Values{found.values, found.indices};
  };
  t["aten.argsort"] = [](const Call& c) {
    return Values{
        argsort(c.value("self"), c.integer("dim", -1), c.flag("descending", false), c.line())};
  };
}

}  // namespace metronome::pt2
