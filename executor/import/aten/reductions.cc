// Reductions, orders and sums along an axis of ATen.
#include <cmath>
#include <string>
#include <utility>

#include "executor/import/aten/call.h"
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
  table[std::string("aten.") + name] = with_scalars([reduction](const Call& c) {
    return Values{reduction(c.promoted("self"), axes_of(c), c.flag("keepdim", false), c.line())};
  });
}

/// The largest or smallest of each line along an axis, and where it lies. Its gradient goes to that
/// one alone.
template <class Arg>
Values with_index(const Call& c, Arg arg) {
  const Value x = c.value("self");
  const std::int64_t axis = c.axis("dim", x);
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
  const std::int64_t axis = counted_axis(c.integer("dim", 0), x.rank());
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

/// The elements up to each one along an axis, joined by a function of two.
template <class F>
Values running(const Call& c, const F& joined) {
  constexpr std::int64_t kMost = 256;  // elements, each some nodes
  const Value x = c.promoted("self");
  const std::int64_t axis = c.axis("dim", x), size = x.size(axis);
  if (size > kMost) throw Unsupported{"it runs over more than 256 elements"};
  if (size == 0) return {x};
  Values all = {x.slice(axis, 0, 1, c.line())};
  for (std::int64_t i = 1; i < size; ++i) {
    all.push_back(joined(all.back(), x.slice(axis, i, i + 1, c.line())));
  }
  return {concat(all, axis, c.line())};
}

/// The sum or the average of what is a number.
Values without_nan(const Call& c, bool averages) {
  const Line line = c.line();
  const Value x = c.promoted("self");
  const bool keep = c.flag("keepdim", false);
  const Value is_number = equal({x, line}, {x, line});
  const Value total = sum(where(is_number, {x, line}, {0, line}, line), axes_of(c), keep, line);
  if (!averages) return {total};
  return {total / sum(is_number.cast(x.element(), line), axes_of(c), keep, line)};
}

/// The area below a line of points along an axis; kRunning: up to each of them.
template <bool kRunning>
Values trapezoids(const Call& c) {
  const Line line = c.line();
  const Value y = c.value("y");
  const std::int64_t axis = c.axis("dim", y, -1), size = y.size(axis);
  const auto behind = [&](const Value& of, std::int64_t at) {
    return of.slice(at, 1, of.size(at), line);
  };
  const auto before = [&](const Value& of, std::int64_t at) {
    return of.slice(at, 0, of.size(at) - 1, line);
  };
  if (size < 2) throw Unsupported{"it has fewer than two points"};
  Value areas = (behind(y, axis) + before(y, axis)) * Operand(0.5, line);
  if (c.has("x")) {
    const Value x = c.value("x");
    const std::int64_t at = x.rank() == 1 ? 0 : axis + x.rank() - y.rank();
    Value widths = behind(x, at) - before(x, at);
    if (x.rank() == 1) {
      Shape shape(static_cast<std::size_t>(y.rank()), 1);
      shape[static_cast<std::size_t>(axis)] = size - 1;
      widths = widths.reshape(shape, line);
    }
    areas = areas * widths;
  } else if (c.number("dx", 1) != 1) {
    areas = areas * Operand(c.number("dx"), line);
  }
  if (kRunning) return {cumsum(areas, axis, {}, line)};
  return {sum(areas, axis, false, line)};
}

VarOptions spread_of(const Call& c) {
  const double correction =
      c.has("unbiased") ? (c.flag("unbiased") ? 1 : 0) : c.number("correction", 1);
  return {.correction = correction, .keep = c.flag("keepdim", false)};
}

Values norm_of(const Call& c) {
  const Line line = c.line();
  const double p = c.number(c.has("ord") ? "ord" : "p", 2);
  const bool keep = c.flag("keepdim", false);
  const Value x = c.promoted("self");
  if (p >= 1) return {norm(x, p, axes_of(c), keep, line)};
  if (p == 0) {
    const Value found = not_equal({x, line}, {0, line}).cast(x.element(), line);
    return {sum(found, axes_of(c), keep, line)};
  }
  const Value sizes = abs(x, line);
  if (std::isinf(p)) return {min(sizes, axes_of(c), keep, line)};
  const Value powers = sum(pow({sizes, line}, {p, line}), axes_of(c), keep, line);
  return {pow({powers, line}, {1 / p, line})};
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
  t["aten.max"] = with_scalars(extreme(max, argmax, maximum));
  t["aten.min"] = with_scalars(extreme(min, argmin, minimum));
  t["aten.argmax"] = with_scalars(place_of_extreme(argmax));
  t["aten.argmin"] = with_scalars(place_of_extreme(argmin));
  t["aten.aminmax"] = with_scalars([](const Call& c) {
    const Value x = c.value("self");
    const Axes axes = c.has("dim") ? Axes(c.integer("dim")) : Axes();
    const bool keep = c.flag("keepdim", false);
    return Values{min(x, axes, keep, c.line()), max(x, axes, keep, c.line())};
  });
  t["aten.any"] = with_scalars(any_or_all<false>);
  t["aten.all"] = with_scalars(any_or_all<true>);
  t["aten.count_nonzero"] = with_scalars([](const Call& c) {
    const Value found = not_equal({c.value("self"), c.line()}, {0, c.line()});
    return Values{sum(found.cast(i64, c.line()), axes_of(c), false, c.line())};
  });
  for (const bool averages : {false, true}) {
    t[averages ? "aten.nanmean" : "aten.nansum"] =
        with_scalars([averages](const Call& c) { return without_nan(c, averages); });
  }
  for (const bool deviates : {false, true}) {
    t[deviates ? "aten.std_mean" : "aten.var_mean"] = with_scalars([deviates](const Call& c) {
      const Value x = c.value("self");
      const Axes axes = axes_of(c);
      const VarOptions how = spread_of(c);
      return Values{deviates ? stddev(x, axes, how, c.line()) : var(x, axes, how, c.line()),
                    mean(x, axes, how.keep, c.line())};
    });
  }
  t["aten.cumprod"] = with_scalars([](const Call& c) {
    return running(c, [](const Value& a, const Value& b) { return a * b; });
  });
  t["aten.logcumsumexp"] = with_scalars([](const Call& c) {
    return running(
        c, [&](const Value& a, const Value& b) { return log_sum({a, c.line()}, {b, c.line()}); });
  });
  t["aten.trapezoid"] = trapezoids<false>;
  t["aten.trapz"] = trapezoids<false>;
  t["aten.cumulative_trapezoid"] = trapezoids<true>;
  t["aten.var"] = with_scalars([](const Call& c) {
    return Values{var(c.value("self"), axes_of(c), spread_of(c), c.line())};
  });
  t["aten.std"] = with_scalars([](const Call& c) {
    return Values{stddev(c.value("self"), axes_of(c), spread_of(c), c.line())};
  });
  t["aten.prod"] = with_scalars(product_of);
  t["aten.norm"] = with_scalars(norm_of);
  t["aten.linalg_vector_norm"] = with_scalars(norm_of);
  for (const char* name : {"softmax", "_softmax"}) {
    t[std::string("aten.") + name] = with_scalars([](const Call& c) {
      return Values{softmax(c.promoted("self"), c.integer("dim"), c.line())};
    });
  }
  for (const char* name : {"log_softmax", "_log_softmax"}) {
    t[std::string("aten.") + name] = with_scalars([](const Call& c) {
      return Values{log_softmax(c.promoted("self"), c.integer("dim"), c.line())};
    });
  }
  t["aten.cumsum"] = with_scalars([](const Call& c) {
    return Values{cumsum(c.promoted("self"), c.integer("dim"), {}, c.line())};
  });
  t["aten.diff"] = differences;
}

}  // namespace metronome::pt2
