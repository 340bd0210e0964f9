#include "ops/mean_losses/targets.h"

#include <fmt/format.h>

#include <string>
#include <utility>

#include "graph/ir/error.h"
#include "ops/rules/require.h"

namespace metronome {

Shape rows_of(const Type& x, std::int64_t axis) {
  Shape rows = x.shape;
  rows.erase(rows.begin() + normalized_axis(axis, x.rank()));
  return rows;
}

void require_targets(const Type& x, const Type& targets, std::optional<std::int64_t> axis) {
  require_floating(x);
  if (x.rank() == 0) throw Requirement{"logits with a dimension of classes, but a scalar"};
  if (axis && (*axis < -x.rank() || *axis >= x.rank())) {
    throw Requirement{fmt::format("an axis from {} to {}, but {}", -x.rank(), x.rank() - 1, *axis)};
  }
  if (targets.element != i64) {
    // One number per class is a distribution, not an index.
    throw Requirement{fmt::format("targets of i64, but {}", name_of(targets.element)),
                      targets.shape == x.shape ? "give the index of each row's class: "
                                                 "mt::argmax(targets)"
                                               : "cast them: targets.cast(mt::i64)"};
  }
  const Shape rows = rows_of(x, axis.value_or(-1));
  const Shape rows_1 = !axis && x.rank() > 2 ? rows_of(x, 1) : Shape();
  const bool fits_1 = !rows_1.empty() && targets.shape == rows_1;
  if (targets.shape == rows && !fits_1) return;
  if (targets.shape == rows) {
    throw Requirement{
        fmt::format("classes along one dimension: targets {} fit the last one and dimension 1",
                    to_string(targets.shape)),
        "say which: {.axis = 1} for classes in dimension 1, as PyTorch has them, {.axis = -1} for "
        "the last one"};
  }
  std::string way_out;
  if (fits_1) {
    way_out = "if classes lie in dimension 1, as PyTorch has them: {.axis = 1}";
  } else if (targets.numel() == numel(rows)) {  // flattened, as other frameworks ask for it
    way_out = fmt::format("nothing has to be flattened; here: targets.reshape({{{}}}){}",
                          fmt::join(rows, ", "),
                          !rows_1.empty() && rows == rows_1 ? " and {.axis = -1}" : "");
  }
  throw Requirement{fmt::format("one target for each row of logits, {}, but {}", to_string(rows),
                                to_string(targets.shape)),
                    std::move(way_out)};
}

}  // namespace metronome
