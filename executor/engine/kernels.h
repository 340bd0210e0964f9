// The kernels of one target, as the choice among them sees them.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "executor/support/free_memory.h"
#include "executor/support/timed_by.h"
#include "graph/ir/node.h"
#include "ops/rules/candidate.h"

namespace metronome::executor {

/// The kernels of one target, as the choice among them sees them.
class Kernels {
 public:
  virtual ~Kernels() = default;
  /// Processor, instruction set, threads, library versions: the first part of a tuning key.
  virtual std::string machine() const = 0;
  virtual bool has(const Op& op) const = 0;
  /// Returns the candidates that could run a node, the fixed rule's choice first; none where the
  /// kernels of an op that has an expansion do not take such operands.
  virtual std::vector<Candidate> candidates(const Node& node, std::span<const Type> inputs,
                                            SteadyOperands steady) const = 0;
  struct FastestCandidate {
    std::size_t index = 0;
    TimingMethod by = TimingMethod::host_clock;  ///< all of them alike
    double seconds = 0;
    std::vector<double> of_each = {};  ///< [candidate] seconds; 0 of one that fails
    /// The two shortest runs of each candidate that might win differ by less than a quarter: what
    /// is the least was not luck.
    bool steady = true;
  };
  /// The fastest candidate, timed on scratch memory.
  virtual FastestCandidate fastest(const Node& node, std::span<const Type> inputs,
                                   SteadyOperands steady,
                                   std::span<const Candidate> candidates) const = 0;

  /// False if no choice is worth looking up or timing, as its kernels do not run: the fixed rule
  /// decides.
  virtual bool run() const { return true; }
  /// Whose kernels run wherever they can, neither timed nor looked up; absent: nobody's.
  virtual std::optional<Maker> preferred_maker() const { return std::nullopt; }
  /// The part of the host's memory that values, and candidates that are timed, may take; absent:
  /// they lie elsewhere, or the system does not tell.
  virtual std::optional<FreeMemory> free_memory() const { return std::nullopt; }
};

}  // namespace metronome::executor
