// The sparse mixture: a discrete `Route` says which rows an expert takes; gathering them, weighing
// the results and joining them again is made of ops that have gradients.
//
//   x [rows, width] --+-- router -- weights [rows, experts] -- route --> choice, slot, row
//                     |
//                     +-- x[row of slot] [slots, width] -- expert 0 --.
//                     +-- ...                              expert E --+-- concat -- a row of zeros
//                                                                           |
//   y[r] = sum over k of weights[choice[k, r]] * results[slot[k, r]] <------'
//
// A slot that no row has holds row 0 again, so that an expert meets nothing which the batch does
// not hold; nothing reads what it makes of it, so no gradient comes from there. An expert that
// mixes its rows, as batch norm does, counts such slots too: give experts layer norm instead.
#include "ops/language/routing.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "graph/emit/scope.h"
#include "graph/ir/value.h"
#include "ops/expr/functions.h"
#include "ops/language/expert_choice.h"
#include "ops/language/routed.h"
#include "ops/route/route.h"
#include "ops/rules/require.h"

namespace metronome {
namespace {

/// The record that `route` leaves with its result.
struct RouteRecord {
  ValueId weights;  ///< the router's [rows, experts]
  ValueId load;     ///< i64[experts]: choices that fell on each expert; absent where experts choose
  ValueId row;      ///< i64[experts * slots]: where experts choose, the rows that they took
  std::int64_t top = 0, slots = 0;
};

/// An expert meets a row at most once, so more slots than rows are never filled.
std::int64_t slots_of(double capacity, std::int64_t rows, std::int64_t top, std::int64_t experts) {
  if (rows == 0) return 0;  // also of a capacity without bounds
  const double wanted = std::ceil(capacity * static_cast<double>(rows) * static_cast<double>(top) /
                                  static_cast<double>(experts));
  return static_cast<std::int64_t>(std::min(wanted, static_cast<double>(rows)));
}

/// Returns what is wrong with the router's result or the options, or nothing.
std::optional<Requirement> wrong_router(const Value& x, const Value& weights, int experts,
                                        const RouteOptions& options) {
  const std::int64_t count = weights.size(-1);
  if (weights.rank() != 2 || weights.size(0) != x.size(0) || count == 0 ||
      !is_floating(weights.element()) || is_half(weights.element())) {
    return Requirement{
        fmt::format("one floating weight per row and expert: a router from {} to [{}, experts], "
                    "but it gives {}",
                    to_string(x.type()), x.size(0), to_string(weights.type()))};
  }
  if (experts >= 0 && experts != count) {
    return Requirement{
        fmt::format("as many experts as the router has columns, but {} and {}", experts, count)};
  }
  if (options.top < 1 || options.top > count) {
    return Requirement{
        fmt::format("a top from 1 to the router's {} columns, but {}", count, options.top)};
  }
  if (!(options.capacity > 0)) {
    return Requirement{fmt::format("a capacity above 0, but {}", options.capacity)};
  }
  return std::nullopt;
}

/// Returns what is wrong with an expert's result, or nothing.
std::optional<Requirement> wrong_expert(int expert, std::int64_t slots, const Value& result,
                                        const Value& first, const Value& weights) {
  if (result.rank() < 1 || result.size(0) != slots) {
    return Requirement{
        fmt::format("experts that keep the number of rows, but expert {} gives {} "
                    "for {} rows",
                    expert, to_string(result.type()), slots)};
  }
  if (result.type() != first.type()) {
    return Requirement{fmt::format("experts of one type, but expert 0 gives {} and expert {} {}",
                                   to_string(first.type()), expert, to_string(result.type()))};
  }
  if (result.element() != weights.element()) {
    return Requirement{fmt::format("experts that give the element type of the router's weights, "
                                   "{}, but expert {} gives {}",
                                   name_of(weights.element()), expert, to_string(result.type())),
                       way_to_equal_elements(std::array{weights.type(), result.type()})};
  }
  return std::nullopt;
}

/// Sums, for each row, the experts' results [slots, ...] of that row, weighed.
Value combine(const Values& results, const Value& weights, const Value& choice, const Value& slot,
              Line line) {
  LineScope scope(weights.emitter(), line);
  const std::int64_t slots = results[0].size(0), rows = weights.size(0);
  const Shape shape = results[0].shape();
  const std::int64_t width = numel(Shape(shape.begin() + 1, shape.end()));
  Values tables;
  for (const Value& result : results) {
    tables.push_back(result.rank() == 2 ? result : result.reshape({slots, width}));
  }
  // A row without a slot reads this row of zeros.
  tables.push_back(make_constant(weights.emitter(), 0, {weights.element(), {1, width}}, line));
  const Value taken = embedding_lookup(concat(tables, 0), slot);
  const Value weight = embedding_lookup(weights.reshape({rows * weights.size(1), 1}), choice);
  const Value joined = sum(taken * weight, 0);
  if (results[0].rank() == 2) return joined;
  Shape whole = shape;
  whole[0] = rows;
  return joined.reshape(std::move(whole));
}

/// `route` of the rows of x [..., width], whatever their dimensions.
Value route_leading_rows(Value x, const Layer& router, const Layers& experts,
                         const RouteOptions& options, Line line) {
  Shape whole = x.shape();
  const std::int64_t width = whole.back();
  whole.pop_back();
  const Value rows = x.reshape({numel(whole), width}, line);
  const Value y = route_rows(rows, router, experts, options, line);
  if (y.poisoned()) return y;
  whole.insert(whole.end(), y.shape().begin() + 1, y.shape().end());
  const Value result = y.reshape(std::move(whole), line);
  keep_note(result, *note_of<RouteRecord>(y));
  return result;
}

}  // namespace

Value route_rows(const Value& x, const Layer& router, const Layers& experts,
                 const RouteOptions& options, Line line) {
  if (!x.usable(line)) return x;
  if (x.rank() < 2) {
    return mistake(x.emitter(), line, "route cannot share out rows", {{x}},
                   {fmt::format("rows [..., width], but {}", to_string(x.type()))});
  }
  if (x.rank() > 2) return route_leading_rows(x, router, experts, options, line);
  PathScope verb(x.emitter(), "route", PathScope::Kind::verb);
  Value weights;
  {
    PathScope scope(x.emitter(), "router", PathScope::Kind::user);
    weights = router(x, line);
  }
  if (weights.poisoned()) return weights;
  if (const auto wrong = wrong_router(x, weights, experts.count(), options)) {
    return mistake(x.emitter(), line, "route cannot weigh its experts", {{x, weights}}, *wrong);
  }
  const std::int64_t count = weights.size(1);
  const std::int64_t slots = slots_of(options.capacity, x.size(0), options.top, count);
  const bool experts_choose = options.chooser == Chooser::expert;
  ExpertChoice chosen;
  Values routes;  // choice, slot, row, load
  if (experts_choose) {
    chosen = choose_by_experts(weights, slots, line);
  } else {
    routes = apply_all(Route{options.top, slots}, {weights}, 4, line);
  }
  const Value& row = experts_choose ? chosen.row : routes[2];

  const Values rows = chunk(embedding_lookup(x, row, line), count, 0, line);
  Values results;
  for (int e = 0; e < count; ++e) {
    PathScope scope(x.emitter(), e, false);
    const Value result = experts.at(e).at(rows[e], e, line);
    if (result.poisoned()) return result;
    results.push_back(result);
    if (const auto wrong = wrong_expert(e, slots, result, results[0], weights)) {
      return mistake(x.emitter(), line, "route cannot join its experts",
                     {{e == 0 ? weights : results[0], result}}, *wrong);
    }
  }
  const Value y = experts_choose ? combine(results, chosen, x.size(0), line)
                                 : combine(results, weights, routes[0], routes[1], line);
  if (y.poisoned()) return y;
  RouteRecord note{weights.id(), {}, {}, options.top, slots};
  (experts_choose ? note.row : note.load) = (experts_choose ? row : routes[3]).id();
  keep_note(y, note);
  return y;
}

Value dropped(Value result, Line line) {
  if (!result.usable(line)) return result;
  const auto* route = note_of<RouteRecord>(result);
  if (route == nullptr) {
    return mistake(result.emitter(), line, "dropped rows cannot be counted", {{result}},
                   {"what route(...) gave"});
  }
  const Value weights(result.emitter(), route->weights);
  if (route->row.present()) {
    return rows_left(Value(result.emitter(), route->row), weights.size(0), line);
  }
  LineScope scope(result.emitter(), line);
  const auto slots = static_cast<double>(route->slots);
  return sum(maximum(Value(result.emitter(), route->load) - slots, 0.0));
}

Value balance_loss(Value result, Line line) {
  if (!result.usable(line)) return result;
  const auto* route = note_of<RouteRecord>(result);
  if (route == nullptr) {
    return mistake(result.emitter(), line, "balance_loss cannot find the router", {{result}},
                   {"what route(...) gave"});
  }
  if (route->row.present()) {
    return mistake(result.emitter(), line, "balance_loss has nothing to balance", {{result}},
                   {"a route in which rows choose; where experts choose, all take as many rows"});
  }
  LineScope scope(result.emitter(), line);
  const Value weights(result.emitter(), route->weights), load(result.emitter(), route->load);
  const auto rows = static_cast<double>(std::max<std::int64_t>(weights.size(0), 1));
  const double scale =
      static_cast<double>(weights.size(1)) / (rows * rows * static_cast<double>(route->top));
  return sum(load.cast(weights.element()) * sum(weights, 0)) * scale;
}

}  // namespace metronome
