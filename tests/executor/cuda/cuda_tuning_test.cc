// Candidates of a device are timed in graphs of copies; the report says where they were not.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <string>

#include "executor/metronome.h"
#include "graph/ir/error.h"
#include "tests/cuda/host_driver.h"
#include "tests/doctest.h"
#include "tests/executor/logged.h"
#include "tests/executor/temporary_folder.h"

namespace metronome {
namespace {

/// A layer compiled for the driver without a tuning file; its choice.
std::string choice_of(const std::shared_ptr<HostDriver>& driver, const Shape& x,
                      const Layer& layer) {
  const TemporaryFolder folder;
  Graph g("g");
  g.output("y", g.input("x", f32, x).through(layer));
  Target target = cuda_graph({.streams = 1, .fuse = false});
  target.driver = driver;
  const Executable e = compile(g, target, {.modes = {evaluate}, .tuning_file = folder.file("t")});
  REQUIRE(e.report().choices.size() == 1);
  return to_string(e.report().choices[0]);
}

/// A linear layer, of five candidates, the last of them our own.
std::string choice_for(const std::shared_ptr<HostDriver>& driver) {
  return choice_of(driver, {8, 16}, linear(24));
}

TEST_CASE("candidates are timed in graphs of copies, which are given back") {
  const auto driver = std::make_shared<HostDriver>(HostSettings{.alone_us = 6});
  CHECK(choice_for(driver) ==
        "linear f32[8, 16] x f32[24, 16] x f32[24] -> cublaslt 000000000000001 (timed)");
  // The captured step remains.
  CHECK(driver->counts().released == driver->counts().graphs - 1);
  CHECK(driver->counts().released >= 4);
  driver->check();
}

TEST_CASE("where kernels begin early, a library's call has to win more than that takes") {
  const auto choice_on = [](bool begins_early) {
    return choice_for(
        std::make_shared<HostDriver>(HostSettings{.begins_early = begins_early, .alone_us = 6}));
  };
  const std::string problem = "linear f32[8, 16] x f32[24, 16] x f32[24] -> ";
  CHECK(choice_on(true) == problem + "own (timed)");
  CHECK(choice_on(false) == problem + "cublaslt 000000000000001 (timed)");
}

TEST_CASE("where one cannot be captured all are timed by launches, and the report says so") {
  HostSettings settings{.strict = false, .alone_us = 6};
  const auto driver = std::make_shared<HostDriver>(settings);
  // Four run twice each, then the first three times: the library's twelfth is the first in a
  // capture.
  driver->on_enqueue = [count = 0](const Command& command, CudaStream) mutable {
    if (std::holds_alternative<LibraryCommand>(command) && ++count == 12)
      throw RunError("this may not be captured");
  };
  CHECK(
      choice_for(driver) ==
      "linear f32[8, 16] x f32[24, 16] x f32[24] -> cublaslt 000000000000001 (timed by launches)");
  CHECK(driver->counts().released == driver->counts().graphs - 1);
  driver->check();
}

TEST_CASE("a library's candidate that fails, or gives other bits in a second run, is left out") {
  const auto driver = std::make_shared<HostDriver>(HostSettings{.strict = false, .alone_us = 6});
  driver->on_enqueue = [count = 0](const Command& command, CudaStream) mutable {
    if (!std::holds_alternative<LibraryCommand>(command)) return;
    ++count;
    if (count == 1) throw RunError("the first cannot run");
    // Another operand in the second run of the second.
    if (count == 3 || count == 4) {
      const auto operand = std::get<LibraryCommand>(command).operands()[0];
      *static_cast<float*>(const_cast<void*>(operand.data)) += count == 3 ? 1 : -1;
    }
  };
  const tests::Logged logged;
  const std::string choice = choice_for(driver);
  const std::string text = logged.text();
  CHECK(choice == "linear f32[8, 16] x f32[24, 16] x f32[24] -> own (timed)");
  const std::string linear = "linear f32[8, 16] x f32[24, 16] x f32[24]: cublaslt 00000000000000";
  CHECK(text.find(linear + "1 is left out: the first cannot run") != std::string::npos);
  CHECK(text.find(linear + "2 is left out: two runs leave other bits") != std::string::npos);
  driver->check();
}

TEST_CASE("a library's candidate that makes other numbers than our own kernel is left out") {
  const auto driver = std::make_shared<HostDriver>(HostSettings{.strict = false, .alone_us = 6});
  // From the library's first run on an operand is another one.
  driver->on_enqueue = [](const Command& command, CudaStream) {
    if (const auto* call = std::get_if<LibraryCommand>(&command)) {
      *static_cast<float*>(const_cast<void*>(call->operands()[0].data)) = 100;
    }
  };
  const tests::Logged logged;
  const std::string choice = choice_of(driver, {1, 2, 4, 4}, conv2d(3, 3));
  const std::string text = logged.text();
  const std::string convolution = "convolution f32[1, 2, 4, 4] x f32[3, 2, 3, 3] x f32[3]";
  CHECK(choice == convolution + " -> own (timed)");
  for (const char* const each : {"3", "4"}) {
    CHECK(text.find(fmt::format("{}: cudnn 00000000000000{} is left out: it makes -58.570286 of "
                                "element 0, where our own kernel makes -0.2701247",
                                convolution, each)) != std::string::npos);
  }
  driver->check();
}

TEST_CASE("of a large result samples are compared, its last number among them") {
  constexpr std::int64_t kNumbers = 1024 * 1100;  // 4.3 MiB
  const auto wrong_at = [](std::int64_t number) {
    const auto driver = std::make_shared<HostDriver>(
        HostSettings{.strict = false, .alone_us = 300, .in_graph_us = 300});
    driver->on_enqueue = [=](const Command& command, CudaStream) {
      if (const auto* call = std::get_if<LibraryCommand>(&command)) {
        static_cast<float*>(const_cast<void*>(call->operands()[0].data))[number] = 100;
      }
    };
    const tests::Logged logged;
    choice_of(driver, {1, 1, 1024, 1100}, conv2d(1, 1));
    driver->check();
    return logged.text();
  };
  for (const std::int64_t number : {std::int64_t{0}, kNumbers - 1}) {
    CHECK(wrong_at(number).find(fmt::format(" of element {}, where our own kernel makes ",
                                            number)) != std::string::npos);
  }
  // Between two samples, of 64 KiB each.
  CHECK(wrong_at(17000).find("is left out") == std::string::npos);
}

TEST_CASE("a library's candidate that is much less exact than the nearest is left out") {
  const auto driver = std::make_shared<HostDriver>(HostSettings{.strict = false, .alone_us = 6});
  // The second engine of the library finds another operand, by some units in the last place.
  driver->on_enqueue = [count = 0](const Command& command, CudaStream) mutable {
    const auto* call = std::get_if<LibraryCommand>(&command);
    if (call != nullptr && ++count == 3) {
      *static_cast<float*>(const_cast<void*>(call->operands()[0].data)) += 1.9e-4F;
    }
  };
  const tests::Logged logged;
  choice_of(driver, {1, 256, 4, 4}, conv2d(3, 3));
  const std::string text = logged.text();
  // How far they lie depends on the order in which this machine's library adds.
  const std::string left_out =
      "warning: convolution f32[1, 256, 4, 4] x f32[3, 256, 3, 3] x f32[3]: cudnn "
      "000000000000004 is left out: its result lies ";
  CHECK(text.starts_with(left_out));
  CHECK(text.find(" of the largest number from our own kernel's, the nearest ") < text.size());
  CHECK(std::ranges::count(text, '\n') == 1);
  driver->check();
}

}  // namespace
}  // namespace metronome
