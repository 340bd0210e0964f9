// The driver of a real device over a stub of the CUDA runtime: what it calls, what it leaves behind
// where a call fails, and that it breaks no capture of others.
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <memory>
#include <optional>
#include <semaphore>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/error_of.h"
#include "tests/skipped.h"

#ifndef METRONOME_NO_CUDA
#include "executor/cuda/program/io_kernels.h"
#include "executor/cuda/runtime/runtime_driver.h"
#include "graph/ir/error.h"
#include "ops/cuda/commands.h"
#include "tests/cuda_runtime/products.h"
#include "tests/cuda_runtime/stub.h"
#endif

namespace metronome::executor::runtime {
namespace {

using tests::error_of;

#ifdef METRONOME_NO_CUDA

METRONOME_SKIPPED("the driver of a device over a stub of the CUDA runtime", METRONOME_NO_CUDA)

#else

Command kernel() {
  CommandList list;
  list.launch(cuda::ClearGuards{}, {.blocks = 1, .threads = 32});
  return list.commands()[0];
}

Command product(std::byte* a, std::byte* d) {
  return GemmCommand{.problem = {.m = 1, .n = 1, .k = 1}, .a = a, .b = a, .d = d};
}

/// A step as the executor makes it, on a driver that may have been used before: memory, commands, a
/// graph of two streams, one with regions, launches. Gives what the driver says of other bytes.
std::size_t use(RuntimeDriver& driver) {
  std::byte* const x = driver.device_memory(64);
  std::byte* const y = driver.device_memory(64);
  const MappedMemory mapped = driver.mapped_memory(64);
  const auto locked = driver.page_locked_memory(64);
  const std::byte own{};
  const std::array locks = {driver.is_page_locked(locked.get() + 63), driver.is_page_locked(&own)};
  CHECK(locks == std::array{true, false});
  const std::array lies = {driver.is_device_memory(x + 63), driver.is_device_memory(locked.get()),
                           driver.is_device_memory(&own)};
  CHECK(lies == std::array{true, false, false});
  const CudaStream main = driver.make_stream(), side = driver.make_stream();
  const CudaEvent forked = driver.make_event(), joined = driver.make_event();
  const CudaEvent begin = driver.make_timed_event(), end = driver.make_timed_event();
  const Command commands[] = {kernel(), CopyCommand{y, x, 64}, ZeroCommand{x, 64}, product(x, y)};
  int nodes = 0;
  for (const Command& command : commands) {
    const CapturedNodes captured = driver.prepare(command);
    CHECK(captured.conditional);
    nodes += captured.nodes;
    driver.enqueue(command, main);
  }
  CHECK(nodes == 5);  // the product takes two
  driver.upload(x, locked.get(), 64, main);
  const CudaStream callers = driver.stream_of_caller(nullptr);
  const bool same = driver.stream_of_caller(nullptr) == callers;
  CHECK(same);
  driver.record(forked, callers);
  driver.wait(main, forked);

  driver.begin_capture(main);
  std::optional<CudaGraphExec> streams, regions;
  try {
    driver.begin_early(main);
    driver.enqueue(commands[0], main);
    driver.enqueue(commands[0], main);
    driver.record(forked, main);
    driver.wait(side, forked);
    driver.enqueue(commands[3], side);
    driver.record(joined, side);
    driver.enqueue(commands[1], main);
    driver.wait(main, joined);
    driver.enqueue(commands[2], main);
    streams = driver.end_capture(main, 6);

    const bool* const guard = reinterpret_cast<const bool*>(x);
    const std::array<const bool*, 2> two = {guard, guard + 1};
    driver.begin_capture(main);
    driver.enqueue(commands[0], main);
    driver.begin_cases(std::span(two).first(1), false, main);
    driver.enqueue(commands[3], main);
    driver.begin_cases(two, true, main);
    driver.enqueue(commands[1], main);
    driver.next_case(main);
    driver.next_case(main);
    driver.enqueue(commands[2], main);
    driver.end_cases(main);
    driver.enqueue(commands[0], main);
    driver.end_cases(main);
    driver.enqueue(commands[0], main);
    regions = driver.end_capture(main, 2 + 2 + 2 + 2 + 1 + 1 + 1);
  } catch (...) {
    driver.abandon_capture(main);
    throw;
  }
  driver.record(begin, main);
  driver.launch(*streams, main);
  driver.launch(*regions, main);
  driver.record(end, main);
  driver.wait(side, end);
  driver.synchronize(end);
  driver.synchronize(side);
  const bool done = driver.is_done(end);
  CHECK(done);
  const double ms = driver.milliseconds(begin, end);
  CHECK(ms == 1);
  driver.download(mapped.host, y, 64, main);
  const std::size_t other = driver.other_bytes();
  driver.release(*regions);
  driver.release(*streams);
  driver.release(x);
  driver.release(y);
  return other;
}

TEST_CASE("streams, events and conditions become edges and bodies") {
  stub::reset();
  {
    RuntimeDriver driver(0, stub::products);
    CHECK(use(driver) == 2 * (2 << 20));  // two graphs, as the stub reckons
    CHECK(stub::last_graph() == R"(0 kernel
1 kernel after 0
2 condition after 1
  0 child
    0 copy
    1 zero after 0
  1 kernel after 0
  2 condition after 1
    case 0
    0 copy
    case 1
    case 2
    0 zero
  3 kernel after 2
3 kernel after 2
)");
    const CudaStream main = driver.make_stream(), side = driver.make_stream();
    const CudaEvent forked = driver.make_event(), joined = driver.make_event();
    driver.begin_capture(main);
    driver.enqueue(kernel(), main);
    driver.record(forked, main);
    driver.wait(side, forked);
    driver.wait(side, forked);  // twice is once
    driver.enqueue(kernel(), side);
    driver.enqueue(kernel(), main);
    driver.record(joined, side);
    driver.wait(main, joined);
    driver.enqueue(kernel(), main);
    driver.end_capture(main, 4);
    CHECK(stub::last_graph() == R"(0 kernel
1 kernel after 0
2 kernel after 0
3 kernel after 2 1
)");
  }
  CHECK(stub::living() == stub::Living{});
}

TEST_CASE("a kernel that comes after one other alone begins early where that is asked for") {
  stub::reset();
  {
    RuntimeDriver driver(0, stub::products);
    CHECK(driver.begins_early());
    std::byte* const x = driver.device_memory(64);
    const CudaStream main = driver.make_stream(), side = driver.make_stream();
    const CudaEvent forked = driver.make_event(), joined = driver.make_event();
    driver.prepare(product(x, x));
    driver.begin_capture(main);
    driver.begin_early(main);
    driver.enqueue(kernel(), main);
    driver.enqueue(kernel(), main);
    driver.record(forked, main);
    driver.wait(side, forked);
    driver.enqueue(kernel(), side);
    driver.enqueue(kernel(), main);
    driver.record(joined, side);
    driver.wait(main, joined);
    driver.enqueue(kernel(), main);
    driver.enqueue(product(x, x), main);
    driver.enqueue(kernel(), main);
    driver.enqueue(ZeroCommand{x, 64}, main);
    driver.enqueue(kernel(), main);
    driver.end_capture(main, 10);
    CHECK(stub::last_graph() == R"(0 kernel
1 kernel after 0, early
2 kernel after 1, early
3 kernel after 1, early
4 kernel after 3 2
5 child after 4
  0 copy
  1 zero after 0
6 kernel after 5
7 zero after 6
8 kernel after 7
)");
    // The next graph is as ever.
    driver.begin_capture(main);
    driver.enqueue(kernel(), main);
    driver.enqueue(kernel(), main);
    driver.end_capture(main, 2);
    CHECK(stub::last_graph() == "0 kernel\n1 kernel after 0\n");
    driver.release(x);
  }
  CHECK(stub::living() == stub::Living{});
}

TEST_CASE("whichever call fails, the driver goes on and nothing is left behind") {
  stub::reset();
  {
    RuntimeDriver driver(0, stub::products);
    use(driver);
  }
  const std::vector<std::string> all = stub::calls();
  CHECK(all.size() > 150);
  std::set<std::string> names;
  for (std::size_t i = 0; i < all.size(); ++i) {
    CAPTURE(i);
    CAPTURE(all[i]);
    stub::reset();
    stub::fail(static_cast<int>(i));
    std::unique_ptr<RuntimeDriver> driver;
    const std::string error = error_of<std::exception>([&] {
      driver = std::make_unique<RuntimeDriver>(0, stub::products);
      use(*driver);
    });
    if (error != "nothing") {
      names.insert(all[i]);
      CHECK(error.starts_with("CUDA cannot "));
      CHECK(error.ends_with(": unknown error (cudaErrorOfTheStub)"));
    }
    CHECK_FALSE(stub::is_held_back());
    stub::fail(-1);
    if (driver) use(*driver);
    driver.reset();
    CHECK(stub::living() == stub::Living{});
  }
  // These may fail without a word: what frees, what only tells of memory, what a destructor waits
  // for.
  std::set<std::string> silent(all.begin(), all.end());
  for (const std::string& name : names) silent.erase(name);
  CHECK(fmt::format("{}", fmt::join(silent, " ")) ==
        "cudaEventDestroy cudaFree cudaFreeHost cudaGraphDestroy cudaGraphExecDestroy "
        "cudaMemGetInfo cudaStreamDestroy");
}

TEST_CASE("a library's call that fails or breaks its capture") {
  stub::reset();
  {
    RuntimeDriver driver(0, stub::products);
    std::byte* const x = driver.device_memory(64);
    const CudaStream main = driver.make_stream();
    const bool* const guard = reinterpret_cast<const bool*>(x);
    using Case = std::pair<stub::Does, std::string>;
    for (const auto& [does, said] :
         {Case{stub::Does::fail, "the library cannot"},
          Case{stub::Does::wait,
               "Metronome made a mistake of its own, please report it: CUDA cannot wait in a "
               "product: operation not permitted when stream "
               "is capturing (cudaErrorOfTheStub)"}}) {
      stub::library_does = does;
      CHECK(error_of<std::exception>([&] { driver.prepare(product(x, x)); }) == said);
      CHECK_FALSE(stub::is_held_back());
      stub::library_does = stub::Does::work;
      CHECK(driver.prepare(product(x, x)).nodes == 2);
      // In a conditional region of a graph.
      driver.begin_capture(main);
      driver.begin_cases(std::span(&guard, 1), false, main);
      stub::library_does = does;
      CHECK(error_of<std::exception>([&] { driver.enqueue(product(x, x), main); }) == said);
      driver.abandon_capture(main);
      CHECK_FALSE(stub::is_held_back());
      stub::library_does = stub::Does::work;
      use(driver);
    }
    driver.release(x);
  }
  CHECK(stub::living() == stub::Living{});
}

TEST_CASE("a capture that does not end is left behind with its stream") {
  stub::reset();
  {
    RuntimeDriver driver(0, stub::products);
    std::byte* const x = driver.device_memory(64);
    stub::fail("cudaStreamEndCapture", cudaErrorUnknown);
    CHECK(error_of<std::exception>([&] { driver.prepare(product(x, x)); }) ==
          "CUDA cannot end a capture: unknown error (cudaErrorOfTheStub)");
    stub::fail("cudaStreamEndCapture", cudaSuccess);
    use(driver);
  }
  const stub::Living left = stub::living();
  CHECK(left.streams == 1);
  CHECK(left.graphs == 1);
  CHECK(left.memory == 0);
  stub::forget();
}

TEST_CASE("captures of other threads stay whole") {
  stub::reset();
  {
    RuntimeDriver driver(0, stub::products);
    const Stream other = [] {
      cudaStream_t made = nullptr;
      check(cudaStreamCreateWithFlags(&made, cudaStreamNonBlocking), "make a stream");
      return Stream(made);
    }();
    for (const cudaStreamCaptureMode mode :
         {cudaStreamCaptureModeThreadLocal, cudaStreamCaptureModeRelaxed}) {
      std::binary_semaphore begun(0), used(0);
      cudaError_t ended = cudaErrorUnknown;
      std::thread thread([&] {
        check(cudaStreamBeginCapture(other.get(), mode), "begin a capture");
        begun.release();
        used.acquire();
        cudaGraph_t made = nullptr;
        ended = cudaStreamEndCapture(other.get(), &made);
        const RecordedGraph graph(made);
      });
      begun.acquire();
      use(driver);
      used.release();
      thread.join();
      CHECK(ended == cudaSuccess);
    }
  }
  CHECK(stub::living() == stub::Living{});
}

TEST_CASE("the device that a caller works with is current again after each call") {
  stub::reset();
  for (const int own : {-1, 0, 3}) {
    CAPTURE(own);
    std::vector<int> found;
    std::thread([&] {  // on which no device is current yet
      if (own >= 0) static_cast<void>(cudaSetDevice(own));
      {
        RuntimeDriver driver(1, stub::products);
        found.push_back(stub::device_in_use());
        const CudaStream main = driver.make_stream();
        found.push_back(stub::device_in_use());
        driver.begin_capture(main);
        found.push_back(stub::device_in_use());
        driver.abandon_capture(main);
        use(driver);
        found.push_back(stub::device_in_use());
        stub::fail("cudaStreamCreateWithFlags", cudaErrorUnknown);
        try {
          driver.make_stream();
        } catch (const RunError&) {
          found.push_back(stub::device_in_use());
        }
        stub::fail("cudaStreamCreateWithFlags", cudaSuccess);
      }
      found.push_back(stub::device_in_use());
    })
        .join();
    CHECK(found == std::vector<int>(6, own));
  }
  CHECK(stub::living() == stub::Living{});
}

TEST_CASE("page-locked memory is given back with its device current, on whatever thread") {
  stub::reset();
  {
    RuntimeDriver driver(1, stub::products);
    std::shared_ptr<std::byte> locked = driver.page_locked_memory(64);
    std::thread([&] {  // on which no device is current
      const std::size_t before = stub::calls().size();
      locked.reset();
      const std::vector<std::string> calls(
          stub::calls().begin() + static_cast<std::ptrdiff_t>(before), stub::calls().end());
      CHECK(calls == std::vector<std::string>{"cudaGetDevice", "cudaSetDevice", "cudaFreeHost"});
      CHECK(stub::device_in_use() == -1);
    })
        .join();
  }
  CHECK(stub::living() == stub::Living{});
}

/// Names of the CUDA runtime's symbols, of lines as nm writes them.
std::set<std::string> symbols(FILE* lines) {
  REQUIRE(lines != nullptr);
  std::set<std::string> names;
  char line[4096];
  while (std::fgets(line, sizeof line, lines) != nullptr) {
    const std::string text(line, std::strcspn(line, "\n"));
    const std::string name = text.substr(text.rfind(' ') + 1);
    if (name.starts_with("cuda")) names.insert(name.substr(0, name.find('@')));
  }
  return names;
}

TEST_CASE("nothing that is linked waits for the whole device, or uses the legacy stream") {
  FILE* const linked = std::fopen("tests/cuda_runtime/linked.txt", "r");
  const std::set<std::string> used = symbols(linked);
  std::fclose(linked);
  CHECK(used.size() > 40);
  FILE* const own = popen(fmt::format("nm --defined-only /proc/{}/exe", getpid()).c_str(), "r");
  const std::set<std::string> stubs = symbols(own);
  CHECK(pclose(own) == 0);
  std::vector<std::string> unknown, wrong;
  std::ranges::set_difference(used, stubs, std::back_inserter(unknown));
  // Calls that only tell which devices there are belong to no driver.
  CHECK(fmt::format("{}", fmt::join(unknown, " ")) == "cudaDriverGetVersion cudaGetDeviceCount");
  const std::set<std::string> forbidden = {"cudaDeviceReset",  "cudaDeviceSynchronize",
                                           "cudaMemcpy",       "cudaMemset",
                                           "cudaStreamCreate", "cudaThreadSynchronize"};
  std::ranges::set_intersection(used, forbidden, std::back_inserter(wrong));
  CHECK(fmt::format("{}", fmt::join(wrong, " ")) == "");
}

#endif

}  // namespace
}  // namespace metronome::executor::runtime
