#include "distributed/ops/broadcast.h"

#include <fmt/format.h>

#include "distributed/ops/reduced.h"
#include "graph/emit/scope.h"

namespace metronome {

Value broadcast(Value x, int root, Line line) { return apply(Broadcast{root}, {x}, line); }

std::string Broadcast::attributes() const {
  return fmt::format("root={}{}", root, distributed::ranks_attribute(ranks));
}

Types Broadcast::infer(std::span<const Type> in) const {
  distributed::require_rank(root);
  return {in[0]};
}

Values Broadcast::vjp(const Vjp& v) const {
  if (!v.grad().present()) return Values(1);
  return {apply(ReduceTo{root, ranks}, {v.grad()}, Line::here())};
}

std::string ReduceTo::attributes() const {
  return fmt::format("root={}{}", root, distributed::ranks_attribute(ranks));
}

Types ReduceTo::infer(std::span<const Type> in) const {
  distributed::require_rank(root);
  distributed::require_reducible(ReduceOp::sum, in[0]);
  return {in[0]};
}

Values ReduceTo::vjp(const Vjp& v) const {
  if (!v.grad().present()) return Values(1);
  return {apply(Broadcast{root, ranks}, {v.grad()}, Line::here())};
}

}  // namespace metronome
