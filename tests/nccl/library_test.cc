// Collectives by NCCL over stubs of its interface and of the CUDA runtime: what is called, in which
// order, and what is left behind where a call fails.
#include "tests/doctest.h"
#include "tests/skipped.h"

#ifndef METRONOME_NO_CUDA
#include <fmt/format.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "executor/cuda/libraries/nccl.h"
#include "executor/cuda/runtime/runtime_driver.h"
#include "graph/ir/error.h"
#include "tests/cuda_runtime/stub.h"
#include "tests/distributed/on_ranks.h"
#include "tests/nccl/host_collectives.h"
#include "tests/nccl/rank.h"
#include "tests/nccl/stub.h"
#if __has_include(<nccl.h>)
#include <nccl.h>
#endif
#endif

namespace metronome::distributed::library_test {
namespace {

#ifdef METRONOME_NO_CUDA

METRONOME_SKIPPED("collectives by NCCL over stubs", METRONOME_NO_CUDA)

#else

using Own = std::shared_ptr<Communicator>;
using Kind = CollectiveProblem::Kind;
using executor::libraries::LibrariesOpener;
using executor::libraries::Nccl;
using executor::runtime::RuntimeDriver;
using nccl_stub::check_nothing_lives;
using nccl_stub::opened;
using nccl_stub::Rank;
namespace nccl = executor::libraries::nccl;

#ifdef NCCL_H_
static_assert(sizeof(nccl::UniqueId) == sizeof(ncclUniqueId));
static_assert(offsetof(nccl::Config, magic) == offsetof(ncclConfig_t, magic));
static_assert(offsetof(nccl::Config, version) == offsetof(ncclConfig_t, version));
static_assert(offsetof(nccl::Config, blocking) == offsetof(ncclConfig_t, blocking));
static_assert(nccl::kSuccess == ncclSuccess && nccl::kInProgress == ncclInProgress);
static_assert(nccl::kBytes == ncclInt8 && nccl::kInt64 == ncclInt64);
static_assert(nccl::kFloat32 == ncclFloat32 && nccl::kFloat64 == ncclFloat64);
static_assert(nccl::kSum == ncclSum && nccl::kMean == ncclAvg);
static_assert(nccl::kMax == ncclMax && nccl::kMin == ncclMin);
#endif

std::vector<std::string> nothing(int ranks) {
  return std::vector<std::string>(static_cast<std::size_t>(ranks));
}

/// All that NCCL is asked for, of 6 elements.
std::vector<CollectiveProblem> all_problems(int ranks) {
  std::vector<CollectiveProblem> all;
  for (const Element element : {f32, f64, i64}) {
    for (const ReduceOp op : {ReduceOp::sum, ReduceOp::mean, ReduceOp::max, ReduceOp::min}) {
      if (!reduces(op, element)) continue;
      for (const Kind kind : {Kind::all_reduce, Kind::reduce, Kind::reduce_scatter}) {
        const int root = kind == Kind::reduce ? ranks - 1 : 0;
        all.push_back({.kind = kind, .op = op, .element = element, .count = 6, .root = root});
      }
    }
  }
  for (const Element element : {f32, i32, bool_}) {
    for (const Kind kind : {Kind::broadcast, Kind::all_gather, Kind::all_to_all}) {
      const int root = kind == Kind::broadcast ? 1 : 0;
      all.push_back({.kind = kind, .element = element, .count = 6, .root = root});
    }
  }
  return all;
}

TEST_CASE("each collective asks NCCL for what ranks on CPUs do") {
  stub::reset();
  for (const int ranks : {2, 3}) {
    CHECK(on_ranks(ranks, [&](const Own& own) {
            nccl_stub::begin();
            Rank rank(own);
            for (const CollectiveProblem& problem : all_problems(ranks)) {
              CAPTURE(to_string(problem));
              const CollectiveCommand command = rank.command(problem);
              rank.run(command);
              std::vector<std::byte> expected(command.to_bytes());
              CollectiveCommand on_host = command;
              on_host.to = expected.data();
              HostCollectiveLibrary().run(on_host);
              if (problem.kind == Kind::reduce && own->rank() != problem.root) continue;
              CHECK(std::memcmp(command.to, expected.data(), expected.size()) == 0);
            }
          }) == nothing(ranks));
  }
  check_nothing_lives();
}

TEST_CASE("captured calls and others have communicators of their own") {
  stub::reset();
  CHECK(on_ranks(2, [&](const Own& own) {
          nccl_stub::begin();
          Rank rank(own);
          rank.run(rank.command({.op = ReduceOp::max, .count = 6}));
          rank.run(rank.command({.kind = Kind::all_to_all, .element = f64, .count = 6}));
          std::vector<std::string> calls = nccl_stub::calls();
          if (own->rank() == 0) {
            CHECK(calls[0] == "ncclGetUniqueId");
            CHECK(calls[1] == "ncclGetUniqueId");
            calls.erase(calls.begin(), calls.begin() + 2);
          }
          std::vector<std::string> expected = {
              "ncclCommInitRankConfig of 2", "ncclCommInitRankConfig of 2",
              "ncclAllReduce 6 float32 max on 0", "ncclAllReduce 6 float32 max on 1"};
          for (const int communicator : {0, 1}) {
            expected.emplace_back("ncclGroupStart");
            for (const int peer : {0, 1}) {
              expected.push_back(fmt::format("ncclSend 24 int8 to {} on {}", peer, communicator));
              expected.push_back(fmt::format("ncclRecv 24 int8 from {} on {}", peer, communicator));
            }
            expected.emplace_back("ncclGroupEnd");
          }
          CHECK(calls == expected);
        }) == nothing(2));
  check_nothing_lives();
}

TEST_CASE("a collective is a child graph, and never in a conditional node") {
  stub::reset();
  CHECK(on_ranks(2, [&](const Own& own) {
          nccl_stub::begin();
          Rank rank(own);
          const CollectiveCommand command = rank.command({.count = 6});
          rank.driver().prepare(command);
          own->exchange("");  // the last graph is the process's
          if (own->rank() == 1) return;
          rank.driver().begin_capture(rank.stream());
          rank.driver().enqueue(command, rank.stream());
          rank.driver().end_capture(rank.stream(), 1);
          CHECK(stub::last_graph() == "0 child\n  0 kernel\n");
          rank.driver().begin_capture(rank.stream());
          const bool* const guard = static_cast<const bool*>(command.to);
          rank.driver().begin_cases(std::span(&guard, 1), false, rank.stream());
          try {
            rank.driver().enqueue(command, rank.stream());
            FAIL("it is refused");
          } catch (const InternalError& error) {
            CHECK(std::string(error.what()).ends_with(": a collective in a conditional region"));
          }
          rank.driver().abandon_capture(rank.stream());
        }) == nothing(2));
  check_nothing_lives();
}

TEST_CASE("ranks that cannot meet are told why, all of them with the same words") {
  const auto said = [](const std::function<int(int)>& device, LibrariesOpener open,
                       const std::function<nccl_stub::Plan(int)>& plan) {
    stub::reset();
    const auto limit = std::chrono::milliseconds(1500);
    const auto all = on_ranks(
        2,
        [&](const Own& own) {
          nccl_stub::begin(plan(own->rank()));
          RuntimeDriver driver(device(own->rank()), open);
          std::byte* const x = driver.device_memory(64);
          driver.prepare(
              CollectiveCommand{.problem = {.count = 6}, .ranks = own, .from = x, .to = x});
        },
        limit);
    check_nothing_lives();
    CHECK(all[0] == all[1]);
    return all[0];
  };
  const auto own_device = [](int rank) { return rank; };
  const auto no_plan = [](int) { return nccl_stub::Plan{}; };
  CHECK(
      said([](int) { return 3; }, opened, no_plan) ==
      "ranks 0 and 1 of 2 both use CUDA device 3 (a stub), and NCCL needs one for each rank: name "
      "no CudaOptions::device, so that each takes that of its LOCAL_RANK, on a machine with as "
      "many devices as ranks");
  const auto without = [] {
    auto all = stub::products();
    all.push_back(std::make_unique<Nccl>([]() -> nccl::Functions {
      throw RunError("libnccl.so.2 cannot be loaded: it is not here");
    }));
    return all;
  };
  CHECK(said(own_device, without, no_plan) ==
        "rank 0 of 2: libnccl.so.2 cannot be loaded: it is not here; rank 1 of 2: libnccl.so.2 "
        "cannot be loaded: it is not here");
  CHECK(
      said(own_device, opened,
           [](int rank) { return nccl_stub::Plan{.failing = rank == 0 ? 1 : -1}; }) ==
      "rank 0 of 2: NCCL cannot make an id for ranks to meet by: unhandled system error (run with "
      "NCCL_DEBUG=INFO for details)");
}

TEST_CASE("a rank whose communicator fails, or does not come") {
  const auto said = [](nccl_stub::Plan second) {
    stub::reset();
    const auto all = on_ranks(
        2,
        [&](const Own& own) {
          nccl_stub::begin(own->rank() == 1 ? second : nccl_stub::Plan{});
          Rank rank(own);
          rank.run(rank.command({.count = 6}));
        },
        std::chrono::milliseconds(1500));
    check_nothing_lives();
    return all;
  };
  const std::string late = "NCCL cannot make a communicator: not all ranks came within 0.75 s";
  const std::string planted =
      "unhandled system error (run with NCCL_DEBUG=INFO for details): planted";
  CHECK(said({.failing = 0}) ==
        std::vector<std::string>(
            2, fmt::format("rank 0 of 2: {}; rank 1 of 2: NCCL cannot make a communicator: {}",
                           late, planted)));
  // If one gives up, the other finds it gone, or gives up itself.
  for (const std::string& told : said({.asked_fails = true})) {
    CHECK_MESSAGE(told.find(planted) != std::string::npos, told);
  }
  for (const std::string& told : said({.stays_away = true})) {
    CHECK_MESSAGE(told.find(late) != std::string::npos, told);
  }
}

/// Returns the collectives that the next test asks NCCL for, in order.
std::vector<CollectiveProblem> one_of_each() {
  return {{.kind = Kind::all_reduce, .count = 6},     {.kind = Kind::reduce, .count = 6},
          {.kind = Kind::broadcast, .count = 6},      {.kind = Kind::all_gather, .count = 6},
          {.kind = Kind::reduce_scatter, .count = 6}, {.kind = Kind::all_to_all, .count = 6}};
}

TEST_CASE("whichever collective fails on one rank, both end and nothing is left behind") {
  const auto run = [](int failing, std::vector<std::string>& calls) {
    stub::reset();
    return on_ranks(2, [&](const Own& own) {
      nccl_stub::begin({.failing = own->rank() == 1 ? failing : -1});
      Rank rank(own);
      for (const CollectiveProblem& problem : one_of_each()) rank.run(rank.command(problem));
      if (own->rank() == 1) calls = nccl_stub::calls();
    });
  };
  std::vector<std::string> calls, ignored;
  CHECK(run(-1, calls) == nothing(2));
  CHECK(calls.size() == 2 + 2 * 5 + 2 * 6);
  const std::map<std::string, std::string> doing = {
      {"ncclAllReduce", "all_reduce sum of f32 [6]"},
      {"ncclReduce", "reduce sum of f32 [6] to rank 0"},
      {"ncclBroadcast", "broadcast of f32 [6] from rank 0"},
      {"ncclAllGather", "all_gather of f32 [6]"},
      {"ncclReduceScatter", "reduce_scatter sum of f32 [6]"},
      {"ncclGroupStart", "all_to_all of f32 [6]"},
      {"ncclSend", "all_to_all of f32 [6]"},
      {"ncclRecv", "all_to_all of f32 [6]"},
      {"ncclGroupEnd", "all_to_all of f32 [6]"}};
  for (std::size_t i = 2; i < calls.size(); ++i) {  // the first two make communicators
    CAPTURE(calls[i]);
    const auto said = run(static_cast<int>(i), ignored);
    CHECK(said[1] == fmt::format("rank 1 of 2: NCCL cannot enqueue {}: unhandled system error (run "
                                 "with NCCL_DEBUG=INFO for details): planted",
                                 doing.at(calls[i].substr(0, calls[i].find(' ')))));
    // It finds the other one gone in the same call, or in the next one.
    const std::string left = said[0];
    const bool told = left.starts_with("rank 0 of 2: NCCL cannot enqueue ") ||
                      left.starts_with("rank 0 of 2: NCCL failed: ") ||
                      left == "rank 1 of 2 is gone";
    CHECK_MESSAGE(told, left);
    check_nothing_lives();
  }
}

#endif

}  // namespace
}  // namespace metronome::distributed::library_test
