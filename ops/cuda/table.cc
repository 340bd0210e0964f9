#include "ops/cuda/table.h"

#include <fmt/format.h>

#include "graph/ir/error.h"

namespace metronome {

bool CudaTable::has(const Op& op) const {
  for (const auto& [kind, rules] : rules_) {
    if (kind == op.kind()) return true;
  }
  return false;
}

const CudaTable::Rules& CudaTable::of(const Op& op) const {
  for (const auto& [kind, rules] : rules_) {
    if (kind == op.kind()) return rules;
  }
  throw InternalError(fmt::format("{} has no CUDA form", op.name()));
}

CudaTable CudaTable::with(const OwnOps& ops) const {
  CudaTable table = *this;
  for (const OwnOp& op : ops.all()) {
    if (op.cuda.record != nullptr) table.rules_.emplace_back(op.kind, op.cuda);
  }
  return table;
}

}  // namespace metronome
