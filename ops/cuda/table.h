// CUDA's table of rules: what executors call in place of op names. Needs no CUDA to link or run.
#pragma once

#include <typeindex>
#include <utility>
#include <vector>

#include "graph/ir/op.h"
#include "ops/cuda/launch.h"
#include "ops/cuda/map.h"
#include "ops/rules/own_rules.h"

namespace metronome {

class CudaTable {
 public:
  using Rules = CudaRules;
  /// Throws InternalError for an op without a CUDA form (a view, a composite).
  const Rules& of(const Op& op) const;
  bool has(const Op& op) const;
  /// This table and those ops of one's own that have rules for devices.
  CudaTable with(const OwnOps& ops) const;

  explicit CudaTable(std::vector<std::pair<std::type_index, Rules>> rules)
      : rules_(std::move(rules)) {}

 private:
  std::vector<std::pair<std::type_index, Rules>> rules_;
};

/// Made from the list of all ops: ops/tables/table_cuda.cc, above the ops.
const CudaTable& cuda_table();

}  // namespace metronome
