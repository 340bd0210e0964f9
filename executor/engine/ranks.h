// The ranks of a world, as `compile` sees them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "executor/engine/plan.h"
#include "graph/ir/graph.h"
#include "graph/ir/settings.h"
#include "ops/rules/own_rules.h"

namespace metronome::executor {

/// Processes that run the same steps, each on numbers of its own, and exchange some. Each of them
/// makes the same calls in the same order. distributed/ makes them of a `World`.
class Ranks {
 public:
  virtual ~Ranks() = default;

  virtual int rank() const = 0;
  /// Among those of this machine.
  virtual int local_rank() const = 0;

  /// The rules of the ops that ranks take part in, for back ends.
  virtual OwnOps ops() const = 0;

  /// The declared graph, node by node, with those ops told which ranks these are. Throws GraphError
  /// where ranks might differ on whether such an op runs at all, and for ranks that are not there.
  virtual ir::Graph join(const ir::Graph& declared) const = 0;

  /// Waits for the others; throws RunError, on all of them, where they are not about to run the
  /// same steps. `declared`: as `join` made them.
  virtual void agree(std::span<const ir::Graph* const> declared,
                     std::span<const Plan> plans) const = 0;

  /// A step begins, by its number.
  virtual void begin_step(std::int64_t step) const = 0;

  /// The ops that make of a tensor of each rank their mean, element by element, for steps with so
  /// many bytes of gradients. May measure what exchanges cost, on all ranks together.
  virtual MeanOps averages(std::size_t bytes) const = 0;
  /// Rank 0's bytes come to all.
  virtual void broadcast(std::span<std::byte> bytes) const = 0;
  /// [rank] What each rank says here.
  virtual std::vector<std::string> exchange(const std::string& text) const = 0;
};

}  // namespace metronome::executor
