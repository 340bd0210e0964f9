// A device's own records, read by the driver over stubs of the CUDA runtime and of CUPTI.
#include <dlfcn.h>
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tests/cuda_runtime/cupti_stub.h"
#include "tests/error_of.h"
#include "tests/executor/logged.h"
#include "tests/skipped.h"

#ifdef METRONOME_CUPTI
#include "executor/cuda/program/io_kernels.h"
#include "executor/cuda/runtime/runtime_driver.h"
#include "executor/support/log.h"
#include "graph/ir/error.h"
#include "ops/cuda/commands.h"
#include "tests/cuda_runtime/products.h"
#include "tests/cuda_runtime/stub.h"
#endif

namespace metronome::executor::runtime {
namespace {

#ifndef METRONOME_CUPTI

METRONOME_SKIPPED("a device's records over stubs", "this build has no CUPTI")

#else

/// The stub of CUPTI, which the driver finds under the library's name, told of all that the stub of
/// the CUDA runtime copies and runs.
class Cupti {
 public:
  Cupti() {
    stub::reset();
    logger().set_level(spdlog::level::info);
    ::setenv("METRONOME_CUDA", "tests/cuda_runtime", 1);
    library_ = dlopen("tests/cuda_runtime/lib64/libcupti.so.13", RTLD_LAZY | RTLD_LOCAL);
    REQUIRE_MESSAGE(library_ != nullptr, dlerror());
    fail("", CUPTI_SUCCESS);
    stub::watch({[this](cudaGraphNode_t original, cudaGraphNode_t copy) {
                   of<decltype(stub_cupti_copied)>("stub_cupti_copied")(original, copy);
                 },
                 [this](cudaGraphNode_t node, cudaGraphNodeType type) {
                   if (node != nullptr && type == lost) return;
                   const CUpti_ActivityKind kind =
                       type == cudaGraphNodeTypeKernel   ? CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL
                       : type == cudaGraphNodeTypeMemcpy ? CUPTI_ACTIVITY_KIND_MEMCPY
                                                         : CUPTI_ACTIVITY_KIND_MEMSET;
                   of<decltype(stub_cupti_ran)>("stub_cupti_ran")(node, kind);
                 }});
  }
  ~Cupti() {
    CHECK(of<decltype(stub_cupti_busy)>("stub_cupti_busy")() == 0);
    CHECK(stub::living() == stub::Living{});
    stub::forget();
  }
  void fail(const char* function, CUptiResult error) const {
    of<decltype(stub_cupti_fail)>("stub_cupti_fail")(function, error);
  }
  void drop(std::size_t records) const {
    of<decltype(stub_cupti_drop)>("stub_cupti_drop")(records);
  }
  /// Nodes of this type have no records.
  cudaGraphNodeType lost = cudaGraphNodeTypeEmpty;

 private:
  template <class Function>
  Function* of(const char* name) const {
    void* const found = dlsym(library_, name);
    REQUIRE_MESSAGE(found != nullptr, name);
    return reinterpret_cast<Function*>(found);
  }

  void* library_ = nullptr;
};

/// A step of a kernel, a product, a condition over a copy, and a zeroing.
class Step {
 public:
  explicit Step(RuntimeDriver& driver) : driver_(driver), main_(driver.make_stream()) {
    std::byte* const x = driver.device_memory(64);
    CommandList list;
    list.launch(cuda::ClearGuards{}, {.blocks = 1, .threads = 32});
    commands_ = {list.commands()[0],
                 GemmCommand{.problem = {.m = 1, .n = 1, .k = 1}, .a = x, .b = x, .d = x},
                 CopyCommand{x, x + 32, 32}, ZeroCommand{x, 64}};
    for (const Command& command : commands_) driver.prepare(command);
    const bool* const guard = reinterpret_cast<const bool*>(x);
    driver.begin_capture(main_);
    driver.enqueue(commands_[0], main_);
    driver.enqueue(commands_[1], main_);
    driver.begin_cases({&guard, 1}, false, main_);
    driver.enqueue(commands_[2], main_);
    driver.end_cases(main_);
    driver.enqueue(commands_[3], main_);
    graph_ = driver.end_capture(main_, 1 + 2 + 2 + 1 + 1);
  }

  std::optional<std::vector<RunRecord> > launch() {
    return driver_.launch_by_records(graph_, main_);
  }
  std::optional<std::vector<double> > measure() {
    std::vector<std::span<const Command> > pieces;
    for (const Command& command : commands_) pieces.emplace_back(&command, 1);
    return driver_.measure_by_records(pieces, main_);
  }
  void release() { driver_.release(graph_); }

 private:
  RuntimeDriver& driver_;
  CudaStream main_;
  std::vector<Command> commands_;
  CudaGraphExec graph_;
};

std::ptrdiff_t count(const std::string& call) { return std::ranges::count(stub::calls(), call); }

/// "0: 0 to 1; 1: 1.25 to 2.25".
std::string text(const std::vector<RunRecord>& runs) {
  std::vector<std::string> parts;
  for (const RunRecord& run : runs) {
    parts.push_back(fmt::format("{}: {} to {}", run.command, run.begin, run.end));
  }
  return fmt::format("{}", fmt::join(parts, "; "));
}

// The product takes two nodes, of a child graph; a kernel reads the guard.
const char* const kWhole =
    "0: 0 to 1; 1: 1.25 to 2.25; 1: 2.5 to 3.5; -1: 3.75 to 4.75; 2: 5 to 6; 3: 6.25 to 7.25";

TEST_CASE("a launch tells of each command, in child graphs and conditions") {
  const Cupti cupti;
  {
    RuntimeDriver driver(0, stub::products);
    Step step(driver);
    const auto first = step.launch();
    REQUIRE(first);
    CHECK(text(*first) == kWhole);
    // The second executable graph is made once.
    const std::ptrdiff_t made = count("cudaGraphInstantiate"), launched = count("cudaGraphLaunch");
    const auto second = step.launch();
    REQUIRE(second);
    CHECK(text(*second) == kWhole);
    CHECK(count("cudaGraphInstantiate") == made);
    CHECK(count("cudaGraphLaunch") == launched + 1);
    // Beside records of commands in a row.
    const auto row = step.measure();
    REQUIRE(row);
    CHECK((*row == std::vector<double>{1, 2, 1, 1}));
    const int executables = stub::living().executables;
    step.release();
    CHECK(stub::living().executables == executables - 2);
  }
}

TEST_CASE("where CUPTI tells of no graph, nothing is launched, and the log says why") {
  struct Refusal {
    const char* function;
    CUptiResult error;
    cudaGraphNodeType lost;
    std::string said;
    bool rows;
  };
  const Refusal refusals[] = {
      {"cuptiSubscribe", CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED, cudaGraphNodeTypeEmpty,
       "no records of graphs: CUPTI tells of no graph's nodes, perhaps as another tool watches "
       "this "
       "process: error 39",
       true},
      {"cuptiEnableCallback", CUPTI_ERROR_INVALID_PARAMETER, cudaGraphNodeTypeEmpty,
       "no records of graphs: CUPTI tells of no graph's nodes: error 1", true},
      {"cuptiGetGraphNodeId", CUPTI_ERROR_UNKNOWN, cudaGraphNodeTypeEmpty,
       "no records of graphs: CUPTI numbers no node of a graph: error 999", true},
      {"", CUPTI_SUCCESS, cudaGraphNodeTypeMemset,
       "no records of graphs: CUPTI tells of 1 of 3 nodes of a graph with a condition", true},
      {"cuptiActivityEnable", CUPTI_ERROR_NOT_INITIALIZED, cudaGraphNodeTypeEmpty,
       "no records of the device: CUPTI refuses to record activities: error 15", false},
  };
  for (const Refusal& refusal : refusals) {
    Cupti cupti;
    cupti.lost = refusal.lost;
    {
      RuntimeDriver driver(0, stub::products);
      Step step(driver);
      if (refusal.error != CUPTI_SUCCESS) cupti.fail(refusal.function, refusal.error);
      const tests::Logged logged;
      CHECK_FALSE(step.launch());
      CHECK(logged.text() == fmt::format("info: {}\n", refusal.said));
      const std::ptrdiff_t launched = count("cudaGraphLaunch");
      CHECK_FALSE(step.launch());  // is not tried again
      CHECK(count("cudaGraphLaunch") == launched);
      CHECK(logged.text() == fmt::format("info: {}\n", refusal.said));
      CHECK(step.measure().has_value() == refusal.rows);
      cupti.fail("", CUPTI_SUCCESS);
    }
  }
}

TEST_CASE("a tool that comes later, or memory that lacks, leaves one graph without records") {
  const Cupti cupti;
  {
    RuntimeDriver driver(0, stub::products);
    Step step(driver), other(driver);
    REQUIRE(step.launch());
    cupti.fail("cuptiSubscribe", CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED);
    const tests::Logged logged;
    CHECK_FALSE(other.launch());
    CHECK(
        logged.text() ==
        "info: no records of this graph: CUPTI tells of no graph's nodes, perhaps as another tool "
        "watches this process: error 39\n");
    cupti.fail("", CUPTI_SUCCESS);
    CHECK(step.launch());
    CHECK(other.launch());
  }
}

TEST_CASE("records that CUPTI dropped are told of, once") {
  const Cupti cupti;
  {
    RuntimeDriver driver(0, stub::products);
    Step step(driver);
    REQUIRE(step.launch());
    const std::string said =
        "warning: CUPTI has dropped 3 records of what the device did: times may be too short\n";
    cupti.drop(3);
    const tests::Logged logged;
    CHECK(step.launch());
    CHECK(logged.text() == said);
    CHECK(step.launch());
    CHECK(logged.text() == said);
    cupti.drop(3);
    CHECK(step.measure());
    CHECK(logged.text() == said + said);
  }
}

TEST_CASE("a call that fails leaves nothing behind, and the next launch is whole") {
  for (int failing = 0;; ++failing) {
    CAPTURE(failing);
    const Cupti cupti;
    int calls = 0;
    {
      RuntimeDriver driver(0, stub::products);
      Step step(driver);
      REQUIRE(step.launch());
      step.release();
      Step again(driver);
      const int before = static_cast<int>(stub::calls().size());
      stub::fail(before + failing);
      const std::string said = tests::error_of<RunError>([&] { again.launch(); });
      calls = static_cast<int>(stub::calls().size()) - before;
      stub::fail(-1);
      if (said != "nothing") CHECK(said.starts_with("CUDA cannot "));
      const auto whole = again.launch();
      REQUIRE(whole);
      CHECK(text(*whole) == kWhole);
    }
    if (failing >= calls) break;
  }
}

#endif

}  // namespace
}  // namespace metronome::executor::runtime
