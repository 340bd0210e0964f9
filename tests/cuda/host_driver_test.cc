// The device made of the host: what it orders, what it leaves open, what it refuses.
#include "tests/cuda/host_driver.h"

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstring>
#include <set>

#include "graph/ir/error.h"

namespace metronome {
namespace {

// x = 10 x + digit: which kernels ran, in which order.
struct Append {
  static constexpr const char* name = "append";
  long long* x;
  int digit;
  template <class Context>
  METRONOME_DEVICE void operator()(Context& c) const {
    if (cuda::first(c) == 0) *x = *x * 10 + digit;
  }
};

HostKernels& kernels() {
  static HostKernels all;
  all.add(cuda::KernelList<Append>{});
  return all;
}

// A driver with streams, and a number in its memory that kernels append digits to.
struct Bench {
  explicit Bench(HostSettings settings = {}) : driver(settings, kernels()) {
    x = reinterpret_cast<long long*>(driver.device_memory(sizeof(long long)));
    for (CudaStream& stream : streams) stream = driver.make_stream();
    for (CudaEvent& event : events) event = driver.make_event();
    driver.prepare(append(0));
  }

  Command append(int digit) const {
    CommandList list;
    list.launch(Append{x, digit}, {});
    return list.commands()[0];
  }
  void run(int digit, int stream) { driver.enqueue(append(digit), streams[stream]); }
  // Stream `to` waits for what is on stream `from` now.
  void join(int from, int to, int event) {
    driver.record(events[event], streams[from]);
    driver.wait(streams[to], events[event]);
  }
  // The number, when all streams are done; the next begins with 0.
  long long number() {
    for (const CudaStream stream : streams) driver.synchronize(stream);
    long long value = 0;
    driver.download(&value, x, sizeof(value), streams[0]);
    const long long zero = 0;
    driver.upload(x, &zero, sizeof(zero), streams[0]);
    driver.synchronize(streams[0]);
    return value;
  }

  HostDriver driver;
  long long* x = nullptr;
  std::array<CudaStream, 3> streams;
  std::array<CudaEvent, 3> events;
};

// Results over many orders.
template <class Program>
std::set<long long> over_orders(const Program& program) {
  std::set<long long> results;
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    Bench bench({.lazy = seed % 2 == 0, .seed = seed});
    program(bench);
    results.insert(bench.number());
  }
  return results;
}

#define CHECK_REFUSED(call, text)                                                              \
  CHECK_THROWS_WITH_AS(                                                                        \
      call,                                                                                    \
      ("Metronome made a mistake of its own, please report it: " + std::string(text)).c_str(), \
      InternalError)

TEST_CASE("memory is zeroed, aligned and guarded") {
  HostDriver driver({}, kernels());
  for (const std::size_t bytes : {0, 1, 1000}) {
    std::byte* memory = driver.device_memory(bytes);
    CHECK(reinterpret_cast<std::uintptr_t>(memory) % 256 == 0);
    CHECK(std::all_of(memory, memory + bytes, [](std::byte b) { return b == std::byte{}; }));
  }
  const MappedMemory mapped = driver.mapped_memory(7);
  CHECK(mapped.host == mapped.device);
  CHECK(driver.counts().allocations == 4);
  driver.check();
  mapped.host[7] = std::byte{1};
  CHECK_REFUSED(driver.check(), "something was written beside 7 bytes of device memory");
}

TEST_CASE("memory ends, and is given back") {
  HostSettings settings;
  settings.properties.memory_bytes = 1000;
  HostDriver driver(settings, kernels());
  std::byte* memory = driver.device_memory(600);
  CHECK_THROWS_WITH_AS(driver.device_memory(401), "the device has no 401 bytes left of its 1000",
                       RunError);
  driver.release(memory);
  driver.device_memory(1000);
  driver.release(memory + 1);
  CHECK_REFUSED(driver.check(), "memory is released that was not handed out");
  driver.check();  // told once
}

TEST_CASE("a wrong release that nobody was told of ends the process") {
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    std::signal(SIGABRT, SIG_DFL);  // not the test's own handler
    {
      HostDriver driver({}, kernels());
      std::byte other{};
      driver.release(&other);
    }
    _exit(0);  // it went on
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(WIFSIGNALED(status));
  CHECK(WTERMSIG(status) == SIGABRT);
}

TEST_CASE("eager work is done at once, lazy work when the host waits") {
  Bench eager;
  eager.run(1, 0);
  CHECK(*eager.x == 1);

  Bench lazy({.lazy = true});
  lazy.run(1, 0), lazy.run(2, 0);
  lazy.driver.record(lazy.events[0], lazy.streams[0]);
  lazy.run(3, 0);
  CHECK(*lazy.x == 0);
  lazy.driver.synchronize(lazy.events[0]);
  CHECK(*lazy.x == 12);
  lazy.driver.synchronize(lazy.streams[0]);
  CHECK(*lazy.x == 123);
}

TEST_CASE("asking for an event moves lazy work on") {
  Bench bench({.lazy = true});
  CHECK(bench.driver.is_done(bench.events[0]));  // never recorded
  bench.run(1, 0);
  bench.driver.record(bench.events[0], bench.streams[0]);
  CHECK_FALSE(bench.driver.is_done(bench.events[0]));
  CHECK(*bench.x == 1);
  CHECK(bench.driver.is_done(bench.events[0]));
}

TEST_CASE("a lazy upload reads its source when the stream comes to it") {
  Bench bench({.lazy = true});
  long long value = 5;
  bench.driver.upload(bench.x, &value, sizeof(value), bench.streams[0]);
  value = 6;
  CHECK(bench.number() == 6);
}

TEST_CASE("streams are ordered by events alone") {
  const auto without = [](Bench& b) { b.run(1, 0), b.run(2, 0), b.run(3, 1); };
  CHECK(over_orders(without) == std::set<long long>{123, 132, 312});
  const auto with = [](Bench& b) { b.run(1, 0), b.join(0, 1, 0), b.run(2, 0), b.run(3, 1); };
  CHECK(over_orders(with) == std::set<long long>{123, 132});
  // A wait is for what was recorded when it was enqueued.
  const auto again = [](Bench& b) {
    b.run(1, 0), b.join(0, 1, 0), b.run(2, 0), b.join(0, 2, 0), b.run(3, 1), b.run(4, 2);
  };
  CHECK(over_orders(again) == std::set<long long>{1234, 1243, 1324});
}

// Captures what `body` enqueues, from stream 0.
template <class Body>
CudaGraphExec captured(Bench& b, int nodes, const Body& body) {
  b.driver.begin_capture(b.streams[0]);
  body();
  return b.driver.end_capture(b.streams[0], nodes);
}

TEST_CASE("a graph replays what was captured, in the order of its edges alone") {
  const auto fork = [](Bench& b, bool join) {
    const CudaGraphExec graph = captured(b, 4, [&] {
      b.run(1, 0);
      b.join(0, 1, 0);
      b.run(2, 1), b.run(3, 0);
      b.join(1, 0, 1);
      if (join) b.run(4, 0);
      if (!join) b.run(4, 1), b.join(1, 0, 2);
    });
    CHECK(b.driver.counts().captured == 4);
    b.driver.launch(graph, b.streams[2]);
    b.driver.launch(graph, b.streams[2]);
  };
  CHECK(over_orders([&](Bench& b) { fork(b, true); }) ==
        std::set<long long>{12341234, 12341324, 13241234, 13241324});
  // Here the fourth is after the second alone.
  CHECK(over_orders([&](Bench& b) { fork(b, false); }) ==
        std::set<long long>{12341234, 12341243, 12341324, 12431234, 12431243, 12431324, 13241234,
                            13241243, 13241324});
}

TEST_CASE("a graph runs once at a time, and beside other streams") {
  const auto program = [](Bench& b) {
    const CudaGraphExec graph = captured(b, 2, [&] { b.run(1, 0), b.run(2, 0); });
    b.driver.launch(graph, b.streams[0]);
    b.driver.launch(graph, b.streams[1]);
    b.run(3, 2);
  };
  CHECK(over_orders(program) == std::set<long long>{12123, 12132, 12312, 13212, 31212});
}

TEST_CASE("what a capture may not do") {
  Bench b;
  b.run(1, 1);
  b.driver.record(b.events[2], b.streams[1]);
  b.driver.begin_capture(b.streams[0]);
  b.run(1, 0);
  const auto refused = [](const std::string& what) { return what + " while a graph is captured"; };
  long long number = 0;
  CHECK_REFUSED(b.driver.device_memory(1), refused("memory is asked for"));
  CHECK_REFUSED(b.driver.mapped_memory(1), refused("mapped memory is asked for"));
  CHECK_REFUSED(b.driver.make_stream(), refused("a stream is made"));
  CHECK_REFUSED(b.driver.make_event(), refused("an event is made"));
  CHECK_REFUSED(b.driver.is_done(b.events[2]), refused("an event is asked for"));
  CHECK_REFUSED(b.driver.synchronize(b.events[2]), refused("the host waits for an event"));
  CHECK_REFUSED(b.driver.synchronize(b.streams[1]), refused("the host waits for a stream"));
  CHECK_REFUSED(b.driver.upload(b.x, &number, 8, b.streams[1]), refused("bytes are uploaded"));
  CHECK_REFUSED(b.driver.download(&number, b.x, 8, b.streams[1]), refused("bytes are downloaded"));
  CHECK_REFUSED(b.driver.prepare(b.append(1)), refused("a command is prepared"));
  CHECK_REFUSED(b.driver.begin_capture(b.streams[1]), refused("a capture begins"));
  CHECK_REFUSED(b.driver.wait(b.streams[0], b.events[2]),
                "stream 0 waits in a capture for event 2 from outside of it");
  CHECK_REFUSED(b.driver.end_capture(b.streams[1], 1), "no capture began on stream 1");
  CHECK_REFUSED(b.driver.end_capture(b.streams[0], 2),
                "the captured graph has 1 nodes, but 2 were expected");
  b.driver.abandon_capture(b.streams[0]);
  b.run(2, 0);
  CHECK(b.number() == 12);
}

TEST_CASE("a stream that was not joined") {
  Bench b;
  b.driver.begin_capture(b.streams[0]);
  b.run(1, 0);
  b.join(0, 1, 0);
  b.run(2, 1);
  CHECK_REFUSED(b.driver.end_capture(b.streams[0], 2),
                "append is captured on a stream that was not joined");
  b.driver.abandon_capture(b.streams[0]);
  CHECK_REFUSED(b.driver.wait(b.streams[1], b.events[0]),
                "stream 1 waits for event 0 of a capture that has ended");
}

TEST_CASE("commands that were not prepared, or leave the device's memory") {
  Bench b;
  std::byte host[8];
  const auto enqueue = [&](const Command& command) { b.driver.enqueue(command, b.streams[0]); };
  HostDriver fresh({}, kernels());
  const CudaStream stream = fresh.make_stream();
  CHECK_REFUSED(fresh.enqueue(b.append(1), stream), "append was not prepared");
  CHECK_REFUSED(enqueue(CopyCommand{host, b.x, 8}),
                "a copy writes 8 bytes outside of device memory");
  CHECK_REFUSED(enqueue(CopyCommand{b.x, host, 8}),
                "a copy reads 8 bytes outside of device memory");
  CHECK_REFUSED(enqueue(ZeroCommand{b.x, 9}),
                "zeros are written to 9 bytes outside of device memory");
  CHECK_REFUSED(b.driver.upload(host, b.x, 8, b.streams[0]),
                "an upload writes 8 bytes outside of device memory");
}

TEST_CASE("products by the library's algorithms") {
  Bench b({.gemm_bias = false});
  const GemmProblem problem{.m = 2, .n = 2, .k = 2};
  auto* numbers = reinterpret_cast<float*>(b.driver.device_memory(12 * sizeof(float)));
  for (int i = 0; i < 8; ++i) numbers[i] = static_cast<float>(i);
  std::byte* workspace = b.driver.device_memory(HostGemmLibrary::kWorkspaceBytes);
  CHECK(b.driver.candidates(GemmCommand{.problem = problem}).size() == 2);
  CHECK(
      b.driver.candidates(GemmCommand{.problem = {.bias = true, .m = 2, .n = 2, .k = 2}}).empty());

  GemmCommand gemm{problem,     numbers, numbers + 4, nullptr,
                   numbers + 8, nullptr, 0,           HostGemmLibrary::kPlain};
  CHECK_REFUSED(b.driver.enqueue(gemm, b.streams[0]), "gemm was not prepared");
  CHECK(b.driver.prepare(gemm).nodes == 1);
  b.driver.enqueue(gemm, b.streams[0]);
  CHECK(std::vector<float>(numbers + 8, numbers + 12) == std::vector<float>{6, 7, 26, 31});

  gemm.algorithm = HostGemmLibrary::kWithWorkspace;
  CHECK_REFUSED(b.driver.prepare(gemm),
                "gemm f32 [2, 2] x [2, 2]: a workspace of 0 bytes in place of 1000");
  gemm.workspace = workspace;
  gemm.workspace_bytes = HostGemmLibrary::kWorkspaceBytes;
  CHECK(b.driver.prepare(gemm).nodes == 2);
  std::memset(numbers + 8, 0, 4 * sizeof(float));
  b.driver.launch(captured(b, 2, [&] { b.driver.enqueue(gemm, b.streams[0]); }), b.streams[0]);
  CHECK(std::vector<float>(numbers + 8, numbers + 12) == std::vector<float>{6, 7, 26, 31});

  gemm.algorithm = Algorithm{{7}};
  CHECK_REFUSED(b.driver.prepare(gemm), "gemm f32 [2, 2] x [2, 2]: no algorithm 0000000000000007");
}

// A call of a library that no driver was told of.
struct Fold {
  static constexpr std::string_view name = "fold";
  static constexpr Maker maker = Maker::own;
  std::optional<Algorithm> algorithm = {};
  std::string text() const { return "of nothing"; }
  std::vector<LibraryOperand> operands() const { return {}; }
  void check() const {}
};

TEST_CASE("a library's call stays within the device's memory, and has a library") {
  Bench b;
  auto* numbers = reinterpret_cast<float*>(b.driver.device_memory(8 * sizeof(float)));
  const float here[4] = {};
  GemmCommand gemm{{.m = 2, .n = 2, .k = 2}, here, numbers, nullptr, numbers + 4};
  b.driver.prepare(gemm);
  CHECK_REFUSED(b.driver.enqueue(gemm, b.streams[0]),
                "gemm reads 16 bytes outside of device memory");
  gemm.a = numbers;
  gemm.d = numbers + 5;
  CHECK_REFUSED(b.driver.enqueue(gemm, b.streams[0]),
                "gemm writes 16 bytes outside of device memory");
  gemm.b = nullptr;
  CHECK_REFUSED(b.driver.prepare(gemm), "gemm f32 [2, 2] x [2, 2]: no operand");
  CHECK_REFUSED(b.driver.prepare(Fold{}), "no library of the host makes fold");
}

TEST_CASE("time goes by with work, for events that were made to tell it") {
  Bench b;
  const CudaEvent begin = b.driver.make_timed_event(), end = b.driver.make_timed_event();
  b.driver.record(begin, b.streams[0]);
  CHECK_REFUSED(b.driver.milliseconds(begin, end), "event 4 has not happened");
  b.run(1, 0), b.run(2, 0);
  b.driver.record(end, b.streams[0]);
  CHECK(b.driver.milliseconds(begin, end) == doctest::Approx(0.004));
  const CudaGraphExec graph = captured(b, 2, [&] { b.run(1, 0), b.run(2, 0); });
  b.driver.record(begin, b.streams[0]);
  b.driver.launch(graph, b.streams[0]);
  b.driver.record(end, b.streams[0]);
  CHECK(b.driver.milliseconds(begin, end) == doctest::Approx(0.002));
  b.driver.record(b.events[0], b.streams[0]);
  CHECK_REFUSED(b.driver.milliseconds(b.events[0], end), "event 0 was made without timing");
}

TEST_CASE("it counts what it was asked for") {
  Bench b;
  const CudaGraphExec graph = captured(b, 2, [&] { b.run(1, 0), b.run(2, 0); });
  b.run(3, 0);
  for (int i = 0; i < 3; ++i) b.driver.launch(graph, b.streams[0]);
  CHECK(b.number() == 3121212);
  CHECK(b.driver.counts() == HostCounts{.allocations = 1,
                                        .synchronizations = 4,
                                        .uploads = 1,
                                        .downloads = 1,
                                        .enqueued = 1,
                                        .captured = 2,
                                        .graphs = 1,
                                        .launches = 3});
}

TEST_CASE("a hook may make an enqueue fail") {
  Bench b;
  b.driver.on_enqueue = [](const Command& command, CudaStream) {
    throw RunError("no " + name_of(command));
  };
  CHECK_THROWS_WITH_AS(b.run(1, 0), "no append", RunError);
  CHECK(b.number() == 0);
}

}  // namespace
}  // namespace metronome
