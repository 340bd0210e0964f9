// The scheme of routing.cc, the other way round: the weights' columns are sorted, so that no place
// is handed out, and results are added to the rows they belong to.
//
//   weights [rows, experts] -- topk along rows --> row [experts * slots], weight of each
//   x[row] -- experts -- results * weight -- scatter_add by row --> y
#include "ops/language/expert_choice.h"

#include "graph/emit/scope.h"
#include "ops/expr/functions.h"
#include "ops/language/indexing.h"

namespace metronome {

ExpertChoice choose_by_experts(const Value& weights, std::int64_t slots, Line line) {
  LineScope scope(weights.emitter(), line);
  const std::int64_t all = weights.size(1) * slots;
  const auto [values, indices] = topk(weights, slots, 0);
  return {indices.transpose(0, 1).reshape({all}), values.transpose(0, 1).reshape({all, 1})};
}

Value combine(const Values& results, const ExpertChoice& choice, std::int64_t rows, Line line) {
  LineScope scope(choice.row.emitter(), line);
  const Value all = concat(results, 0);
  Shape shape = all.shape();
  const std::int64_t taken = shape[0], width = numel(Shape(shape.begin() + 1, shape.end()));
  const Value weighed = all.reshape({taken, width}) * choice.weight;
  const Value zeros = make_constant(all.emitter(), 0, {all.element(), {rows, width}}, line);
  const Value index = expand(choice.row.reshape({taken, 1}), {taken, width});
  shape[0] = rows;
  return scatter_add(zeros, 0, index, weighed).reshape(std::move(shape));
}

Value rows_left(const Value& row, std::int64_t rows, Line line) {
  LineScope scope(row.emitter(), line);
  const Value zeros = make_constant(row.emitter(), 0, {i64, {rows}}, line);
  const Value ones = make_constant(row.emitter(), 1, row.type(), line);
  return sum(equal(scatter_add(zeros, 0, row, ones), 0.0).cast(i64));
}

}  // namespace metronome
