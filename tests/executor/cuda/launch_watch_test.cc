// A first launch that hangs is told of by the name of its form, a step by its number, and either
// ends the process if it is asked to.
#include <ATen/ops/zeros.h>
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "executor/cuda/capture/launch_watch.h"
#include "executor/cuda/driver/null_driver.h"
#include "executor/metronome.h"
#include "graph/ir/error.h"
#include "tests/executor/logged.h"

namespace metronome {
namespace {

using executor::capture::LaunchWatch;
using executor::capture::StepWatch;
using Patience = std::chrono::milliseconds;

constexpr Patience kSoon(20), kLong(400);

/// The first launch hangs for a while.
class HangingDriver final : public NullDriver {
 public:
  bool computes() const override { return true; }
  void launch(CudaGraphExec graph, CudaStream stream) override {
    std::this_thread::sleep_for(std::exchange(hangs_, Patience(0)));
    NullDriver::launch(graph, stream);
  }

 private:
  Patience hangs_ = kLong;
};

/// Launches come back, but from some moment on no step ends.
class EndlessDriver final : public NullDriver {
 public:
  bool computes() const override { return true; }
  bool is_done(CudaEvent event) override { return !endless && NullDriver::is_done(event); }
  void synchronize(CudaEvent event) override {
    if (endless) throw InternalError("the driver's own wait has no limit");
    NullDriver::synchronize(event);
  }

  bool endless = false;
};

Executable compile_for(std::shared_ptr<NullDriver> driver) {
  Graph g("narrow");
  g.minimize(mean(g.input("x", f32, {4, 8}).through(linear(8))), Sgd{.lr = 0.1});
  Target target = cuda_graph({.streams = 1});
  target.driver = std::move(driver);
  return compile(g, target, {.tune = Tune::off});
}

/// Compiles for a device that hangs.
void compile_hanging() { compile_for(std::make_shared<HangingDriver>()); }

/// The text that a process prints, and the signal that ends it; 0: it went on.
struct Ended {
  std::string said;
  int signal = 0;
};

template <class F>
Ended run_alone(F f) {
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    std::signal(SIGABRT, SIG_DFL);  // not the test's own handler
    dup2(ends[1], STDERR_FILENO);
    try {
      f();
    } catch (const std::exception& error) {
      fmt::print(stderr, "{}\n", error.what());
    }
    _exit(0);
  }
  close(ends[1]);
  Ended ended;
  char some[256];
  for (ssize_t got; (got = read(ends[0], some, sizeof some)) > 0;) {
    ended.said.append(some, static_cast<std::size_t>(got));
  }
  close(ends[0]);
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  if (WIFSIGNALED(status)) ended.signal = WTERMSIG(status);
  return ended;
}

// First: it forks, which a process does before it has threads.
TEST_CASE("METRONOME_LAUNCH_LIMIT ends a process whose launch hangs, and names the form") {
  const Ended ended = run_alone([] {
    setenv("METRONOME_LAUNCH_LIMIT", "0.02", 1);
    compile_hanging();
  });
  CHECK(ended.said ==
        "[metronome] graph \"narrow\", train: one graph, 1 stream: its first launch has not come "
        "back for 0.02 s: METRONOME_LAUNCH_LIMIT ends the process\n");
  CHECK(ended.signal == SIGABRT);
}

TEST_CASE("it ends a process that waits for a step that never ends, and names the step") {
  const auto read_loss = [](Executable& step) { step.read("loss"); };
  const auto get_weight = [](Executable& step) { step.get("linear/weight"); };
  const auto set_weight = [](Executable& step) { step.set("linear/weight", at::zeros({8, 8})); };
  const auto run_again = [](Executable& step) { step.run(); };
  for (const std::function<void(Executable&)>& wait :
       {std::function<void(Executable&)>(read_loss), std::function<void(Executable&)>(get_weight),
        std::function<void(Executable&)>(set_weight),
        std::function<void(Executable&)>(run_again)}) {
    const Ended ended = run_alone([&] {
      setenv("METRONOME_LAUNCH_LIMIT", "0.02", 1);
      const auto driver = std::make_shared<EndlessDriver>();
      Executable step = compile_for(driver);
      step.run({{"x", at::zeros({4, 8})}});
      step.run();
      driver->endless = true;
      wait(step);
    });
    CHECK(ended.said.starts_with("[metronome] graph \"narrow\", train: step "));
    CHECK(ended.said.ends_with(
        " has not come back for 0.02 s: METRONOME_LAUNCH_LIMIT ends the process\n"));
    CHECK(ended.signal == SIGABRT);
  }
}

TEST_CASE("it ends no process whose launches come back") {
  const Ended ended = run_alone([] {
    setenv("METRONOME_LAUNCH_LIMIT", "600", 1);
    compile_hanging();
  });
  CHECK(ended.said == "");
  CHECK(ended.signal == 0);
}

TEST_CASE("without it a launch that hangs is warned of, once") {
  unsetenv("METRONOME_LAUNCH_LIMIT");
  const tests::Logged logged;
  {
    const LaunchWatch hangs("the form", kSoon);
    std::this_thread::sleep_for(kLong);
  }
  CHECK(logged.text() == "warning: the form: its first launch has not come back for 0.02 s\n");
}

TEST_CASE("without it a step that is looked for too long is warned of, once") {
  unsetenv("METRONOME_LAUNCH_LIMIT");
  const tests::Logged logged;
  StepWatch watch([] { return "graph \"g\", train: step 7"; }, kSoon);
  watch.look();
  watch.look();
  CHECK(logged.text() == "");
  for (int i = 0; i < 3; ++i) {
    std::this_thread::sleep_for(2 * kSoon);
    watch.look();
  }
  CHECK(logged.text() == "warning: graph \"g\", train: step 7 has not come back for 0.02 s\n");
}

TEST_CASE("a launch that comes back is no matter") {
  const tests::Logged logged;
  const auto begin = std::chrono::steady_clock::now();
  {
    const LaunchWatch comes("the form");
  }
  CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(4));
  CHECK(logged.text() == "");
}

TEST_CASE("METRONOME_LAUNCH_LIMIT is a number of seconds") {
  for (const std::string wrong : {"soon", "5 s", "0", "-1", "nan", "inf"}) {
    setenv("METRONOME_LAUNCH_LIMIT", wrong.c_str(), 1);
    CHECK_THROWS_WITH_AS(
        LaunchWatch("the form"),
        ("METRONOME_LAUNCH_LIMIT=" + wrong + ": give seconds, 0.001 to 1e+06").c_str(), RunError);
  }
  unsetenv("METRONOME_LAUNCH_LIMIT");
}

}  // namespace
}  // namespace metronome
