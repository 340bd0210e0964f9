// Everything that outlives a step, kept in memory: to go back to, and for other executables.
#include <ATen/ops/arange.h>
#include <ATen/ops/zeros.h>

#include <optional>
#include <string>
#include <vector>

#include "executor/metronome.h"
#include "graph/ir/error.h"
#include "tests/doctest.h"
#include "tests/executor/options.h"
#include "tests/executor/targets.h"

namespace metronome::snapshot_test {
namespace {

using tests::targets;

/// All kinds of storages: a parameter, running statistics, a state, moments, counters.
struct Net {
  explicit Net(std::int64_t rows, std::int64_t width = 6) {
    x = g.input("x", f32, {rows, 4});
    const Value h = g.state("h", {f32, {rows, width}}, zeros());
    const Value next = tanh(x.through(batch_norm()).through(linear(width)) + h * 0.5);
    g.feed(h, next);
    y = next.through(dropout(0.1));
    g.output("y", y);
    g.minimize(mean(y * y), Adam{.lr = 1e-2});
  }
  Graph g{"net"};
  Value x, y;
};

at::Tensor rows_of(std::int64_t rows, double number) {
  return at::arange(static_cast<double>(rows * 4), at::TensorOptions(at::kFloat))
      .mul(0.37)
      .add(number)
      .sin()
      .reshape({rows, 4});
}

CompileOptions both_modes() {
  CompileOptions options = tests::plain_options();
  options.modes = {train, evaluate};
  return options;
}

void run(Executable& step, int from, int to, std::int64_t rows = 5) {
  for (int i = from; i < to; ++i) step.run({{"x", rows_of(rows, i)}});
}

std::vector<at::Tensor> all(const Executable& step) {
  std::vector<at::Tensor> tensors;
  for (const std::string& path : step.storages()) tensors.push_back(step.get(path));
  return tensors;
}

void check_equal(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b) {
  REQUIRE(a.size() == b.size());
  for (std::size_t i = 0; i < a.size(); ++i) CHECK(a[i].equal(b[i]));
}

TEST_CASE("a snapshot is gone back to as often as one likes, to the bit, on every target") {
  for (const Target& target : targets()) {
    const Net net(5);
    Executable step = compile(net.g, target, both_modes());
    run(step, 0, 3);
    const Snapshot snapshot = step.snapshot();
    const std::vector<at::Tensor> then = all(step);
    run(step, 3, 6);
    const std::vector<at::Tensor> later = all(step);
    for (int again = 0; again < 2; ++again) {
      CHECK(step.load(snapshot).empty());
      check_equal(all(step), then);
      CHECK(step.replays() == 3);
      run(step, 3, 6);
      check_equal(all(step), later);
    }
  }
}

TEST_CASE("it outlives its executable, and another target or batch goes on from it") {
  for (const Target& target : targets()) {
    const Net five(5), two(2);
    std::optional<Executable> first = compile(five.g, cpu_replay(), both_modes());
    run(*first, 0, 4);
    const Snapshot snapshot = first->snapshot();
    CHECK(snapshot.bytes() == first->report().storage_bytes - sizeof(std::int64_t));  // the seed
    const std::vector<at::Tensor> then = all(*first);
    first.reset();

    const Snapshot copy = snapshot;
    Executable other = compile(five.g, target, both_modes());
    other.load(copy);
    check_equal(all(other), then);

    Executable smaller = compile(two.g, target, both_modes());
    const std::vector<std::string> notices = smaller.load(snapshot);
    REQUIRE(!notices.empty());
    CHECK(notices[0] ==
          "the snapshot of graph \"net\": state \"h\" is f32[2, 6] here and f32[5, 6] in the "
          "snapshot: it starts from its initial value");
    CHECK(smaller.get("linear/weight").equal(other.get("linear/weight")));
    CHECK(smaller.get("h").equal(at::zeros({2, 6})));
    CHECK(smaller.updates() == 4);
    run(smaller, 4, 5, 2);
    CHECK(smaller.updates() == 5);
  }
}

TEST_CASE("an executable that only evaluates takes what another trains, without its moments") {
  const Net net(5);
  CompileOptions evaluates = tests::plain_options();
  evaluates.modes = {evaluate};
  Executable trained = compile(net.g, cpu_replay(), both_modes());
  Executable step = compile(net.g, cpu_replay(), evaluates);
  run(trained, 0, 2);
  trained.evaluate({{net.x, rows_of(5, 9)}});
  const std::vector<std::string> notices = step.load(trained.snapshot());
  REQUIRE(!notices.empty());
  CHECK(notices[0] ==
        "the snapshot of graph \"net\": ignored 8 tensors of an optimizer that is not here");
  step.evaluate({{net.x, rows_of(5, 9)}});
  CHECK(step.read("y").equal(trained.read("y")));
}

TEST_CASE("another seed is said, and the snapshot's holds") {
  const Net net(5);
  CompileOptions seeded = both_modes();
  seeded.seed = 7;
  Executable step = compile(net.g, cpu_replay(), both_modes());
  const std::vector<std::string> notices =
      step.load(compile(net.g, cpu_replay(), seeded).snapshot());
  CHECK(notices == std::vector<std::string>{
                       "the snapshot of graph \"net\": was saved under seed 7, not 0: random "
                       "numbers go on with 7"});
  CHECK(step.get("seed").item<std::int64_t>() == 7);
}

TEST_CASE("a snapshot of another model is refused, and nothing changes") {
  const Net net(5), wide(5, 8);
  Executable step = compile(net.g, cpu_replay(), both_modes());
  const Executable other = compile(wide.g, cpu_replay(), both_modes());
  run(step, 0, 2);
  const std::vector<at::Tensor> then = all(step);
  CHECK_THROWS_WITH_AS(
      step.load(other.snapshot()),
      "the snapshot of graph \"net\": cannot be loaded: it is of another model: parameter "
      "\"linear/bias\" is f32[6] here and f32[8] in the snapshot; parameter \"linear/weight\" is "
      "f32[6, 4] here and f32[8, 4] in the snapshot",
      RunError);
  check_equal(all(step), then);

  Graph one("one");
  one.output("w", one.parameter("w", {f32, {2}}, ones()));
  Executable small = compile(one, cpu_replay(), tests::plain_options());
  CHECK_THROWS_WITH_AS(
      small.load(step.snapshot()),
      "the snapshot of graph \"net\": cannot be loaded: it is of another model: parameter \"w\" is "
      "f32[2] here and missing in the snapshot; \"batch_norm/bias\" is f32[4] in the snapshot and "
      "nothing here; \"batch_norm/running_mean\" is f32[4] in the snapshot and nothing here; and 5 "
      "more",
      RunError);
}

}  // namespace
}  // namespace metronome::snapshot_test
