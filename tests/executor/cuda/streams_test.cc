// Streams and events: pictures, and random work against a checker that knows only their meaning.
#include "executor/cuda/program/streams.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>

namespace metronome::streams_test {
namespace {

using After = std::vector<std::vector<std::int32_t>>;
using Waits = std::vector<std::vector<std::int32_t>>;
constexpr std::int32_t kStart = executor::program::StreamPlan::kStart;

TEST_CASE("one stream needs no events") {
  const executor::program::StreamPlan plan =
      executor::program::assign_streams(After{{}, {0}, {0}, {}, {1, 2, 3}}, 1);
  CHECK(plan.streams == 1);
  CHECK(plan.stream == std::vector<int>{0, 0, 0, 0, 0});
  CHECK(plan.waits == Waits(5));
  CHECK(plan.joins.empty());
  CHECK(plan.recorded == std::vector<bool>(5));
  CHECK(!plan.start_recorded);
}

TEST_CASE("a chain keeps its stream, however many there are") {
  const executor::program::StreamPlan plan =
      executor::program::assign_streams(After{{}, {0}, {1}, {2}}, 4);
  CHECK(plan.streams == 1);
  CHECK(plan.stream == std::vector<int>{0, 0, 0, 0});
}

TEST_CASE("a fork waits for an event, and so does the join") {
  //   0 -- 1 -- 3 -- 5
  //    \-- 2 -- 4 --/
  const executor::program::StreamPlan plan =
      executor::program::assign_streams(After{{}, {0}, {0}, {1}, {2}, {3, 4}}, 4);
  CHECK(plan.streams == 2);
  CHECK(plan.stream == std::vector<int>{0, 0, 1, 0, 1, 0});
  CHECK(plan.waits == Waits{{}, {}, {0}, {}, {}, {4}});
  CHECK(plan.recorded == std::vector<bool>{true, false, false, false, true, false});
  CHECK(plan.joins.empty());
}

TEST_CASE("work that comes after nothing waits for the start, and the end waits for it") {
  const executor::program::StreamPlan plan =
      executor::program::assign_streams(After{{}, {}, {}}, 2);
  CHECK(plan.stream == std::vector<int>{0, 1, 0});
  CHECK(plan.waits == Waits{{}, {kStart}, {}});
  CHECK(plan.start_recorded);
  CHECK(plan.joins == std::vector<std::int32_t>{1});
}

TEST_CASE("an event implies what its stream ran and waited for before") {
  //   stream 0:  0 -- 1 -- 4 -- 5 -- 6        6 comes after 2, 3 and 5
  //   stream 1:    \- 2 -- 3 --------/
  const executor::program::StreamPlan plan =
      executor::program::assign_streams(After{{}, {0}, {0}, {2}, {1}, {4}, {2, 3, 5}}, 2);
  CHECK(plan.stream == std::vector<int>{0, 0, 1, 1, 0, 0, 0});
  CHECK(plan.waits == Waits{{}, {}, {0}, {}, {}, {}, {3}});
}

TEST_CASE("no work") {
  const executor::program::StreamPlan plan = executor::program::assign_streams(After{}, 3);
  CHECK(plan.streams == 1);
  CHECK(plan.stream.empty());
  CHECK(plan.joins.empty());
}

/// The items that have run when something begins, found by following streams and waits.
class Order {
 public:
  explicit Order(const executor::program::StreamPlan& plan)
      : n_(static_cast<std::int32_t>(plan.stream.size())), known_(n_ + 2) {
    std::vector<std::int32_t> last(64, kStart);  // [stream]
    last[0] = n_;                                // stands for the start
    for (std::int32_t i = 0; i <= n_; ++i) {     // n_ stands for the end here
      std::vector<bool>& known = known_[i];
      known.resize(n_ + 1);
      const int stream = i < n_ ? plan.stream[i] : 0;
      const auto learn = [&](std::int32_t item) {
        known[item] = true;
        if (item == n_) return;
        for (std::int32_t k = 0; k <= n_; ++k) known[k] = known[k] || known_[item][k];
      };
      if (last[stream] != kStart) learn(last[stream]);
      for (const std::int32_t item : i < n_ ? plan.waits[i] : plan.joins) {
        learn(item == kStart ? n_ : item);
      }
      last[stream] = i;
    }
  }
  bool before(std::int32_t item, std::int32_t i) const { return known_[i][item]; }

  /// Every item comes after the start and what it must come after, and the end after every item.
  bool satisfies(const After& after) const {
    for (std::int32_t i = 0; i < n_; ++i) {
      if (!before(n_, i) || !before(i, n_)) return false;
      for (const std::int32_t item : after[i]) {
        if (!before(item, i)) return false;
      }
    }
    return true;
  }

 private:
  std::int32_t n_;
  std::vector<std::vector<bool>> known_;  // [item, then the end][item, then the start]
};

TEST_CASE("random work: every order is kept, and by no event that could be left out") {
  std::mt19937 random(11);
  const auto below = [&](int end) { return static_cast<int>(random() % end); };
  for (int round = 0; round < 400; ++round) {
    After after(below(40));
    const int reach = 1 + below(8);
    for (int i = 0; i < static_cast<int>(after.size()); ++i) {
      for (int k = below(4); k > 0 && i > 0; --k)
        after[i].push_back(std::max(0, i - 1 - below(reach)));
      std::sort(after[i].begin(), after[i].end());
      after[i].erase(std::unique(after[i].begin(), after[i].end()), after[i].end());
    }
    const int streams = 1 + below(6);
    const executor::program::StreamPlan plan = executor::program::assign_streams(after, streams);
    REQUIRE(plan == executor::program::assign_streams(after, streams));
    REQUIRE(plan.streams <= streams);
    REQUIRE(Order(plan).satisfies(after));

    std::vector<bool> recorded(after.size());
    bool start_recorded = false;
    const auto check_waits = [&](const auto& waits_of) {
      executor::program::StreamPlan less = plan;
      std::vector<std::int32_t>& waits = waits_of(less);
      REQUIRE(std::is_sorted(waits.begin(), waits.end()));
      for (std::size_t k = 0; k < waits.size(); ++k) {
        const std::int32_t removed = waits[k];
        if (removed == kStart) start_recorded = true;
        if (removed != kStart) recorded[removed] = true;
        waits.erase(waits.begin() + k);
        REQUIRE(!Order(less).satisfies(after));
        waits.insert(waits.begin() + k, removed);
      }
    };
    for (std::size_t i = 0; i < after.size(); ++i) {
      REQUIRE(plan.stream[i] < plan.streams);
      check_waits([&](executor::program::StreamPlan& p) -> auto& { return p.waits[i]; });
    }
    check_waits([](executor::program::StreamPlan& p) -> auto& { return p.joins; });
    REQUIRE(recorded == plan.recorded);
    REQUIRE(start_recorded == plan.start_recorded);
  }
}

}  // namespace
}  // namespace metronome::streams_test
