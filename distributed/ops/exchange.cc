#include "distributed/ops/exchange.h"

#include <fmt/format.h>

#include "distributed/ops/reduced.h"
#include "graph/emit/scope.h"
#include "graph/ir/error.h"
#include "ops/expr/functions.h"

namespace metronome {
namespace {

void require_ranks(int ranks) {
  if (ranks < 1) throw Requirement{fmt::format("one rank or more, but {}", ranks)};
}

void require_rows(const Type& type) {
  if (type.rank() < 1) throw Requirement{"an operand of one dimension or more, but of none"};
}

void require_equal_rows(const Type& type, int ranks) {
  require_rows(type);
  if (type.shape[0] % ranks == 0) return;
  throw Requirement{
      fmt::format("as many rows for each of {} ranks, but {} rows in all", ranks, type.shape[0])};
}

// Told by for_ranks before they run, the ranks are `size`.
std::string text(int size) { return fmt::format("ranks={}", size); }

}  // namespace

Value all_gather(Value x, int ranks, Line line) { return apply(AllGather{ranks}, {x}, line); }

Value reduce_scatter(Value x, int ranks, ReduceOp op, Line line) {
  return apply(ReduceScatter{op, ranks}, {x}, line);
}

Value all_to_all(Value x, int ranks, Line line) { return apply(AllToAll{ranks}, {x}, line); }

std::string AllGather::attributes() const { return text(size); }

Types AllGather::infer(std::span<const Type> in) const {
  require_ranks(size);
  require_rows(in[0]);
  Type all = in[0];
  all.shape[0] *= size;
  return {all};
}

Values AllGather::vjp(const Vjp& v) const {
  if (!v.grad().present()) return Values(1);
  return {apply(ReduceScatter{ReduceOp::sum, size, ranks}, {v.grad()}, Line::here())};
}

std::string ReduceScatter::attributes() const {
  return fmt::format("{}, {}", name_of(op), text(size));
}

Types ReduceScatter::infer(std::span<const Type> in) const {
  require_ranks(size);
  distributed::require_reducible(op, in[0]);
  require_equal_rows(in[0], size);
  Type part = in[0];
  part.shape[0] /= size;
  return {part};
}

Values ReduceScatter::vjp(const Vjp& v) const {
  if (!v.grad().present()) return Values(1);
  const auto gathered = [&](const Value& x) {
    return apply(AllGather{size, ranks}, {x}, Line::here());
  };
  if (op == ReduceOp::sum) return {gathered(v.grad())};
  if (op == ReduceOp::mean) return {gathered(v.grad()) / static_cast<double>(size)};
  const Value mine = equal(v.in(0), gathered(v.out(0))).cast(v.grad().element());
  const Value all = apply(ReduceScatter{ReduceOp::sum, size, ranks}, {mine}, Line::here());
  return {mine * gathered(v.grad() / all)};
}

std::string AllToAll::attributes() const { return text(size); }

Types AllToAll::infer(std::span<const Type> in) const {
  require_ranks(size);
  require_equal_rows(in[0], size);
  return {in[0]};
}

Values AllToAll::vjp(const Vjp& v) const {
  if (!v.grad().present()) return Values(1);
  return {apply(AllToAll{size, ranks}, {v.grad()}, Line::here())};
}

}  // namespace metronome
