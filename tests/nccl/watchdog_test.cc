// Steps whose ranks wait in vain, over stubs of NCCL and of the CUDA runtime.
#include "tests/doctest.h"
#include "tests/skipped.h"

#ifndef METRONOME_NO_CUDA
#include <algorithm>
#include <chrono>
#include <latch>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "graph/ir/error.h"
#include "ops/rules/collective_ranks.h"
#include "tests/cuda_runtime/stub.h"
#include "tests/distributed/on_ranks.h"
#include "tests/nccl/rank.h"
#include "tests/nccl/stub.h"
#endif

namespace metronome::distributed::watchdog_test {
namespace {

#ifdef METRONOME_NO_CUDA

METRONOME_SKIPPED("the watchdog of ranks over a stub of NCCL", METRONOME_NO_CUDA)

#else

using Own = std::shared_ptr<Communicator>;
using nccl_stub::check_nothing_lives;
using nccl_stub::Rank;

/// A device that says where it stands.
class Device final : public CollectiveProgress {
 public:
  explicit Device(Own own) : own_(std::move(own)) { own_->follow(*this); }
  ~Device() override { own_->forget(*this); }

  std::optional<CollectivePlace> waits() const override {
    const std::scoped_lock lock(mutex_);
    return place_;
  }
  void stand(std::optional<CollectivePlace> place) {
    const std::scoped_lock lock(mutex_);
    place_ = std::move(place);
  }

 private:
  Own own_;
  mutable std::mutex mutex_;
  std::optional<CollectivePlace> place_;
};

/// Returns what the driver throws at last, within a time that is far longer than it takes.
std::string thrown_by(Rank& rank) {
  for (int i = 0; i < 1000; ++i) {
    try {
      rank.driver().check_libraries();
    } catch (const RunError& error) {
      return error.what();
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return "nothing";
}

int count_of(const std::string& call) {
  return static_cast<int>(std::ranges::count(stub::calls(), call));
}

TEST_CASE("a device that waits for too long is told of with its step and collective") {
  stub::reset();
  std::latch told(1);
  const auto said = on_ranks(
      2,
      [&](const Own& own) {
        nccl_stub::begin();
        Device device(own);
        Rank rank(own);
        const CollectiveCommand command = rank.command({.count = 6});
        rank.driver().prepare(command);
        own->exchange("");
        if (own->rank() == 1) return told.wait();
        // A device that goes on is not slow: each place is another collective.
        for (int number = 0; number < 12; ++number) {
          device.stand(CollectivePlace{40, number, "all_reduce"});
          std::this_thread::sleep_for(std::chrono::milliseconds(200));
          rank.driver().check_libraries();
        }
        device.stand(CollectivePlace{41, 1, "all_reduce {mean, ranks=2} \"g\""});
        const std::string why =
            "other ranks did not come within 2 s, while rank 0 of 2 was in step 41, collective 2 "
            "(all_reduce {mean, ranks=2} \"g\")";
        CHECK(thrown_by(rank) == why);
        // Later calls say the same.
        CHECK_THROWS_WITH_AS(rank.driver().enqueue(command, rank.stream()), why.c_str(), RunError);
        CHECK_THROWS_WITH_AS(rank.driver().synchronize(rank.stream()), why.c_str(), RunError);
        told.count_down();
      },
      std::chrono::seconds(2));
  CHECK(said == std::vector<std::string>(2));
  CHECK(count_of("ncclCommAbort") >= 2);
  check_nothing_lives();
}

TEST_CASE("a rank that is gone ends another that waits for it") {
  stub::reset();
  const auto said = on_ranks(2, [&](const Own& own) {
    nccl_stub::begin();
    Device device(own);
    Rank rank(own);
    rank.driver().prepare(rank.command({.count = 6}));
    own->exchange("");
    if (own->rank() == 1) return;
    // A rank that leaves is no fault while the device waits for nobody.
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
    rank.driver().check_libraries();
    device.stand(CollectivePlace{7, 0, "broadcast {root=1, ranks=2} \"b\""});
    CHECK(thrown_by(rank) ==
          "rank 1 of 2 is gone, while rank 0 of 2 was in step 7, collective 1 (broadcast {root=1, "
          "ranks=2} \"b\")");
  });
  CHECK(said == std::vector<std::string>(2));
  check_nothing_lives();
}

TEST_CASE("an error of NCCL's own is found between steps") {
  stub::reset();
  const auto said = on_ranks(2, [&](const Own& own) {
    nccl_stub::begin();
    Rank rank(own);
    rank.driver().prepare(rank.command({.count = 6}));
    own->exchange("");
    if (own->rank() == 0) {
      nccl_stub::begin({.asked_fails = true});
      CHECK(thrown_by(rank) ==
            "rank 0 of 2: NCCL failed: unhandled system error (run with NCCL_DEBUG=INFO for "
            "details): planted");
    }
    own->exchange("");
  });
  CHECK(said == std::vector<std::string>(2));
  CHECK(count_of("ncclCommAbort") >= 1);
  check_nothing_lives();
}

#endif

}  // namespace
}  // namespace metronome::distributed::watchdog_test
