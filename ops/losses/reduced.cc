#include "ops/losses/reduced.h"

#include <fmt/format.h>

#include <vector>

#include "graph/ir/error.h"
#include "ops/expr/functions.h"
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
  const bool fits_1 = !axis && x.rank() > 2 && targets.shape == rows_of(x, 1);
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
    way_out = fmt::format("nothing has to be flattened; here: targets.reshape({{{}}})",
                          fmt::join(rows, ", "));
  }
  throw Requirement{fmt::format("one target for each row of logits, {}, but {}", to_string(rows),
                                to_string(targets.shape)),
                    std::move(way_out)};
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
