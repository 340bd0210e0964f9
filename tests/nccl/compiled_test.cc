// Steps of ranks that call NCCL, compiled over stubs of its interface and of the CUDA runtime.
#include "tests/aten.h"
#include "tests/doctest.h"
#include "tests/skipped.h"

#ifndef METRONOME_NO_CUDA
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "distributed/join/ranks.h"
#include "executor/cuda/runtime/runtime_driver.h"
#include "executor/metronome.h"
#include "tests/cuda_runtime/stub.h"
#include "tests/distributed/on_ranks.h"
#include "tests/nccl/rank.h"
#include "tests/nccl/stub.h"
#endif

namespace metronome::distributed::compiled_test {
namespace {

#ifdef METRONOME_NO_CUDA

METRONOME_SKIPPED("steps of ranks over a stub of NCCL", METRONOME_NO_CUDA)

#else

using Own = std::shared_ptr<Communicator>;
using Calls = std::vector<std::string>;
using executor::runtime::RuntimeDriver;
using nccl_stub::check_nothing_lives;
using nccl_stub::opened;

std::vector<std::string> nothing(int ranks) {
  return std::vector<std::string>(static_cast<std::size_t>(ranks));
}

/// A step with gradients of 42 numbers.
Graph steps() {
  Graph g("steps");
  const Value y = g.input("x", f32, {4, 6}).through(linear(6)).through(gelu);
  g.minimize(mean(square(y)), Adam{.lr = 1e-2});
  return g;
}

Executable compiled(const Graph& g, const Own& own, std::shared_ptr<CudaDriver> driver) {
  Target target = cuda_graph({.streams = 2});
  target.driver = std::move(driver);
  return compile(g, target, {.threads = 1, .tune = Tune::off, .data_parallel = ranks_over(own)});
}

TEST_CASE("ranks make the same calls in the same order, and destroy graphs before communicators") {
  // No group of kernels is compiled at run time: that needs a compiler, not a device.
  setenv("METRONOME_WITHOUT", "fuse", 1);
  stub::reset();
  std::vector<Calls> calls(2), ends(2);
  CHECK(on_ranks(2, [&](const Own& own) {
          nccl_stub::begin();
          const auto r = static_cast<std::size_t>(own->rank());
          auto driver = std::make_shared<RuntimeDriver>(own->rank(), opened);
          {
            const Graph g = steps();
            Executable step = compiled(g, own, driver);
            for (int i = 0; i < 3; ++i) step.run({{"x", at::ones({4, 6})}});
            calls[r] = nccl_stub::calls();
          }
          for (int turn = 0; turn < 2; ++turn) {
            own->exchange("");
            if (turn != own->rank()) continue;
            const std::size_t before = stub::calls().size();
            driver.reset();
            ends[r].assign(stub::calls().begin() + static_cast<std::ptrdiff_t>(before),
                           stub::calls().end());
          }
          own->exchange("");
        }) == nothing(2));
  std::erase(calls[0], "ncclGetUniqueId");
  CHECK(calls[0] == calls[1]);
  const auto said = [&](const std::string& what) {
    return std::ranges::count_if(calls[1], [&](const std::string& call) {
      return call.starts_with("ncclAllReduce") && call.ends_with(what);
    });
  };
  // One for the gradients and the loss: prepared and in each form; run one by one and uncaptured.
  CHECK(said(" on 0") >= 3);
  CHECK(said(" on 1") >= 3);
  for (const Calls& end : ends) {
    const auto destroyed = std::ranges::find(end, "ncclCommDestroy");
    CHECK(std::ranges::count(end, "ncclCommDestroy") == 2);
    CHECK(std::find(end.begin(), destroyed, "cudaGraphExecDestroy") != destroyed);
    CHECK(std::find(destroyed, end.end(), "cudaGraphExecDestroy") == end.end());
    CHECK(std::find(destroyed, end.end(), "cudaGraphDestroy") == end.end());
  }
  check_nothing_lives();
}

TEST_CASE("whichever call of NCCL fails in a compile, nothing is left behind") {
  setenv("METRONOME_WITHOUT", "fuse", 1);
  int count = 0;
  const auto run = [&](int failing) {
    stub::reset();
    return on_ranks(
        2,
        [&](const Own& own) {
          nccl_stub::begin({.failing = own->rank() == 1 ? failing : -1});
          const auto driver = std::make_shared<RuntimeDriver>(own->rank(), opened);
          const Graph g = steps();
          compiled(g, own, driver).run({{"x", at::ones({4, 6})}});
          if (own->rank() == 1 && failing < 0) count = static_cast<int>(nccl_stub::calls().size());
        },
        std::chrono::seconds(5));
  };
  CHECK(run(-1) == nothing(2));
  check_nothing_lives();
  int told = 0;
  for (int i = 2; i < count; ++i) {
    CAPTURE(i);
    // A form whose capture fails is left out on both; another failure ends both.
    const auto said = run(i);
    CHECK(said[0].empty() == said[1].empty());
    told += !said[1].empty();
    check_nothing_lives();
  }
  CHECK(told > 2);
}

#endif

}  // namespace
}  // namespace metronome::distributed::compiled_test
