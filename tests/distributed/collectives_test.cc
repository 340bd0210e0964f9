// Ranks that are threads, and what they make of each other's numbers.
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "distributed/collectives/all_reduce.h"
#include "graph/ir/error.h"
#include "tests/distributed/on_ranks.h"
#include "tests/doctest.h"

namespace metronome::distributed::collectives_test {
namespace {

using namespace std::chrono_literals;
using Own = std::shared_ptr<Communicator>;

template <class T>
std::span<std::byte> bytes_of(std::vector<T>& numbers) {
  return std::as_writable_bytes(std::span(numbers));
}

const std::vector<std::string> kNothing2 = {"", ""};

TEST_CASE("parts go to all, from all, and from one") {
  for (const Over over : {Over::memory, Over::sockets}) {
    CAPTURE(static_cast<int>(over));
    std::string to_all[2], from_all[2], from_one[2];
    std::vector<std::string> texts[2];
    const auto said = on_ranks(over, 2, [&](const Own& own) {
      const int rank = own->rank();
      std::string sent = rank == 0 ? "ab" : "cd", got = "..";
      own->all_to_all(std::as_bytes(std::span(sent)), std::as_writable_bytes(std::span(got)));
      to_all[rank] = got;
      got = "....";
      own->all_gather(std::as_bytes(std::span(sent)), std::as_writable_bytes(std::span(got)));
      from_all[rank] = got;
      own->broadcast(std::as_writable_bytes(std::span(sent)), 1);
      from_one[rank] = sent;
      own->all_to_all({}, {});
      own->all_gather({}, {});
      own->broadcast({}, 0);
      for (const char* text : {"short", "longer by far"}) {
        texts[rank] = own->exchange(rank == 0 ? text : "");
      }
    });
    CHECK(said == kNothing2);
    CHECK(to_all[0] == "ac");
    CHECK(to_all[1] == "bd");
    for (const int rank : {0, 1}) {
      CHECK(from_all[rank] == "abcd");
      CHECK(from_one[rank] == "cd");
      CHECK(texts[rank] == std::vector<std::string>{"longer by far", ""});
    }
  }
}

template <class T>
T number(std::minstd_rand& random) {
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(random()) * 1024 + static_cast<T>(random() % 1024);
  } else {
    return std::normal_distribution<T>()(random);
  }
}

template <class T>
T reduced(ReduceOp op, const std::vector<T>& of_ranks) {
  T result = of_ranks[0];
  for (std::size_t r = 1; r < of_ranks.size(); ++r) {
    switch (op) {
      case ReduceOp::max:
        result = std::max(result, of_ranks[r]);
        break;
      case ReduceOp::min:
        result = std::min(result, of_ranks[r]);
        break;
      default:
        // Integers of the test are far from their ends.
        result += of_ranks[r];
    }
  }
  return op == ReduceOp::mean ? result / static_cast<T>(of_ranks.size()) : result;
}

/// Bit for bit what a loop over the ranks gives, on each of them.
template <class T>
void check_all_reduce(Element element, Over over, std::vector<int> worlds,
                      std::vector<std::size_t> counts) {
  for (const int ranks : worlds) {
    for (const std::size_t count : counts) {
      std::minstd_rand random(static_cast<unsigned>(count) + 1);
      std::vector<std::vector<T>> all(static_cast<std::size_t>(ranks));
      for (std::vector<T>& own : all) {
        for (std::size_t i = 0; i < count; ++i) own.push_back(number<T>(random));
      }
      for (const ReduceOp op : {ReduceOp::sum, ReduceOp::mean, ReduceOp::max, ReduceOp::min}) {
        if (!reduces(op, element)) continue;
        std::vector<T> expected;
        for (std::size_t i = 0; i < count; ++i) {
          std::vector<T> of_ranks;
          for (const std::vector<T>& own : all) of_ranks.push_back(own[i]);
          expected.push_back(reduced(op, of_ranks));
        }
        std::vector<std::vector<T>> found = all;
        const auto said = on_ranks(over, ranks, [&](const Own& own) {
          std::vector<T>& values = found[static_cast<std::size_t>(own->rank())];
          std::vector<std::byte> scratch(
              all_reduce_scratch(element, static_cast<std::int64_t>(count), ranks));
          all_reduce(*own, op, element, bytes_of(values), scratch);
        });
        CAPTURE(name_of(op));
        CAPTURE(ranks);
        CAPTURE(count);
        CHECK(said == std::vector<std::string>(static_cast<std::size_t>(ranks)));
        for (const std::vector<T>& values : found) CHECK(values == expected);
      }
    }
  }
}

TEST_CASE("all_reduce gives the bits of a loop over the ranks, whatever the count") {
  const std::vector<int> worlds = {1, 2, 3, 5};
  const std::vector<std::size_t> counts = {0, 1, 2, 3, 7, 64, 1001};
  check_all_reduce<float>(f32, Over::memory, worlds, counts);
  check_all_reduce<double>(f64, Over::memory, worlds, counts);
  check_all_reduce<std::int64_t>(i64, Over::memory, worlds, counts);
  // In several pieces, of whole rows and of parts.
  check_all_reduce<float>(f32, Over::memory, {2, 3, 4}, {1'700'003});
}

TEST_CASE("all_reduce gives the same over sockets") {
  check_all_reduce<float>(f32, Over::sockets, {2, 3}, {0, 1, 1001, 300'000});
  check_all_reduce<float>(f32, Over::sockets, {3}, {1'700'003});
  check_all_reduce<std::int64_t>(i64, Over::sockets, {2}, {5});
}

TEST_CASE("ranks over sockets are told of one that is gone, and of one that is late") {
  const Store store = Store::serve("127.0.0.1", 0, 20s);
  const auto broadcast = [](const Own& own) {
    std::byte bytes[4] = {};
    own->broadcast(bytes, 0);
  };
  std::vector<std::string> said = on_ranks(gloo_world(2, store), [&](const Own& own) {
    if (own->rank() == 1) broadcast(own);
  });
  CHECK(said[0].empty());
  CHECK(said[1] ==
        "rank 0 of 2 left, while rank 1 was in no step yet, collective 1 (broadcast of 4 bytes)");

  const Store other = Store::serve("127.0.0.1", 0, 20s);
  said = on_ranks(gloo_world(2, other, {.call = 300ms}), [&](const Own& own) {
    if (own->rank() == 0) std::this_thread::sleep_for(2s);
    if (own->rank() == 1) broadcast(own);
  });
  CHECK(said[1].starts_with("broadcast of 4 bytes between 2 ranks failed on rank 1: "));
}

TEST_CASE("a NaN of any rank stays one, and integers wrap around") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const ReduceOp op : {ReduceOp::sum, ReduceOp::mean, ReduceOp::max, ReduceOp::min}) {
    std::vector<float> found[2];
    CHECK(on_ranks(2, [&](const Own& own) {
            std::vector<float> values =
                own->rank() == 0 ? std::vector<float>{nan, 1, 1} : std::vector<float>{1, nan, 2};
            std::vector<std::byte> scratch(all_reduce_scratch(f32, 3, 2));
            all_reduce(*own, op, f32, bytes_of(values), scratch);
            found[own->rank()] = values;
          }) == kNothing2);
    for (const std::vector<float>& values : found) {
      CHECK(std::isnan(values[0]));
      CHECK(std::isnan(values[1]));
      CHECK_FALSE(std::isnan(values[2]));
    }
  }
  std::int64_t sums[2] = {};
  CHECK(on_ranks(2, [&](const Own& own) {
          std::vector<std::int64_t> values = {std::numeric_limits<std::int64_t>::max()};
          std::vector<std::byte> scratch(all_reduce_scratch(i64, 1, 2));
          all_reduce(*own, ReduceOp::sum, i64, bytes_of(values), scratch);
          sums[own->rank()] = values[0];
        }) == kNothing2);
  CHECK(sums[0] == -2);
  CHECK(sums[1] == -2);
}

TEST_CASE("what has no op is refused") {
  CHECK_FALSE(reduces(ReduceOp::mean, i64));
  for (const Element element : {i32, bool_, bf16, f16})
    CHECK_FALSE(reduces(ReduceOp::sum, element));
  CHECK_THROWS_AS(all_reduce(*simulated_world(1)[0], ReduceOp::mean, i64, {}, {}), InternalError);
  std::vector<float> values(3);
  CHECK_THROWS_AS(all_reduce(*simulated_world(2)[0], ReduceOp::sum, f32, bytes_of(values), {}),
                  InternalError);
}

TEST_CASE("ranks that do not make the same call are told, all of them") {
  std::byte four[4] = {}, eight[8] = {};
  const auto both = [](const std::string& said) { return std::vector<std::string>{said, said}; };
  CHECK(on_ranks(2, [&](const Own& own) {
          std::byte to[16];
          if (own->rank() == 0) {
            own->all_gather(four, std::span(to).first(8));
          } else {
            own->all_gather(eight, to);
          }
        }) == both("rank 1 calls all_gather of 8 bytes, and rank 0 all_gather of 4 bytes"));
  CHECK(on_ranks(2, [&](const Own& own) {
          std::byte own_four[4] = {}, to[8];
          if (own->rank() == 0) {
            own->broadcast(own_four, 0);
          } else {
            own->all_gather(four, to);
          }
        }) == both("rank 1 calls all_gather of 4 bytes, and rank 0 broadcast of 4 bytes"));
}

TEST_CASE("ranks that wait for one that is gone, or late, are told") {
  const auto broadcast = [](const Own& own) {
    std::byte bytes[4] = {};
    own->broadcast(bytes, 0);
  };
  CHECK(on_ranks(3, [&](const Own& own) {
          if (own->rank() != 1) broadcast(own);
        }) == std::vector<std::string>{"rank 1 of 3 is gone", "", "rank 1 of 3 is gone"});
  const std::string late = "1 of 2 ranks did not come within 0.2 s";
  CHECK(on_ranks(
            2,
            [&](const Own& own) {
              if (own->rank() == 1) std::this_thread::sleep_for(1s);
              broadcast(own);
            },
            200ms) == std::vector<std::string>{late, late});
}

}  // namespace
}  // namespace metronome::distributed::collectives_test
