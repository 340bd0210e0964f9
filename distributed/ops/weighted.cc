#include "distributed/ops/weighted.h"

#include "distributed/ops/all_reduce.h"
#include "graph/emit/scope.h"
#include "ops/expr/functions.h"

namespace metronome {

Value weighted_by(Value loss, Value weight, Line line) {
  if (!loss.usable(line) || !weight.usable(line)) return loss;
  const LineScope scope(loss.emitter(), line);
  const Value own = stop_gradient(weight.cast(loss.element(), line), line);
  return loss * (own / all_reduce(own, ReduceOp::mean, line));
}

}  // namespace metronome
