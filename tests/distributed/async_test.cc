// Calls that go on beside their rank.
#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "distributed/collectives/all_reduce.h"
#include "distributed/collectives/async.h"
#include "distributed/join/buckets.h"
#include "graph/ir/error.h"
#include "tests/distributed/on_ranks.h"
#include "tests/doctest.h"

namespace metronome::distributed::async_test {
namespace {

using namespace std::chrono_literals;
using Own = std::shared_ptr<Communicator>;

const std::vector<std::string> kNothing2 = {"", ""};

/// Starts the sum of `value` over the ranks, into it.
void start_sum(Communicator& ranks, double& value) {
  ranks.start([&value](Communicator& inner) {
    std::vector<std::byte> scratch(all_reduce_scratch(f64, 1, inner.size()));
    all_reduce(inner, ReduceOp::sum, f64, std::as_writable_bytes(std::span(&value, 1)), scratch);
  });
}

TEST_CASE("started calls are made in their order, and others once they are through") {
  for (const bool threaded : {false, true}) {
    for (const Over over : {Over::memory, Over::sockets}) {
      CAPTURE(threaded);
      CHECK(on_ranks(over, 2, [&](const Own& own) {
              AsyncCommunicator ranks(own, threaded);
              CHECK(ranks.overlaps() == threaded);
              for (int step = 0; step < 20; ++step) {
                ranks.begin_step(step);
                double a = ranks.rank(), b = 10 + ranks.rank(), c = 100;
                start_sum(ranks, a);
                start_sum(ranks, b);
                ranks.finish();
                CHECK(a == 1);
                start_sum(ranks, c);
                char all[2] = {};
                const char mine = ranks.rank() == 0 ? 'x' : 'y';
                ranks.all_gather(std::as_bytes(std::span(&mine, 1)),
                                 std::as_writable_bytes(std::span(all)));
                CHECK(std::string(all, 2) == "xy");
                CHECK(b == 21);
                CHECK(c == 200);
                ranks.finish();
                ranks.finish();
              }
              CHECK(ranks.exchange("said") == std::vector<std::string>{"said", "said"});
              CHECK(ranks.pace().steps == 20);
              CHECK(ranks.pace().blocked_seconds > 0);
              CHECK(ranks.pace().blocked_seconds <= ranks.pace().seconds);
            }) == kNothing2);
    }
  }
}

TEST_CASE("a rank computes while a call waits for others") {
  std::atomic<bool> computed = false;
  CHECK(on_ranks(2, [&](const Own& own) {
          AsyncCommunicator ranks(own, true);
          double value = 1;
          // Rank 1 comes once rank 0 has gone on.
          while (ranks.rank() == 1 && !computed) std::this_thread::sleep_for(1ms);
          start_sum(ranks, value);
          computed = true;
          ranks.finish();
          CHECK(value == 2);
        }) == kNothing2);
}

TEST_CASE(
    "what a started call throws comes out where it is finished, and no call is made after it") {
  CHECK(on_ranks(1, [](const Own& own) {
          AsyncCommunicator ranks(own, true);
          bool made = false;
          ranks.start([](Communicator&) { throw RunError("rank 1 of 2 died"); });
          ranks.start([&](Communicator&) { made = true; });
          CHECK_THROWS_WITH_AS(ranks.finish(), "rank 1 of 2 died", RunError);
          CHECK_THROWS_WITH_AS(ranks.finish(), "rank 1 of 2 died", RunError);
          CHECK_FALSE(made);
        }) == std::vector<std::string>{""});
}

TEST_CASE("a step that is broken off leaves nothing to finish, and its calls are through") {
  CHECK(on_ranks(2, [](const Own& own) {
          AsyncCommunicator ranks(own, true);
          double left = 1, next = 5;
          start_sum(ranks, left);
          ranks.begin_step(1);
          CHECK(left == 2);
          start_sum(ranks, next);
          ranks.finish();
          CHECK(next == 10);
        }) == kNothing2);
}

TEST_CASE("a started call is through before its communicator is gone") {
  CHECK(on_ranks(2, [](const Own& own) {
          double value = 1;
          {
            AsyncCommunicator ranks(own, true);
            start_sum(ranks, value);
          }
          CHECK(value == 2);
        }) == kNothing2);
}

TEST_CASE("buckets are as large on all ranks, and divide where rank 0 overlaps alone") {
  for (const int overlapping : {0, 1}) {
    std::vector<std::size_t> bytes(2);
    CHECK(on_ranks(2, [&](const Own& own) {
            AsyncCommunicator ranks(own, own->rank() == overlapping);
            bytes[static_cast<std::size_t>(own->rank())] = best_bucket_bytes(ranks, 256 << 20);
            CHECK(best_bucket_bytes(ranks, 1000) == 1000);
          }) == kNothing2);
    CHECK(bytes[0] == bytes[1]);
    CHECK((bytes[0] < 256 << 20) == (overlapping == 0));
  }
}

}  // namespace
}  // namespace metronome::distributed::async_test
