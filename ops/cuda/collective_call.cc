#include "ops/cuda/collective_call.h"

#include <fmt/format.h>

#include "graph/ir/error.h"

namespace metronome {
namespace {

using CollectiveKind = CollectiveProblem::Kind;

std::string_view name_of(CollectiveKind kind) {
  switch (kind) {
    case CollectiveKind::all_reduce:
      return "all_reduce";
    case CollectiveKind::reduce:
      return "reduce";
    case CollectiveKind::broadcast:
      return "broadcast";
    case CollectiveKind::all_gather:
      return "all_gather";
    case CollectiveKind::reduce_scatter:
      return "reduce_scatter";
    case CollectiveKind::all_to_all:
      return "all_to_all";
  }
  throw InternalError("a collective without a name");
}

}  // namespace

bool reduces(CollectiveKind kind) {
  return kind == CollectiveKind::all_reduce || kind == CollectiveKind::reduce ||
         kind == CollectiveKind::reduce_scatter;
}

std::string to_string(const CollectiveProblem& p) {
  std::string text(name_of(p.kind));
  if (reduces(p.kind)) text += fmt::format(" {}", name_of(p.op));
  text += fmt::format(" of {} [{}]", name_of(p.element), p.count);
  if (p.kind == CollectiveKind::broadcast) text += fmt::format(" from rank {}", p.root);
  if (p.kind == CollectiveKind::reduce) text += fmt::format(" to rank {}", p.root);
  return text;
}

std::size_t CollectiveCommand::from_bytes() const {
  return static_cast<std::size_t>(problem.count) * size_of(problem.element);
}

std::size_t CollectiveCommand::to_bytes() const {
  const auto n = static_cast<std::size_t>(ranks->size());
  if (problem.kind == CollectiveKind::all_gather) return from_bytes() * n;
  if (problem.kind == CollectiveKind::reduce_scatter) return from_bytes() / n;
  return from_bytes();
}

std::vector<LibraryOperand> CollectiveCommand::operands() const {
  return {{from, from_bytes()}, {to, to_bytes(), LibraryOperand::Use::write}};
}

void CollectiveCommand::check() const {
  const CollectiveProblem& p = problem;
  const auto refuse = [&](const std::string& why) {
    throw InternalError(fmt::format("{}: {}", to_string(p), why));
  };
  if (p.count < 1) refuse("a collective without elements");
  if (ranks == nullptr) refuse("a collective of no ranks");
  const bool parts =
      p.kind == CollectiveKind::reduce_scatter || p.kind == CollectiveKind::all_to_all;
  if (parts && p.count % ranks->size() != 0) {
    refuse(fmt::format("no equal parts for {} ranks", ranks->size()));
  }
  if (p.root < 0 || p.root >= ranks->size()) refuse(fmt::format("no rank {}", p.root));
  const bool known =
      p.element == f32 || p.element == f64 || (p.element == i64 && p.op != ReduceOp::mean);
  if (reduces(p.kind) && !known) refuse("a reduction that ranks do not know");
}

}  // namespace metronome
