// Collectives of ranks that are threads, each with a device made of the host.
#pragma once

#include <cstring>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "distributed/collectives/all_reduce.h"
#include "distributed/collectives/communicator.h"
#include "ops/cuda/collective_call.h"
#include "tests/cuda/host_driver.h"
#include "tests/cuda/host_library.h"

namespace metronome {

/// The ranks' communicator on a CPU: it gives the same bits, but for sums from the last rank to the
/// first.
class HostCollectiveLibrary final : public HostLibrary {
 public:
  bool makes(const LibraryCommand& call) const override {
    return call.as<CollectiveCommand>() != nullptr;
  }
  std::vector<Candidate> candidates(const LibraryCommand& call) const override {
    return {{.maker = call.maker()}};
  }
  void check(const LibraryCommand&) const override {}
  int nodes(const LibraryCommand&) const override { return 1; }

  /// Called with each before it is run.
  std::function<void(const CollectiveCommand& command)> on_run;
  /// Tells whether sums go from the last rank to the first, each plus `error`.
  std::function<bool()> adds_backwards = [] { return false; };
  double error = 0;

  void run(const LibraryCommand& call) const override {
    using Kind = CollectiveProblem::Kind;
    const CollectiveCommand& command = *call.as<CollectiveCommand>();
    if (on_run) on_run(command);
    const CollectiveProblem& problem = command.problem;
    auto& ranks = dynamic_cast<distributed::Communicator&>(*command.ranks);
    const std::span from(static_cast<const std::byte*>(command.from), command.from_bytes());
    const std::span to(static_cast<std::byte*>(command.to), command.to_bytes());
    const bool adds = problem.op == ReduceOp::sum || problem.op == ReduceOp::mean;
    if (reduces(problem.kind) && adds && problem.element == f32 && adds_backwards()) {
      return add_backwards(ranks, problem, from, to);
    }
    switch (problem.kind) {
      case Kind::all_reduce:
      case Kind::reduce: {
        if (to.data() != from.data()) std::memcpy(to.data(), from.data(), from.size());
        std::vector<std::byte> scratch(
            distributed::all_reduce_scratch(problem.element, problem.count, ranks.size()));
        distributed::all_reduce(ranks, problem.op, problem.element, to, scratch);
        const bool undefined = problem.kind == Kind::reduce && ranks.rank() != problem.root;
        if (undefined) std::memset(to.data(), 0xFF, to.size());
        return;
      }
      case Kind::broadcast:
        if (to.data() != from.data()) std::memcpy(to.data(), from.data(), from.size());
        return ranks.broadcast(to, problem.root);
      case Kind::all_gather:
        return ranks.all_gather(from, to);
      case Kind::reduce_scatter: {
        std::vector<std::byte> scratch(distributed::reduce_scatter_scratch(from.size()));
        return distributed::reduce_scatter(ranks, problem.op, problem.element, from, to, scratch);
      }
      case Kind::all_to_all:
        return ranks.all_to_all(from, to);
    }
  }

 private:
  void add_backwards(distributed::Communicator& ranks, const CollectiveProblem& problem,
                     std::span<const std::byte> from, std::span<std::byte> to) const {
    std::vector<std::byte> all(from.size() * static_cast<std::size_t>(ranks.size()));
    ranks.all_gather(from, all);
    const bool scatters = problem.kind == CollectiveProblem::Kind::reduce_scatter;
    const std::size_t begin = scatters ? to.size() * static_cast<std::size_t>(ranks.rank()) : 0;
    for (std::size_t i = 0; i < to.size(); i += sizeof(float)) {
      float sum = static_cast<float>(error);
      for (int r = ranks.size() - 1; r >= 0; --r) {
        float x = 0;
        std::memcpy(&x, all.data() + static_cast<std::size_t>(r) * from.size() + begin + i,
                    sizeof x);
        sum += x;
      }
      if (problem.op == ReduceOp::mean) sum /= static_cast<float>(ranks.size());
      std::memcpy(to.data() + i, &sum, sizeof sum);
    }
  }
};

inline std::shared_ptr<HostDriver> host_device_of_rank(HostSettings settings = {}) {
  auto driver = std::make_shared<HostDriver>(std::move(settings));
  driver->add(std::make_shared<HostCollectiveLibrary>());
  return driver;
}

}  // namespace metronome
