// The list of the ops that ranks take part in.
#pragma once

#include <memory>

#include "distributed/collectives/communicator.h"
#include "graph/ir/op.h"
#include "ops/rules/own_rules.h"

namespace metronome::distributed {

/// For back ends.
OwnOps collective_ops();

/// Whether it is one of them.
bool is_collective(const Op& op);

/// The op as these ranks run it; null for one that is no collective. Throws Requirement for a rank
/// that is not among them.
OpPtr for_ranks(const Op& op, const std::shared_ptr<Communicator>& ranks);

/// Whether it is a collective that gives all ranks the same results.
bool gives_all_the_same(const Op& op);

}  // namespace metronome::distributed
