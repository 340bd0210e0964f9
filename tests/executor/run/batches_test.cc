#include "executor/run/batches.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "graph/ir/error.h"

namespace batches_test {
using namespace metronome;

namespace {

using Indices = std::vector<std::int64_t>;

Indices sorted(Indices indices) {
  std::ranges::sort(indices);
  return indices;
}

Indices counted(std::int64_t size) {
  Indices indices(static_cast<std::size_t>(size));
  std::iota(indices.begin(), indices.end(), std::int64_t{0});
  return indices;
}

// The batch of step `replay`, as a run finds it that knows nothing but the counter.
Indices batch_at(const BatchOrder& order, std::int64_t batch, std::int64_t replay) {
  const auto [epoch, position] = order.at(replay);
  const Indices indices = order.epoch(epoch);
  const auto begin = indices.begin() + position * batch;
  return {begin, begin + order.size(position)};
}

}  // namespace

TEST_CASE("an epoch shows every example once, each epoch and seed in another order") {
  for (const std::int64_t examples : {1, 2, 3, 10, 1437}) {
    CHECK(sorted(BatchOrder(examples, 1, 5, LastBatch::fill).epoch(3)) == counted(examples));
  }
  const BatchOrder order(1437, 1, 5, LastBatch::fill);
  std::set<Indices> orders;
  for (std::int64_t epoch = 0; epoch < 10; ++epoch) orders.insert(order.epoch(epoch));
  for (std::uint64_t seed = 6; seed < 16; ++seed) {
    orders.insert(BatchOrder(1437, 1, seed, LastBatch::fill).epoch(0));
  }
  CHECK(orders.size() == 20);
  CHECK(order.epoch(4) == BatchOrder(1437, 1, 5, LastBatch::fill).epoch(4));
}

TEST_CASE("the order is the same on every machine and in every version") {
  CHECK(BatchOrder(10, 5, 1, LastBatch::drop).epoch(0) == Indices{1, 7, 8, 3, 6, 5, 0, 4, 9, 2});
  CHECK(BatchOrder(10, 5, 1, LastBatch::drop).epoch(1) == Indices{7, 8, 2, 1, 3, 6, 5, 4, 9, 0});
}

TEST_CASE("the batch size does not change the order") {
  CHECK(BatchOrder(100, 10, 1, LastBatch::drop).epoch(2) ==
        BatchOrder(100, 1, 1, LastBatch::fill).epoch(2));
}

TEST_CASE("every order of three examples is equally likely") {
  const BatchOrder order(3, 3, 7, LastBatch::drop);
  std::map<Indices, int> seen;
  for (std::int64_t epoch = 0; epoch < 60000; ++epoch) ++seen[order.epoch(epoch)];
  CHECK(seen.size() == 6);
  double chi_squared = 0;
  for (const auto& [_, count] : seen) {
    chi_squared += (count - 10000.0) * (count - 10000.0) / 10000.0;
  }
  CHECK(chi_squared < 20.5);  // five degrees of freedom: 1 in 1000 by chance
}

TEST_CASE("left over examples are dropped, others in each epoch") {
  const BatchOrder order(10, 4, 3, LastBatch::drop);
  CHECK(order.batches_per_epoch() == 2);
  CHECK(order.epoch(0).size() == 8);
  std::set<std::int64_t> seen;
  for (std::int64_t epoch = 0; epoch < 20; ++epoch) {
    const Indices indices = order.epoch(epoch);
    CHECK(std::set(indices.begin(), indices.end()).size() == 8);
    seen.insert(indices.begin(), indices.end());
  }
  CHECK(seen.size() == 10);
}

TEST_CASE("left over examples are joined by the first of the same epoch") {
  const BatchOrder order(10, 4, 3, LastBatch::fill);
  CHECK(order.batches_per_epoch() == 3);
  const Indices indices = order.epoch(5);
  CHECK(indices.size() == 12);
  CHECK(sorted({indices.begin(), indices.begin() + 10}) == counted(10));
  CHECK(indices[10] == indices[0]);
  CHECK(indices[11] == indices[1]);
}

TEST_CASE("a batch larger than all examples takes them several times") {
  const BatchOrder order(2, 5, 3, LastBatch::fill);
  const Indices indices = order.epoch(0);
  CHECK(indices == Indices{indices[0], indices[1], indices[0], indices[1], indices[0]});
}

TEST_CASE("left over examples are a short batch: an epoch shows each example once") {
  const BatchOrder order(10, 4, 3, LastBatch::keep);
  CHECK(order.batches_per_epoch() == 3);
  CHECK(order.size(0) == 4);
  CHECK(order.size(1) == 4);
  CHECK(order.size(2) == 2);
  CHECK(sorted(order.epoch(5)) == counted(10));
  CHECK(order.epoch(5) == BatchOrder(10, 1, 3, LastBatch::drop).epoch(5));
  CHECK(BatchOrder(8, 4, 3, LastBatch::keep).batches_per_epoch() == 2);
  CHECK(BatchOrder(8, 4, 3, LastBatch::keep).size(1) == 4);
  CHECK(BatchOrder(3, 4, 3, LastBatch::keep).size(0) == 3);
}

TEST_CASE("a resumed run goes on with the right batch from the replay counter alone") {
  for (const LastBatch last : {LastBatch::drop, LastBatch::fill, LastBatch::keep}) {
    const std::int64_t batch = 4;
    std::vector<Indices> straight;  // a run through three epochs, batch after batch
    const BatchOrder order(11, batch, 9, last);
    for (std::int64_t epoch = 0; epoch < 3; ++epoch) {
      const Indices indices = order.epoch(epoch);
      auto at = indices.begin();
      for (std::int64_t position = 0; position < order.batches_per_epoch(); ++position) {
        straight.emplace_back(at, at + order.size(position));
        at += order.size(position);
      }
      CHECK(at == indices.end());
    }
    CHECK(straight.size() == (last == LastBatch::drop ? 6 : 9));
    for (std::size_t replay = 0; replay < straight.size(); ++replay) {
      const BatchOrder resumed(11, batch, 9, last);
      CHECK(batch_at(resumed, batch, static_cast<std::int64_t>(replay)) == straight[replay]);
    }
  }
}

TEST_CASE("numbers that make no batch are refused") {
  CHECK_THROWS_WITH_AS(BatchOrder(0, 4, 1, LastBatch::fill), "0 examples make no batch", RunError);
  CHECK_THROWS_WITH_AS(BatchOrder(10, 0, 1, LastBatch::fill),
                       "a batch of 0 examples: at least 1 is needed", RunError);
  CHECK_THROWS_WITH_AS(BatchOrder(3, 4, 1, LastBatch::drop),
                       "3 examples make no batch of 4 where the last, short one is dropped",
                       RunError);
  CHECK_THROWS_WITH_AS(BatchOrder(3, 2, 1, LastBatch::drop).epoch(-1),
                       "epoch -1: epochs count from 0", RunError);
  CHECK_THROWS_WITH_AS(BatchOrder(3, 2, 1, LastBatch::drop).at(-1), "replay -1: steps count from 0",
                       RunError);
}

}  // namespace batches_test
