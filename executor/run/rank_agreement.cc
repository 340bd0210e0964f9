#include "executor/run/rank_agreement.h"

#include <fmt/format.h>

#include <vector>

#include "graph/ir/error.h"

namespace metronome::executor {

void require_same_call(const Ranks& ranks, const std::string& prefix, const std::string& call) {
  const std::vector<std::string> said = ranks.exchange(call);
  for (std::size_t rank = 1; rank < said.size(); ++rank) {
    if (said[rank] == said[0]) continue;
    throw RunError(
        fmt::format("{}: ranks make different calls, and none is made:\n"
                    "  rank 0     {}\n  rank {:<5} {}",
                    prefix, said[0], rank, said[rank]));
  }
}

}  // namespace metronome::executor
