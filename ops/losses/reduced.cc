#include "ops/losses/reduced.h"

#include <fmt/format.h>

#include <vector>

#include "graph/ir/error.h"
#include "ops/expr/functions.h"
#include "ops/rules/require.h"

namespace metronome {

Value reduce_loss(Value each, LossReduction reduction) {
  switch (reduction) {
    case LossReduction::mean:
      return mean(each);
    case LossReduction::sum:
      return sum(each);
    case LossReduction::none:
      return each;
  }
  throw InternalError("a loss's reduction out of range");
}

void require_some(const Value& of, LossReduction reduction) {
  if (reduction != LossReduction::mean || of.type().numel() > 0) return;
  throw Requirement{fmt::format("one element or more, as the mean of none is not a number, but {}",
                                to_string(of.shape()))};
}

void require_broadcasts(std::string_view what, const Value& factor, const Value& x) {
  if (!factor.present()) return;
  if (factor.element() != x.element()) {
    throw Requirement{
        fmt::format("{} of {}, but {}", what, name_of(x.element()), name_of(factor.element())),
        fmt::format("cast it: {}.cast(mt::{})", what, name_of(x.element()))};
  }
  const std::int64_t added = x.rank() - factor.rank();
  bool fits = added >= 0;
  for (std::int64_t d = 0; fits && d < factor.rank(); ++d) {
    fits = factor.shape()[d] == 1 || factor.shape()[d] == x.shape()[added + d];
  }
  if (fits) return;
  throw Requirement{fmt::format("{} that broadcasts to {}, but {}", what, to_string(x.shape()),
                                to_string(factor.shape()))};
}

Value with_classes_last(Value x, std::optional<std::int64_t> axis) {
  const std::int64_t at = normalized_axis(axis.value_or(-1), x.rank());
  if (at == x.rank() - 1) return x;
  std::vector<std::int64_t> axes;
  for (std::int64_t d = 0; d < x.rank(); ++d) {
    if (d != at) axes.push_back(d);
  }
  axes.push_back(at);
  return permute(x, axes);
}

}  // namespace metronome
