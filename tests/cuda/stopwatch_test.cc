// Short commands are timed without the host's part in them.
#include "executor/cuda/driver/stopwatch.h"

#include <string>
#include <vector>

#include "graph/ir/error.h"
#include "tests/cuda/host_driver.h"
#include "tests/doctest.h"

namespace metronome {
namespace {

/// A device of this clock, and a command of one node.
struct Bench {
  HostDriver driver;
  Stopwatch watch;
  std::vector<Command> commands;

  explicit Bench(HostSettings settings)
      : driver(settings), watch(driver, driver.make_stream()), commands{zero()} {}
  Command zero() { return ZeroCommand{driver.device_memory(64), 64}; }
};

TEST_CASE("a short command is timed in a graph of many copies, which hides its launch") {
  Bench bench({.alone_us = 6, .in_graph_us = 1.5});
  const RepeatedCommands run(bench.watch, bench.commands);
  CHECK(run.by() == TimingMethod::copies);
  CHECK(run.milliseconds() == doctest::Approx(1.5e-3));
  CHECK(run.milliseconds(5) == doctest::Approx(1.5e-3));
  // 6 us by launches, so 34 copies; those took 51 us, so more.
  CHECK(bench.driver.counts().graphs == 2);
  CHECK(bench.driver.counts().released == 1);
  CHECK(bench.driver.counts().captured == 34 + 128);
  bench.driver.check();
}

TEST_CASE("a time is of all commands in a row, and of all their nodes") {
  Bench bench({.alone_us = 6, .in_graph_us = 2});
  bench.commands = {bench.zero(), bench.zero(), bench.zero()};
  const RepeatedCommands run(bench.watch, bench.commands);
  CHECK(run.milliseconds() == doctest::Approx(6e-3));
}

TEST_CASE("a long command has a graph of its own; so many runs as a round needs") {
  Bench bench({.alone_us = 5000, .in_graph_us = 4990});
  const RepeatedCommands run(bench.watch, bench.commands);
  CHECK(bench.driver.counts().captured == 1);
  const int before = bench.driver.counts().launches;
  CHECK(run.milliseconds() == doctest::Approx(4.99));
  CHECK(bench.driver.counts().launches == before + 2);  // one before the one that is timed
}

TEST_CASE("no commands take no time") {
  Bench bench({});
  bench.commands.clear();
  const RepeatedCommands run(bench.watch, bench.commands);
  CHECK(run.milliseconds(3) == 0);
  CHECK(run.by() == TimingMethod::copies);
  CHECK(bench.driver.counts().graphs == 0);
}

/// Refuses what is enqueued behind the first three commands, once: it is in a capture.
void refuse_a_capture(HostDriver& driver) {
  driver.on_enqueue = [count = 0](const Command&, CudaStream) mutable {
    if (++count == 4) throw RunError("this may not be captured");
  };
}

TEST_CASE("what cannot be captured is timed by launches, and says so") {
  Bench bench({.strict = false, .alone_us = 6, .in_graph_us = 1.5});
  refuse_a_capture(bench.driver);
  const RepeatedCommands run(bench.watch, bench.commands);
  CHECK(run.by() == TimingMethod::launches);
  CHECK(run.milliseconds() == doctest::Approx(6e-3));
  CHECK(bench.driver.counts().graphs == 0);
  bench.driver.check();
}

TEST_CASE("a strict driver lets no capture fail") {
  Bench bench({});
  refuse_a_capture(bench.driver);
  CHECK_THROWS_WITH_AS(RepeatedCommands(bench.watch, bench.commands), "this may not be captured",
                       RunError);
}

TEST_CASE("its graph is given back with it, or when launches are asked for") {
  Bench bench({.alone_us = 200, .in_graph_us = 200});
  {
    RepeatedCommands first(bench.watch, bench.commands), second(bench.watch, bench.commands);
    const RepeatedCommands third(std::move(first));
    CHECK(third.by() == TimingMethod::copies);
    CHECK(first.by() == TimingMethod::launches);  // moved from
    second.use_launches();
    CHECK(second.by() == TimingMethod::launches);
    CHECK(second.milliseconds() == doctest::Approx(0.2));
    CHECK(bench.driver.counts().released == 1);
  }
  CHECK(bench.driver.counts().released == 2);
  bench.driver.check();
}

TEST_CASE("a host's device tells of graphs that are used or given back wrongly") {
  HostDriver driver;
  const CudaStream stream = driver.make_stream();
  driver.begin_capture(stream);
  const CudaGraphExec graph = driver.end_capture(stream, 0);
  driver.release(graph);
  CHECK_THROWS_WITH_AS(driver.launch(graph, stream),
                       "Metronome made a mistake of its own, please report it: "
                       "graph 0 is launched, and was released",
                       InternalError);
  driver.check();
  driver.release(graph);
  CHECK_THROWS_WITH_AS(driver.check(),
                       "Metronome made a mistake of its own, please report it: "
                       "a graph is released that was not handed out",
                       InternalError);
}

}  // namespace
}  // namespace metronome
