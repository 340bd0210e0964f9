// The assembler's report of kernels, read; and what a device would refuse, said.
#include "tests/gpu/launch_limits.h"

#include "tests/doctest.h"
#include "tests/gpu/kernel_table.h"

namespace metronome {
namespace {

const std::string kReport =
    "ptxas info    : 160 bytes gmem\n"
    "ptxas info    : Compiling entry function 'first' for 'sm_80'\n"
    "ptxas info    : Function properties for first\n"
    "    168 bytes stack frame, 348 bytes spill stores, 640 bytes spill loads\n"
    "ptxas info    : Used 64 registers, used 1 barriers, 168 bytes cumulative stack size, 1024 "
    "bytes smem, 512 bytes cmem[0]\n"
    "ptxas info    : Compile time = 43.221 ms\n"
    "ptxas info    : Compiling entry function 'first' for 'sm_90'\n"
    "ptxas info    : Function properties for first\n"
    "ptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n"
    "ptxas info    : Used 124 registers, used 1 barriers\n"
    "ptxas info    : Compiling entry function 'second' for 'sm_90'\n"
    "ptxas info    : Function properties for second\n"
    "ptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n"
    "ptxas info    : Used 8 registers, used 0 barriers\n";

TEST_CASE("the assembler's report is read, for one architecture") {
  using Found = std::map<std::string, Resources>;
  CHECK((resources_in(kReport, "sm_80") == Found{{"first", {64, 348 + 640, 1024}}}));
  CHECK((resources_in(kReport, "sm_90") == Found{{"first", {124, 0, 0}}, {"second", {8, 0, 0}}}));
  CHECK((resources_in(kReport, "sm_9") == Found{}));
  CHECK((resources_in("", "sm_90") == Found{}));
}

TEST_CASE("registers are handed out by 256 to a warp, and to four warps at once") {
  CHECK(registers_of_block(32, 1) == 4 * 256);
  CHECK(registers_of_block(128, 8) == 4 * 256);
  CHECK(registers_of_block(128, 9) == 4 * 512);
  CHECK(registers_of_block(160, 8) == 8 * 256);
  CHECK(registers_of_block(512, 128) == 65536);
  CHECK(registers_of_block(1024, 64) == 65536);
}

TEST_CASE("a launch that a device would refuse is told of with its values") {
  const auto trouble = [](const Launched& launched, const Resources& taken) {
    return launch_trouble(launched, taken).value_or("");
  };
  CHECK(trouble({"norm", 512, 512, 48 << 10}, {128, 0, 0}) == "");
  CHECK(trouble({"norm", 1024, 1024, 0}, {64, 0, 0}) == "");
  CHECK(
      trouble({"norm", 512, 1024, 0}, {40, 0, 0}) ==
      "norm is launched with 1024 threads a block: it is compiled for 512, and a block has at most "
      "1024");
  CHECK(trouble({"norm", 2048, 1056, 0}, {40, 0, 0}) ==
        "norm is launched with 1056 threads a block: it is compiled for 2048, and a block has at "
        "most 1024");
  CHECK(trouble({"norm", 1024, 1024, 0}, {72, 0, 0}) ==
        "norm takes 72 registers a thread, and its 1024 threads 73728: a block has 65536");
  CHECK(trouble({"norm", 64, 64, 0}, {}) ==
        "norm takes 0 registers a thread, and its 64 threads 0: a block has 65536");
  CHECK(trouble({"norm", 64, 64, 48 << 10}, {40, 0, 16}) ==
        "norm takes 16 bytes of shared memory and is launched with 49152 more: a block has 49152");
  CHECK(trouble({"norm", 544, 512, 0}, {120, 8, 0}) ==
        "norm spills 8 bytes a thread: compiled for 544 threads, each may take 120 registers");
  CHECK(trouble({"norm", 32, 32, 0}, {255, 8, 0}) ==
        "norm spills 8 bytes a thread: compiled for 32 threads, each may take 255 registers");
}

TEST_CASE("a table tells the worst first, and what is wrong") {
  KernelTable table;
  table.add({{"small", 64, 64, 0}, "sm_90", {8, 0, 0}});
  table.add({{"large", 1024, 1024, 4096}, "sm_80", {72, 0, 0}});
  CHECK(table.troubles == std::vector<std::string>{"sm_80: large takes 72 registers a thread, and "
                                                   "its 1024 threads 73728: a block has 65536"});
  CHECK(table.text(2) ==
        "arch   threads bound registers spilled shared  kernel\n"
        "sm_80     1024  1024        72       0   4096  large\n"
        "sm_90       64    64         8       0      0  small\n");
  CHECK(table.text(1) ==
        "arch   threads bound registers spilled shared  kernel\n"
        "sm_80     1024  1024        72       0   4096  large\n");
}

TEST_CASE("a generated source states its bound") {
  CHECK(bound_of("struct Kernel {\n  static constexpr int most_threads = 96;\n") == 96);
  CHECK(bound_of("struct Kernel {\n") == 0);
}

TEST_CASE("what launches ask for is kept at its most") {
  LaunchListener driver;
  const auto launch = [&](KernelShape shape) {
    driver.prepare(GeneratedCommand{
        std::make_shared<const std::string>("static constexpr int most_threads = 64;"),
        "add",
        {},
        shape});
  };
  launch({.threads = 32, .shared_bytes = 16});
  launch({.threads = 64, .shared_bytes = 8});
  REQUIRE(driver.generated.size() == 1);
  const Launched& kept = driver.generated.begin()->second;
  CHECK(kept.name == "add");
  CHECK(kept.bound == 64);
  CHECK(kept.threads == 64);
  CHECK(kept.shared_bytes == 16);
}

}  // namespace
}  // namespace metronome
