// The verbs of a Value that make ops: those that shape it, join streams, and run one layer over its
// parts. Those that make none are in graph/builder/verbs.cc.
//
//   each     x [n, ...]: n rows, the layer over each, the results stacked
//   slices   x [..., n w]: n slices of w columns, the layer over each, the results side by side
//
// Both share one set of weights. A rowwise layer runs once over all parts, any other once for each.
// `gate` sums all experts, each times its column of the router. Bounds and axes that count from the
// end are turned to count from the front; wrong ones stay for the op's rule to name.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "graph/emit/emitter.h"
#include "graph/emit/scope.h"
#include "graph/ir/value.h"
#include "ops/cast/cast.h"
#include "ops/expr/functions.h"
#include "ops/language/routed.h"
#include "ops/language/routing.h"
#include "ops/reshape/reshape.h"
#include "ops/slice/slice.h"
#include "ops/transpose/transpose.h"

namespace metronome {
namespace {

Value add_skip(const Value& skip, const Value& main, Line line) {
  LineScope scope(skip.emitter(), line);
  return skip + main;
}

/// A verb at work on `x`, whose parts messages call `part`.
struct VerbCall {
  std::string_view verb;
  std::string_view part;
  Value x;
  Line line;

  Value refuse(std::string_view what, const Values& operands,
               const Requirement& requirement) const {
    return mistake(x.emitter(), line, fmt::format("{} cannot {}", verb, what), operands,
                   requirement);
  }

  Value refuse_result(const Value& other, const Value& result, std::string requires_,
                      std::string way_out = "") const {
    return refuse("join what its layer gives", {other, result},
                  {std::move(requires_), std::move(way_out)});
  }

  /// layer(make(i)) for each i < n, nodes under `<i>/`; one poisoned value where one fails.
  template <class Make>
  Values unroll(std::int64_t n, const Layer& layer, const Make& make) const {
    Values results;
    for (int i = 0; i < n; ++i) {
      const PathScope copy(x.emitter(), i, true);
      const Value result = layer.at(make(i), i, line);
      if (result.poisoned()) return {result};
      if (i > 0 && result.type() != results[0].type()) {
        return {refuse_result(
            results[0], result,
            fmt::format("results of one type, but {} 0 gives {} and {} {} {}", part,
                        to_string(results[0].type()), part, i, to_string(result.type())))};
      }
      results.push_back(result);
    }
    return results;
  }

  /// Applies a layer marked rowwise to all of `in`. The result must begin with the first `leading`
  /// dimensions of `in`, and with `same_rank` have as many as `in`.
  Value at_once(const Value& in, const Layer& layer, std::int64_t leading, bool same_rank) const {
    const Value result = layer(in, line);
    if (result.poisoned()) return result;
    const Shape first(in.shape().begin(), in.shape().begin() + leading);
    if (result.rank() < leading || (same_rank && result.rank() != in.rank()) ||
        !std::equal(first.begin(), first.end(), result.shape().begin())) {
      return refuse_result(
          in, result,
          fmt::format("a rowwise layer's result {}of leading dimensions {}",
                      same_rank ? fmt::format("of rank {}, ", in.rank()) : "", to_string(first)),
          "mt::rowwise is for layers that treat leading dimensions alike");
    }
    return result;
  }
};

}  // namespace

Value Value::cast(Element element, Line line) const { return apply(Cast{element}, {*this}, line); }

Value Value::reshape(Shape shape, Line line) const {
  static_cast<void>(emitter(line));  // where it was destroyed, the line is told
  if (std::count(shape.begin(), shape.end(), -1) == 1) {
    try {
      const std::int64_t others = elements_beside_free(element(), shape);
      if (others > 0 && type().numel() % others == 0) {
        std::replace(shape.begin(), shape.end(), std::int64_t{-1}, type().numel() / others);
      }
    } catch (const Requirement&) {  // the rule below says so
    }
  }
  return apply(Reshape{std::move(shape)}, {*this}, line);
}

Value Value::transpose(std::int64_t a, std::int64_t b, Line line) const {
  static_cast<void>(emitter(line));  // where it was destroyed, the line is told
  const auto inside = [&](std::int64_t axis) { return axis >= -rank() && axis < rank(); };
  std::vector<std::int64_t> axes(static_cast<std::size_t>(rank()));
  std::iota(axes.begin(), axes.end(), 0);
  if (inside(a) && inside(b)) {
    std::swap(axes[a < 0 ? a + rank() : a], axes[b < 0 ? b + rank() : b]);
  } else {
    axes = {inside(a) ? b : a};  // for `infer` to name
  }
  return apply(Transpose{std::move(axes)}, {*this}, line);
}

Value Value::slice(std::int64_t axis, std::int64_t begin, std::int64_t end, Line line) const {
  static_cast<void>(emitter(line));  // where it was destroyed, the line is told
  if (axis >= -rank() && axis < rank()) {
    if (axis < 0) axis += rank();
    const std::int64_t n = size(axis);
    if (begin < 0 && begin >= -n) begin += n;
    if (end < 0 && end >= -n) end += n;
  }
  return apply(Slice{axis, begin, end}, {*this}, line);
}

Value Value::also(const Layer& layer, Line line) const {
  if (!usable(line)) return *this;
  const Value made = layer(*this, line);
  return made.poisoned() ? made : add_skip(*this, made, line);
}

Value Value::also(const Layer& main, const Layer& skip, Line line) const {
  if (!usable(line)) return *this;
  const Value through_main = main(*this, line);
  return add_skip(skip(*this, line), through_main, line);
}

Value iterations(Value result, Line line) {
  if (!result.usable(line)) return result;
  Emitter* graph = result.emitter();
  const auto found = graph->iterations.find(result.id());
  if (found == graph->iterations.end()) {
    return mistake(graph, line, "iterations cannot be counted", {{result}},
                   {"what loop(...).until or .while_true gave"});
  }
  LineScope scope(graph, line);
  const auto [always, guards] = found->second;
  Value count = make_constant(graph, always, Type{i32, {}}, line);
  for (const ValueId guard : guards) count = count + Value(graph, guard).cast(i32);
  return count;
}

Layer residual(Layer layer) {
  const bool is_rowwise = layer.is_rowwise();
  Layer sum = [layer = std::move(layer)](Value x, Line line) { return x.also(layer, line); };
  return is_rowwise ? rowwise(std::move(sum)) : sum;
}

Value Value::gate(const Layer& router, const Layers& experts, Line line) const {
  if (!usable(line)) return *this;
  PathScope verb(emitter(), "gate", PathScope::Kind::verb);
  Value weights;
  {
    PathScope scope(emitter(), "router", PathScope::Kind::user);
    weights = router(*this, line);
  }
  if (weights.poisoned()) return weights;
  const std::int64_t count = weights.size(-1);
  const auto refuse = [&](const Requirement& requirement) {
    return mistake(emitter(), line, "gate cannot weigh its experts", {{*this, weights}},
                   requirement);
  };
  if (weights.rank() != rank() || rank() < 1 ||
      !std::equal(shape().begin(), shape().end() - 1, weights.shape().begin())) {
    return refuse(
        {fmt::format("one weight per row and expert: a router from {} to [..., experts], "
                     "but it gives {}",
                     to_string(shape()), to_string(weights.shape()))});
  }
  if (experts.count() >= 0 && experts.count() != count) {
    return refuse({fmt::format("as many experts as the router has columns, but {} and {}",
                               experts.count(), count)});
  }
  const Values columns = chunk(weights, count, -1, line);
  if (columns[0].poisoned()) return columns[0];
  Value sum;
  for (int i = 0; i < count; ++i) {
    PathScope scope(emitter(), i, false);
    const Value result = experts.at(i).at(*this, i, line);
    // The other experts of a factory would tell its mistake again.
    if (experts.from_factory() && result.poisoned()) return result;
    LineScope ours(emitter(), line);
    const Value weighted = result * columns[i];
    sum = sum.present() ? sum + weighted : weighted;
  }
  return sum;
}

Value Value::each(const Layer& layer, Line line) const {
  if (!usable(line)) return *this;
  const VerbCall over{"each", "row", *this, line};
  if (rank() < 1 || size(0) < 1) {
    return over.refuse("take the value apart", {*this},
                       {fmt::format("a first dimension of 1 or more, but {}", to_string(shape()))});
  }
  const PathScope verb(emitter(), "each", PathScope::Kind::verb);
  // The parts of a vector are numbers, no rows.
  if (layer.is_rowwise() && rank() > 1) return over.at_once(*this, layer, 1, false);
  const Shape rest(shape().begin() + 1, shape().end());
  const Values rows = chunk(*this, size(0), 0, line);
  const Values results =
      over.unroll(size(0), layer, [&](int i) { return rows[i].reshape(rest, line); });
  return results[0].poisoned() ? results[0] : stack(results, 0, line);
}

Value Value::slices(std::int64_t n, const Layer& layer, Line line) const {
  if (!usable(line)) return *this;
  const VerbCall over{"slices", "slice", *this, line};
  if (n < 1 || rank() < 1 || size(-1) % n != 0) {
    return over.refuse(
        fmt::format("cut the value into {}", n), {*this},
        {n < 1 ? fmt::format("1 slice or more, but {}", n)
               : fmt::format("a last dimension that {} divides, but {}", n, to_string(shape()))});
  }
  const PathScope verb(emitter(), "slices", PathScope::Kind::verb);
  const std::int64_t width = size(-1) / n;
  if (layer.is_rowwise()) {
    Shape cut(shape().begin(), shape().end() - 1);
    cut.insert(cut.end(), {n, width});
    const Value result = over.at_once(reshape(cut, line), layer, rank(), true);
    if (result.poisoned()) return result;
    cut.resize(cut.size() - 1);
    cut.back() = n * result.size(-1);
    return result.reshape(cut, line);
  }
  const Values parts = chunk(*this, n, -1, line);
  const Values results = over.unroll(n, layer, [&](int i) { return parts[i]; });
  if (results[0].poisoned()) return results[0];
  if (results[0].rank() == 0) {
    return over.refuse_result(*this, results[0],
                              "results of one or more dimensions, but slice 0 gives a scalar",
                              "give it a dimension: reshape({1})");
  }
  return concat(results, -1, line);
}

Value Value::route(const Layer& router, const Layers& experts, const RouteOptions& options,
                   Line line) const {
  return route_rows(*this, router, experts, options, line);
}

Value Value::route(const Layer& router, const Layers& experts, Line line) const {
  return route(router, experts, RouteOptions{}, line);
}

}  // namespace metronome
