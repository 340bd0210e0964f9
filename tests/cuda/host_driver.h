// A device made of the host: commands are played on its memory, by streams, events and graphs that
// keep the order that a device promises and no other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "executor/cuda/driver/driver.h"
#include "tests/cuda/host_libraries.h"
#include "tests/cuda/host_play.h"
#include "tests/guarded_bytes.h"

namespace metronome {

struct HostSettings {
  /// False: work is done as it is enqueued. True: when the host waits for it, and bit by bit when
  /// it asks whether an event has happened.
  bool lazy = false;
  /// Work that streams, events and a graph's edges do not order, and threads within kernels, go in
  /// a random order of this seed; without a seed as they were enqueued.
  std::optional<std::uint64_t> seed = {};
  RunOrder order = {};            ///< of the threads within kernels, where there is no seed
  bool gemm_bias = true;          ///< whether the library offers products with a bias
  bool conditional_calls = true;  ///< whether libraries' calls may stand in conditional nodes
  bool strict = true;             ///< CudaDriver::strict
  bool begins_early = false;  ///< CudaDriver::begins_early; kernels end before others begin still
  bool records = false;       ///< whether it tells of what it did: in_graph_us a command
  /// Whether it tells of a launch of a graph, too. Then nodes begin as soon as they may, by the
  /// clock also; else one after the other.
  bool graph_records = false;
  double alone_us = 2;     ///< on the clock: of a command that is enqueued alone
  double in_graph_us = 1;  ///< and of a node of a graph
  DeviceProperties properties = {.name = "the host",
                                 .multiprocessors = 4,
                                 .memory_bytes = 1 << 30,
                                 .library_versions = "none"};
};

/// Counts of the calls to a HostDriver.
struct HostCounts {
  int allocations = 0;  ///< device, mapped and page-locked memory
  int synchronizations = 0;
  int uploads = 0;
  int downloads = 0;
  int enqueued = 0;  ///< commands outside of captures
  int captured = 0;  ///< commands in captures
  int graphs = 0;
  int launches = 0;
  int skipped = 0;   ///< nodes in cases of conditions that were not taken
  int released = 0;  ///< graphs
  bool operator==(const HostCounts&) const = default;
};

/// Beyond what CudaDriver demands, throws InternalError for copies, zeros and libraries' calls
/// outside of its memory, for commands that were not prepared, and for whatever a device forbids in
/// a capture; KernelError for kernels that break the rules, when they run.
class HostDriver final : public CudaDriver {
 public:
  explicit HostDriver(HostSettings settings = {}, HostKernels& kernels = host_kernels());

  const HostCounts& counts() const { return counts_; }
  /// Whether the command that is played is a node of a graph.
  bool plays_graph() const { return plays_graph_; }
  /// Aborts, with the words on stderr, where a wrong release was never told of.
  ~HostDriver() override;

  /// Throws InternalError where something was written beside memory that was handed out, or memory
  /// was released that was not, or in a capture: of a release it tells once. So does `synchronize`.
  void check() const;
  /// One more library, whose calls none of the others makes.
  void add(const std::shared_ptr<HostLibrary>& library) {
    libraries_.add(library);
    player_.add(library);
  }
  /// Called with each command before it is enqueued; may throw.
  std::function<void(const Command& command, CudaStream stream)> on_enqueue;
  /// The time that a command takes on the clock, in a graph and alone; empty: as the settings say.
  std::function<double(const Command& command)> microseconds;
  /// Called with the records of a launch, before they are told.
  std::function<void(std::vector<RunRecord>& records)> on_records;
  /// Streams of callers that are being captured.
  std::set<void*> captured_streams;
  /// Tells what memory of users is page-locked.
  std::function<bool(const std::byte* memory)> lock_pages = [](const std::byte*) { return false; };

  const DeviceProperties& properties() const override { return settings_.properties; }
  bool strict() const override { return settings_.strict; }
  std::byte* device_memory(std::size_t bytes) override;
  /// Throws nothing: `check` tells what is wrong with the release.
  void release(std::byte* device_memory) noexcept override;
  MappedMemory mapped_memory(std::size_t bytes) override;
  std::shared_ptr<std::byte> page_locked_memory(std::size_t bytes) override;
  bool is_page_locked(const std::byte* memory) const override { return lock_pages(memory); }
  /// Some that `device_memory` gave.
  bool is_device_memory(const std::byte* memory) const override;
  CudaStream make_stream() override;
  CudaStream stream_of_caller(void* handle) override;
  CudaEvent make_event() override;
  CudaEvent make_timed_event() override;
  void record(CudaEvent event, CudaStream stream) override;
  void wait(CudaStream stream, CudaEvent event) override;
  bool is_done(CudaEvent event) override;
  void synchronize(CudaEvent event) override;
  void synchronize(CudaStream stream) override;
  /// Reads a clock that counts work, as the settings say.
  double milliseconds(CudaEvent begin, CudaEvent end) override;
  void upload(void* to, const void* from, std::size_t bytes, CudaStream stream) override;
  void download(void* to, const void* from, std::size_t bytes, CudaStream stream) override;
  CapturedNodes prepare(const Command& command) override;
  void enqueue(const Command& command, CudaStream stream) override;
  void begin_capture(CudaStream stream) override;
  bool begins_early() const override { return settings_.begins_early; }
  CudaGraphExec end_capture(CudaStream stream, int expected) override;
  void begin_cases(std::span<const bool* const> guards, bool otherwise, CudaStream stream) override;
  void next_case(CudaStream stream) override;
  void end_cases(CudaStream stream) override;
  void abandon_capture(CudaStream stream) noexcept override;
  void launch(CudaGraphExec graph, CudaStream stream) override;
  /// Throws nothing: `check` tells what is wrong with the release.
  void release(CudaGraphExec graph) noexcept override;
  std::optional<std::vector<double>> measure_by_records(
      std::span<const std::span<const Command>> work, CudaStream stream) override;
  std::optional<std::vector<RunRecord>> launch_by_records(CudaGraphExec graph,
                                                          CudaStream stream) override;
  std::size_t other_bytes() const override { return 0; }
  std::vector<Candidate> candidates(const LibraryCommand& call) const override {
    return libraries_.candidates(call);
  }

 private:
  // --- Work that stands in a stream ---
  struct Transfer {
    void* to;
    const void* from;
    std::size_t bytes;
  };
  struct Record {
    int event;
    int occasion;  // how many times the event had been recorded, this one included
  };
  struct Wait {
    int event;
    int occasion;
  };
  struct Launch {
    int graph;
    int before;  // launches of the same graph that come first
  };
  using Work = std::variant<Command, Transfer, Record, Wait, Launch>;

  /// A part of a conditional node.
  struct Case {
    int condition = -1;  // absent: the graph itself
    int index = 0;
  };

  struct Stream {
    std::deque<Work> work;
    std::vector<int> frontier;  // in a capture: the nodes that its next one comes after
    bool captures = false;
    std::vector<Case> cases;  // that are open in the capture, outer first
  };
  struct Event {
    bool timed = false;
    int recorded = 0;
    std::set<int> pending =
        {};           // occasions that have not happened: of several streams, in any order
    double at = 0;    // clock, of the last occasion
    int capture = 0;  // the number of the capture that it was recorded in; 0: in none
    std::vector<int> frontier;
    bool happened() const { return !pending.contains(recorded); }
  };
  struct Graph {
    struct Condition {
      std::vector<const bool*> guards;
      bool otherwise = false;
      int chosen = -1;  // in the launch under way: the case that runs
    };
    struct Node {
      std::variant<Command, int> work;  // or the condition whose guards it reads
      std::int32_t command;             // RunRecord::command
      Case in;
      std::vector<int> after;   // the nodes that it waits for
      std::vector<int> before;  // those that wait for it
    };
    std::vector<Node> nodes;
    std::vector<Condition> conditions;
    int launched = 0;
    int finished = 0;
    bool released = false;
    // State of the launch under way:
    bool runs = false;
    std::vector<int> missing;  // [node] nodes that it still waits for
    std::vector<int> ready;    // in the order of capture
    std::vector<double> ends;  // [node] us from the beginning, with all the room there is
    std::vector<RunRecord> ran;
    std::size_t left = 0;
  };

  void forbid_in_capture(const char* what) const;
  Stream& at(CudaStream stream);
  Event& at(CudaEvent event);
  void require_own(const void* begin, std::size_t bytes, const char* what) const;
  void require_own(const Command& command) const;
  void require_prepared(const Command& command) const;
  std::byte* allocate(std::size_t bytes);

  void put(Work work, CudaStream stream);
  bool can_go(const Stream& stream) const;
  bool advance();
  void advance_stream(Stream& stream);
  bool advance_graph(Graph& graph);
  template <class Condition>
  void advance_until(const Condition& condition);
  void play(const Command& command);
  double time_of(const Graph& graph) const;
  double time_of(const Command* command, double otherwise) const;
  void capture(const Command& command, Stream& stream);
  void add_node(std::variant<Command, int> work, Stream& stream, std::int32_t command);
  void note_run(Graph& graph, int node, bool ran);
  bool run_node(Graph& graph, const Graph::Node& node);
  void check_joined(const Stream& origin) const;
  std::size_t pick(std::size_t count);

  HostSettings settings_;
  HostKernels& kernels_;
  HostLibraries libraries_;
  HostPlayer player_;
  std::mt19937_64 random_;
  HostCounts counts_;
  double clock_ = 0;  // ms

  std::map<const std::byte*, GuardedBytes> memory_;
  std::size_t device_bytes_ = 0;       // held; mapped memory is not among them
  mutable std::string wrong_release_;  // the first not told of, as destructors may not throw
  std::vector<Stream> streams_;
  std::map<void*, CudaStream> callers_;
  std::vector<Event> events_;
  std::vector<Graph> graphs_;
  std::set<std::string> prepared_;  // calls of libraries: what and by which algorithm
  std::set<std::type_index> loaded_;

  bool plays_graph_ = false;

  std::optional<Graph> capturing_;
  int origin_ = -1;  // the stream that the capture began on
  int captures_ = 0;
  std::int32_t captured_commands_ = 0;  // in the capture under way
};

}  // namespace metronome
