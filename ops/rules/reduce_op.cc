#include "ops/rules/reduce_op.h"

#include "graph/ir/error.h"

namespace metronome {

std::string_view name_of(ReduceOp op) {
  switch (op) {
    case ReduceOp::sum:
      return "sum";
    case ReduceOp::mean:
      return "mean";
    case ReduceOp::max:
      return "max";
    case ReduceOp::min:
      return "min";
  }
  throw InternalError("a reduction without a name");
}

}  // namespace metronome
