#include "distributed/ops/all_reduce.h"

#include <fmt/format.h>

#include "distributed/collectives/all_reduce.h"
#include "distributed/ops/reduced.h"
#include "graph/emit/scope.h"
#include "graph/ir/error.h"
#include "ops/expr/functions.h"

namespace metronome {

Value all_reduce(Value x, ReduceOp op, Line line) { return apply(AllReduce{op}, {x}, line); }

std::string AllReduce::attributes() const {
  return fmt::format("{}{}", name_of(op), distributed::ranks_attribute(ranks));
}

Types AllReduce::infer(std::span<const Type> in) const {
  distributed::require_reducible(op, in[0]);
  return {in[0]};
}

Values AllReduce::vjp(const Vjp& v) const {
  if (!v.grad().present()) return Values(1);
  const auto over_ranks = [&](const Value& x, ReduceOp with) {
    return apply(AllReduce{with, ranks}, {x}, Line::here());
  };
  if (op == ReduceOp::sum || op == ReduceOp::mean) return {over_ranks(v.grad(), op)};
  const Value mine = equal(v.in(0), v.out(0)).cast(v.grad().element());
  const Value all = over_ranks(mine, ReduceOp::sum);
  return {mine * (over_ranks(v.grad(), ReduceOp::sum) / all)};
}

}  // namespace metronome
