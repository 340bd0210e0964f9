#include "benchmarks/gpu_check/probe.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "executor/cuda/program/device_state.h"
#include "graph/ir/error.h"
#include "ops/cuda/convolution_call.h"

namespace metronome::gpu_check {
namespace {

using Clock = std::chrono::steady_clock;

using Block = executor::program::DeviceBlock;

/// Graphs of marks: what runs copies a byte, so that it is seen what ran.
class Marks {
 public:
  static constexpr int kCount = 8;

  explicit Marks(CudaDriver& driver) : driver_(driver), stream_(driver.make_stream()) {
    const std::vector<std::uint8_t> ones(kCount, 1);
    driver_.upload(source_.data(), ones.data(), ones.size(), stream_);
    driver_.synchronize(stream_);
    for (int i = 0; i < kCount; ++i) {
      commands_.emplace_back(CopyCommand{seen_.data() + i, source_.data() + i, 1});
      driver_.prepare(commands_.back());
    }
  }

  CudaStream stream() const { return stream_; }
  const bool* flag(int i) const { return reinterpret_cast<const bool*>(flags_.data() + i); }

  // While a graph is made:
  void mark(int i) { enqueue(commands_[static_cast<std::size_t>(i)], 1); }
  void enqueue(const Command& command, int nodes) {
    driver_.enqueue(command, stream_);
    nodes_ += nodes;
  }
  /// A conditional node over the first flags; without a body for "none of them" if not `otherwise`.
  void cases(int flags, bool otherwise, const std::vector<std::function<void()>>& bodies) {
    std::vector<const bool*> guards;
    for (int i = 0; i < flags; ++i) guards.push_back(flag(next_flag_ + i));
    next_flag_ += flags;
    driver_.begin_cases(guards, otherwise, stream_);
    nodes_ += CudaDriver::kCaseNodes;
    for (std::size_t i = 0; i < bodies.size(); ++i) {
      if (i > 0) driver_.next_case(stream_);
      bodies[i]();
    }
    driver_.end_cases(stream_);
  }
  void count(int nodes) { nodes_ += nodes; }
  /// The next condition reads the first flags again.
  void again() { next_flag_ = 0; }
  CudaGraphExec graph(const std::function<void()>& make) {
    nodes_ = next_flag_ = 0;
    driver_.begin_capture(stream_);
    try {
      make();
      return driver_.end_capture(stream_, nodes_);
    } catch (...) {
      driver_.abandon_capture(stream_);
      throw;
    }
  }

  void set_flags(const std::string& flags) {
    std::vector<std::uint8_t> set(kCount);
    for (std::size_t i = 0; i < flags.size(); ++i) set[i] = flags[i] == '1';
    driver_.upload(flags_.data(), set.data(), kCount, stream_);
  }
  /// The marks that a launch leaves where flags are so: "02" where those two ran.
  std::string launch(CudaGraphExec graph, const std::string& flags) {
    std::vector<std::uint8_t> seen(kCount);
    driver_.upload(seen_.data(), seen.data(), kCount, stream_);
    set_flags(flags);
    driver_.launch(graph, stream_);
    driver_.synchronize(stream_);
    driver_.download(seen.data(), seen_.data(), kCount, stream_);
    std::string ran;
    for (std::size_t i = 0; i < seen.size(); ++i) {
      if (seen[i] != 0) ran += std::to_string(i);
    }
    return ran;
  }

  /// One graph, launched with each of these flags, which must leave these marks.
  void expect(Outcome& outcome, const std::function<void()>& make,
              const std::vector<std::pair<std::string, std::string>>& cases) {
    const CudaGraphExec made = graph(make);
    outcome.passed = true;
    for (const auto& [flags, expected] : cases) {
      const std::string ran = launch(made, flags);
      outcome.detail += fmt::format("{}flags {}: {}", outcome.detail.empty() ? "" : "; ", flags,
                                    ran.empty() ? "nothing" : ran);
      if (ran == expected) continue;
      outcome.passed = false;
      outcome.detail += fmt::format(" in place of {}", expected.empty() ? "nothing" : expected);
    }
    driver_.release(made);
  }

 private:
  CudaDriver& driver_;
  CudaStream stream_;
  Block flags_{driver_, kCount}, source_{driver_, kCount}, seen_{driver_, kCount};
  std::vector<Command> commands_;
  int nodes_ = 0, next_flag_ = 0;
};

void if_runs(Outcome& outcome, Marks& marks) {
  marks.expect(outcome,
               [&] {
                 marks.mark(0);
                 marks.cases(1, false, {[&] { marks.mark(1); }});
                 marks.mark(2);
               },
               {{"1", "012"}, {"0", "02"}, {"1", "012"}});
}

void if_in_if(Outcome& outcome, Marks& marks) {
  const auto inner = [&] {
    marks.mark(0);
    marks.cases(1, false, {[&] { marks.mark(1); }});
    marks.mark(2);
  };
  marks.expect(outcome, [&] { marks.cases(1, false, {inner}); },
               {{"11", "012"}, {"10", "02"}, {"01", ""}, {"00", ""}});
}

void switch_with_an_empty_body(Outcome& outcome, Marks& marks) {
  marks.expect(
      outcome,
      [&] { marks.cases(2, true, {[&] { marks.mark(0); }, [&] { marks.mark(1); }, [] {}}); },
      {{"10", "0"}, {"11", "0"}, {"01", "1"}, {"00", ""}});
}

void memset_in_a_body(Outcome& outcome, CudaDriver& driver, Marks& marks) {
  const Block block(driver, 4096);
  const Command zero = ZeroCommand{block.data(), 4096};
  driver.prepare(zero);
  const CudaGraphExec graph =
      marks.graph([&] { marks.cases(1, false, {[&] { marks.enqueue(zero, 1); }}); });
  std::vector<std::uint8_t> sent(4096, 7), found(4096);
  const auto left = [&](const char* flags) {
    driver.upload(block.data(), sent.data(), sent.size(), marks.stream());
    marks.launch(graph, flags);
    driver.download(found.data(), block.data(), found.size(), marks.stream());
    return found;
  };
  outcome.passed = left("0") == sent && left("1") == std::vector<std::uint8_t>(4096);
  outcome.detail = "4096 bytes";
  driver.release(graph);
}

/// A library's call, made alone and then in a conditional node's body: the same bits.
void call_in_a_body(Outcome& outcome, CudaDriver& driver, Marks& marks, const LibraryCommand& call,
                    const std::byte* result, std::size_t bytes) {
  const CapturedNodes captured = driver.prepare(call);
  const auto read = [&] {
    std::vector<std::byte> found(bytes);
    driver.download(found.data(), result, bytes, marks.stream());
    return found;
  };
  const std::vector<std::byte> before = read();
  driver.enqueue(call, marks.stream());
  const std::vector<std::byte> alone = read();
  const Command clear = ZeroCommand{const_cast<std::byte*>(result), bytes};
  driver.prepare(clear);
  driver.enqueue(clear, marks.stream());
  driver.synchronize(marks.stream());
  outcome.detail =
      fmt::format("{}, {} node{}", call.text(), captured.nodes, captured.nodes == 1 ? "" : "s");
  if (!captured.conditional) {
    outcome.detail += "; it may not stand in a body";
    return;
  }
  const CudaGraphExec graph =
      marks.graph([&] { marks.cases(1, false, {[&] { marks.enqueue(call, captured.nodes); }}); });
  marks.launch(graph, "0");
  const bool idle = read() == before;
  marks.launch(graph, "1");
  outcome.passed = idle && read() == alone && alone != before;
  driver.release(graph);
}

/// Takes of a library the candidate with the most workspace, and f(command) with it.
template <class Call, class F>
void with_largest(CudaDriver& driver, Call call, const F& f) {
  const std::vector<Candidate> offered = driver.candidates(call);
  if (offered.empty()) throw RunError("no library offers it: " + call.text());
  const Candidate& chosen = *std::ranges::max_element(offered, {}, &Candidate::scratch_bytes);
  const Block workspace(driver, chosen.scratch_bytes);
  call.workspace = workspace.data();
  call.workspace_bytes = chosen.scratch_bytes;
  call.algorithm = chosen.algorithm;
  f(call);
}

/// f(product, its result) of two square matrices.
template <class F>
void with_product(CudaDriver& driver, CudaStream stream, const F& f) {
  constexpr std::int64_t kSize = 128;
  constexpr std::size_t kBytes = sizeof(float) * kSize * kSize;
  const Block a(driver, kBytes), b(driver, kBytes), d(driver, kBytes);
  upload_numbers(driver, a, stream);
  upload_numbers(driver, b, stream);
  const GemmCommand call{
      .problem = {.m = kSize, .n = kSize, .k = kSize}, .a = a.data(), .b = b.data(), .d = d.data()};
  with_largest(driver, call, [&](const GemmCommand& product) { f(product, d); });
}

void product_in_a_body(Outcome& outcome, CudaDriver& driver, Marks& marks) {
  with_product(driver, marks.stream(), [&](const GemmCommand& product, const Block& result) {
    call_in_a_body(outcome, driver, marks, product, result.data(), result.bytes());
  });
}

/// A graph of a mark, a mark in a condition, a product and a mark, in a row.
void records_of_a_graph(Outcome& outcome, CudaDriver& driver, Marks& marks) {
  with_product(driver, marks.stream(), [&](const GemmCommand& product, const Block&) {
    const int nodes = driver.prepare(product).nodes;
    const CudaGraphExec graph = marks.graph([&] {
      marks.mark(0);
      marks.cases(1, false, {[&] { marks.mark(1); }});
      marks.enqueue(product, nodes);
      marks.mark(2);
    });
    outcome.passed = true;
    for (const char* flag : {"0", "1"}) {
      marks.set_flags(flag);
      const auto records = driver.launch_by_records(graph, marks.stream());
      if (!records) {
        outcome.detail = "there are none";
        break;
      }
      std::vector<std::int32_t> ran;
      for (const RunRecord& record : *records) {
        if (ran.empty() || ran.back() != record.command) ran.push_back(record.command);
      }
      const std::vector<std::int32_t> skipped = {0, RunRecord::kGuards, 2, 3},
                                      whole = {0, RunRecord::kGuards, 1, 2, 3};
      outcome.passed = outcome.passed && ran == (*flag == '0' ? skipped : whole);
      outcome.detail +=
          fmt::format("{}flag {}: {} in {:.1f} us", outcome.detail.empty() ? "" : "; ", flag,
                      fmt::join(ran, " "), records->empty() ? 0 : records->back().end);
    }
    driver.release(graph);
  });
}

void convolution_in_a_body(Outcome& outcome, CudaDriver& driver, Marks& marks) {
  const ConvolutionProblem problem{.x = {4, 8, 16, 16},
                                   .weight = {16, 8, 3, 3},
                                   .y = {4, 16, 16, 16},
                                   .stride = {1, 1},
                                   .low = {1, 1},
                                   .high = {1, 1},
                                   .dilation = {1, 1}};
  const auto bytes = [](const Shape& shape) { return Type{f32, shape}.bytes(); };
  const Block x(driver, bytes(problem.x)), weight(driver, bytes(problem.weight)),
      y(driver, bytes(problem.y));
  upload_numbers(driver, x, marks.stream());
  upload_numbers(driver, weight, marks.stream());
  const ConvolutionCommand call{
      .problem = problem, .x = x.data(), .weight = weight.data(), .y = y.data()};
  with_largest(driver, call, [&](const ConvolutionCommand& convolution) {
    call_in_a_body(outcome, driver, marks, convolution, y.data(), y.bytes());
  });
}

/// A number that the first node writes to mapped memory, looked for while the rest runs.
void mapped_number(Outcome& outcome, CudaDriver& driver, Marks& marks) {
  constexpr std::size_t kBytes = std::size_t{1} << 20;
  constexpr int kNodes = 400;
  const MappedMemory mapped = driver.mapped_memory(sizeof(int));
  const Block one(driver, sizeof(int)), large(driver, kBytes);
  const int sent = 12345;
  driver.upload(one.data(), &sent, sizeof sent, marks.stream());
  driver.synchronize(marks.stream());
  const Command write = CopyCommand{mapped.device, one.data(), sizeof(int)};
  const Command work = ZeroCommand{large.data(), kBytes};
  driver.prepare(write);
  driver.prepare(work);
  const CudaGraphExec graph = marks.graph([&] {
    marks.enqueue(write, 1);
    for (int i = 0; i < kNodes; ++i) marks.enqueue(work, 1);
  });
  const CudaEvent over = driver.make_event();
  const volatile int* number = reinterpret_cast<const int*>(mapped.host);
  const auto begin = Clock::now();
  driver.launch(graph, marks.stream());
  driver.record(over, marks.stream());
  bool early = false;
  while (!early && !driver.is_done(over)) early = *number == sent;
  const std::chrono::duration<double, std::micro> seen = Clock::now() - begin;
  driver.synchronize(marks.stream());
  const std::chrono::duration<double, std::micro> all = Clock::now() - begin;
  outcome.passed = *number == sent;
  outcome.detail = early ? fmt::format("seen after {:.0f} of {:.0f} us", seen.count(), all.count())
                         : std::string("seen when all was over");
  driver.release(graph);
}

/// Microseconds of the host and of the device for a launch of as many small nodes, dealt out to as
/// many streams; each behind a condition of its own if `conditional`.
void launch_times(Outcome& outcome, CudaDriver& driver, Marks& marks, int nodes, int streams,
                  bool conditional) {
  constexpr int kLaunches = 20;
  const Block memory(driver, static_cast<std::size_t>(nodes) * 256);
  std::vector<Command> commands;
  for (int i = 0; i < nodes; ++i) {
    commands.emplace_back(ZeroCommand{memory.data() + static_cast<std::size_t>(i) * 256, 4});
    driver.prepare(commands.back());
  }
  std::vector<CudaStream> others;
  std::vector<CudaEvent> joined;
  for (int i = 1; i < streams; ++i) {
    others.push_back(driver.make_stream());
    joined.push_back(driver.make_event());
  }
  const CudaEvent forked = driver.make_event();
  const CudaGraphExec graph = marks.graph([&] {
    if (streams > 1) driver.record(forked, marks.stream());
    for (const CudaStream other : others) driver.wait(other, forked);
    for (int i = 0; i < nodes; ++i) {
      const Command& command = commands[static_cast<std::size_t>(i)];
      if (conditional) {
        marks.cases(1, false, {[&] { marks.enqueue(command, 1); }});
        marks.again();
      } else if (i % streams == 0) {
        marks.enqueue(command, 1);
      } else {
        driver.enqueue(command, others[static_cast<std::size_t>(i % streams) - 1]);
        marks.count(1);
      }
    }
    for (std::size_t i = 0; i < others.size(); ++i) {
      driver.record(joined[i], others[i]);
      driver.wait(marks.stream(), joined[i]);
    }
  });
  const CudaEvent begin = driver.make_timed_event(), end = driver.make_timed_event();
  marks.launch(graph, "1");
  double host = 0;
  driver.record(begin, marks.stream());
  for (int i = 0; i < kLaunches; ++i) {
    const auto before = Clock::now();
    driver.launch(graph, marks.stream());
    host += std::chrono::duration<double, std::micro>(Clock::now() - before).count();
  }
  driver.record(end, marks.stream());
  driver.synchronize(end);
  const double device = driver.milliseconds(begin, end) * 1e3 / kLaunches;
  outcome.passed = true;
  outcome.detail = fmt::format("host {:.1f} us, device {:.1f} us: {:.2f} us a node",
                               host / kLaunches, device, device / nodes);
  driver.release(graph);
}

}  // namespace

void upload_numbers(CudaDriver& driver, const executor::program::DeviceBlock& block,
                    CudaStream stream) {
  std::vector<float> numbers(block.bytes() / sizeof(float));
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    numbers[i] = static_cast<float>(i * 37 % 101) / 50 - 1;
  }
  driver.upload(block.data(), numbers.data(), block.bytes(), stream);
  driver.synchronize(stream);
}

void probe_graphs(Outcomes& outcomes, CudaDriver& driver) {
  Marks marks(driver);
  const std::string node = "cudaGraphAddNode (conditional)";
  outcomes.run(node, "IF: its body runs where the flag is set",
               [&](Outcome& o) { if_runs(o, marks); });
  outcomes.run(node, "IF in IF", [&](Outcome& o) { if_in_if(o, marks); });
  outcomes.run(node, "SWITCH whose last body is empty",
               [&](Outcome& o) { switch_with_an_empty_body(o, marks); });
  outcomes.run("cudaGraphAddMemsetNode", "in a body",
               [&](Outcome& o) { memset_in_a_body(o, driver, marks); });
  const std::string child = "cudaGraphAddChildGraphNode";
  outcomes.run(child, "a product with its workspace in a body",
               [&](Outcome& o) { product_in_a_body(o, driver, marks); });
  outcomes.run(child, "a convolution with its workspace in a body",
               [&](Outcome& o) { convolution_in_a_body(o, driver, marks); });
  outcomes.run("cudaHostAlloc (mapped)", "a number is seen while the graph runs",
               [&](Outcome& o) { mapped_number(o, driver, marks); });
  for (const auto& [nodes, streams] :
       {std::pair{50, 1}, {50, 4}, {100, 1}, {100, 4}, {1000, 1}, {1000, 4}}) {
    outcomes.run("cudaGraphLaunch",
                 fmt::format("{} nodes on {} stream{}", nodes, streams, streams == 1 ? "" : "s"),
                 [&](Outcome& o) { launch_times(o, driver, marks, nodes, streams, false); });
  }
  outcomes.run("cudaGraphLaunch", "100 nodes, each behind an IF",
               [&](Outcome& o) { launch_times(o, driver, marks, 100, 1, true); });
}

void probe_failed_body(Outcomes& outcomes, CudaDriver& driver) {
  outcomes.run("a body that fails", "memory and a graph can be had afterwards", [&](Outcome& o) {
    Marks marks(driver);
    std::string refused;
    try {
      marks.graph([&] {
        marks.mark(0);
        marks.cases(1, false, {[&] {
                      marks.mark(1);
                      throw RunError("on purpose");
                    }});
      });
    } catch (const RunError& error) {
      refused = error.what();
    }
    const Block block(driver, std::size_t{1} << 20);
    if_runs(o, marks);
    o.passed = o.passed && refused == "on purpose";
  });
}

void probe_after_records(Outcomes& outcomes, CudaDriver& driver) {
  outcomes.run("CUPTI, then cudaGraphInstantiate", "IF still works", [&](Outcome& o) {
    Marks marks(driver);
    const Block block(driver, 256);
    const std::vector<Command> work = {ZeroCommand{block.data(), 256}};
    driver.prepare(work[0]);
    const std::span<const Command> all[] = {work};
    const bool records = driver.measure_by_records(all, marks.stream()).has_value();
    if_runs(o, marks);
    o.detail += records ? "; there are records" : "; there are no records";
  });
  outcomes.run("CUPTI's records of a graph", "of each command that ran", [&](Outcome& o) {
    Marks marks(driver);
    records_of_a_graph(o, driver, marks);
  });
}

}  // namespace metronome::gpu_check
