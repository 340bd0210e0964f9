// The kernels of one target, as the choice among them sees them.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

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
  /// What could run a node, the fixed rule's choice first.
  virtual std::vector<Candidate> candidates(const Node& node,
                                            std::span<const Type> inputs) const = 0;
  struct Fastest {
    std::size_t index = 0;
    TimedBy by = TimedBy::host_clock;  ///< all of them alike
  };
  /// The fastest candidate, timed on scratch memory.
  virtual Fastest fastest(const Node& node, std::span<const Type> inputs,
                          std::span<const Candidate> candidates) const = 0;
};

}  // namespace metronome::executor
