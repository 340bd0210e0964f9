// One set of weights over the parts of a value: `each` and `slices`.
#include <fmt/format.h>

#include <algorithm>

#include "graph/emit/scope.h"
#include "graph/ir/value.h"
#include "ops/expr/functions.h"

namespace metronome {
namespace {

/// A verb at work on `x`, whose parts messages call `part`.
struct Over {
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
  Values unrolled(std::int64_t n, const Layer& layer, const Make& make) const {
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

  /// What a layer marked rowwise makes of all of `in`; its result must begin with the first
  /// `leading` dimensions of `in`, and with `same_rank` have as many as `in`.
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

Value Value::each(const Layer& layer, Line line) const {
  if (!usable(line)) return *this;
  const Over over{"each", "row", *this, line};
  if (rank() < 1 || size(0) < 1) {
    return over.refuse("take the value apart", {*this},
                       {fmt::format("a first dimension of 1 or more, but {}", to_string(shape()))});
  }
  const PathScope verb(emitter(), "each", PathScope::Kind::verb);
  // Of a vector the parts are numbers, no rows.
  if (layer.is_rowwise() && rank() > 1) return over.at_once(*this, layer, 1, false);
  const Shape rest(shape().begin() + 1, shape().end());
  const Values rows = chunk(*this, size(0), 0, line);
  const Values results =
      over.unrolled(size(0), layer, [&](int i) { return rows[i].reshape(rest, line); });
  return results[0].poisoned() ? results[0] : stack(results, 0, line);
}

Value Value::slices(std::int64_t n, const Layer& layer, Line line) const {
  if (!usable(line)) return *this;
  const Over over{"slices", "slice", *this, line};
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
  const Values results = over.unrolled(n, layer, [&](int i) { return parts[i]; });
  if (results[0].poisoned()) return results[0];
  if (results[0].rank() == 0) {
    return over.refuse_result(*this, results[0],
                              "results of one or more dimensions, but slice 0 gives a scalar",
                              "give it a dimension: reshape({1})");
  }
  return concat(results, -1, line);
}

}  // namespace metronome
