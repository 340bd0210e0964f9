// How often a NaN is looked for in what is read: a step of 50 KiB earns a look at 1 KiB a read.
#include "executor/run/nan_lookout.h"

#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tests/doctest.h"
#include "tests/executor/logged.h"

namespace metronome::nan_lookout_test {
namespace {

using executor::NanLookout;
using tests::Logged;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

struct Reads {
  NanLookout lookout{"graph \"net\"", {"small", "large"}, 50 << 10};
  std::vector<float> numbers;
  explicit Reads(std::int64_t count) : numbers(static_cast<std::size_t>(count)) {}

  /// True if a read, which finds a NaN at its last element, tells of it.
  bool tells(std::size_t name, std::int64_t step) {
    numbers.back() = kNan;
    const Logged logged;
    read(name, step);
    return !logged.text().empty();
  }
  void read(std::size_t name, std::int64_t step) {
    const auto count = static_cast<std::int64_t>(numbers.size());
    lookout.look(
        name,
        contiguous_tensor(nullptr, reinterpret_cast<std::byte*>(numbers.data()), {f32, {count}}),
        step);
  }
};

TEST_CASE("a tensor that a read earns is looked at each time") {
  Reads reads(256);
  for (int step = 1; step < 10; ++step) reads.read(0, step);
  CHECK(reads.tells(0, 10));
  CHECK_FALSE(reads.tells(0, 11));  // it was told
  CHECK(reads.tells(1, 11));        // of another name
}

TEST_CASE("a larger one is looked at in the first read, then in every k-th") {
  CHECK(Reads(1024).tells(1, 1));
  Reads reads(1024);  // of four times what a read earns
  reads.read(1, 1);
  for (int step = 2; step < 5; ++step) CHECK_FALSE(reads.tells(1, step));
  CHECK(reads.tells(1, 5));
}

TEST_CASE("infinities, integers and nothing are no NaN") {
  Reads reads(4);
  const Logged logged;
  for (float& number : reads.numbers) number = -std::numeric_limits<float>::infinity();
  reads.read(0, 1);
  std::vector<std::int32_t> bits = {0x7FC00000};
  auto* const data = reinterpret_cast<std::byte*>(bits.data());
  reads.lookout.look(0, contiguous_tensor(nullptr, data, {i32, {1}}), 2);
  reads.lookout.look(0, contiguous_tensor(nullptr, nullptr, {f32, {0}}), 3);
  reads.lookout.look(0, 1e300, 4);
  CHECK(logged.text() == "");
}

TEST_CASE("the warning names the value, the step and the graph") {
  const auto warning = [](std::int64_t steps, std::optional<std::string_view> graph) {
    Reads reads(4);
    const Logged logged;
    reads.lookout.look(1, static_cast<double>(kNan), steps, graph);
    return logged.text();
  };
  const std::string advice =
      "; compile with CompileOptions::watch to be told of the node that made the first one\n";
  CHECK(warning(7, std::nullopt) ==
        "warning: graph \"net\": \"large\" holds nan, after 7 steps" + advice);
  CHECK(warning(1, "policy") ==
        "warning: graph \"policy\": \"large\" holds nan, after 1 step" + advice);
}

TEST_CASE("elements that do not lie side by side are looked at, too") {
  std::vector<float> numbers = {0, 1, kNan, 3};
  Tensor column =
      contiguous_tensor(nullptr, reinterpret_cast<std::byte*>(numbers.data()), {f32, {2}});
  column.strides = {3};
  NanLookout lookout("graph", {"column"}, 0);
  const Logged logged;
  lookout.look(0, column, 1);
  CHECK(logged.text() == "");
  column.strides = {2};
  NanLookout("graph", {"column"}, 0).look(0, column, 1);
  CHECK(logged.text() != "");
}

}  // namespace
}  // namespace metronome::nan_lookout_test
