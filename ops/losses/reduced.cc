#include "ops/losses/reduced.h"

#include <fmt/format.h>

#include "graph/ir/error.h"
#include "ops/language/functions.h"
#include "ops/rules/require.h"

namespace metronome {

Value reduced(Value each, LossReduction reduction) {
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

void require_targets(const Value& classes, const Value& targets) {
  require_floating(classes.type());
  if (classes.rank() == 0) throw Requirement{"a last dimension of classes, but a scalar"};
  if (targets.element() != i64) {
    throw Requirement{fmt::format("targets of i64, but {}", name_of(targets.element())),
                      "cast them: targets.cast(mt::i64)"};
  }
  const Shape rows(classes.shape().begin(), classes.shape().end() - 1);
  if (targets.shape() == rows) return;
  throw Requirement{fmt::format("one target for each row, {}, but {}", to_string(rows),
                                to_string(targets.shape()))};
}

}  // namespace metronome
