// The driver of a real device.
#pragma once

#include <cstddef>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "executor/cuda/driver/driver.h"
#include "executor/cuda/libraries/handle.h"
#include "executor/cuda/libraries/libraries.h"
#include "executor/cuda/runtime/activity.h"
#include "executor/cuda/runtime/code_cache.h"
#include "executor/cuda/runtime/current_device.h"
#include "executor/cuda/runtime/graph_builder.h"
#include "executor/cuda/runtime/watched_graph.h"
#include "ops/cuda/device_kernels.h"

namespace metronome::executor::runtime {

/// Makes each call of CudaDriver on one device, through the CUDA runtime. Any thread may call, one
/// at a time; another device that was current there is current again afterwards.
///
/// What the executor captures is built node by node (graph_builder.h); only a library's call is
/// captured from a stream, alone. So no thread is ever left in a capture, and what other threads do
/// (libtorch's, say) neither enters a graph nor breaks it. Nothing here waits for the whole device,
/// which would break their captures. While a graph is built, calls that allocate, load or wait are
/// InternalErrors.
class RuntimeDriver : public CudaDriver {
 public:
  /// The device `index`, which can be used (see refusal.h). Throws RunError where it is taken or in
  /// error, or where a library is missing. `open`: what opens the device's libraries, once it is
  /// current.
  explicit RuntimeDriver(int index, LibrariesOpener open = open_libraries);
  /// Waits for what the device still does; a device in error is left as it is.
  ~RuntimeDriver() override;

  const DeviceProperties& properties() const override { return properties_; }
  std::vector<Candidate> candidates(const LibraryCommand& call) const override;

  std::byte* device_memory(std::size_t bytes) override;
  void release(std::byte* device_memory) noexcept override;
  MappedMemory mapped_memory(std::size_t bytes) override;
  std::shared_ptr<std::byte> page_locked_memory(std::size_t bytes) override;
  bool is_page_locked(const std::byte* memory) const override;

  int index() const override { return index_; }
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
  double milliseconds(CudaEvent begin, CudaEvent end) override;

  void upload(void* to, const void* from, std::size_t bytes, CudaStream stream) override;
  void download(void* to, const void* from, std::size_t bytes, CudaStream stream) override;

  void compile_ahead(std::span<const Command* const> commands) override;
  CapturedNodes prepare(const Command& command) override;
  void enqueue(const Command& command, CudaStream stream) override;

  void begin_capture(CudaStream stream) override;
  bool begins_early() const override { return properties_.major >= 9; }
  void begin_early(CudaStream stream) override;
  CudaGraphExec end_capture(CudaStream stream, int expected) override;
  void begin_cases(std::span<const bool* const> guards, bool otherwise, CudaStream stream) override;
  void next_case(CudaStream stream) override;
  void end_cases(CudaStream stream) override;
  void abandon_capture(CudaStream stream) noexcept override;
  void launch(CudaGraphExec graph, CudaStream stream) override;
  void release(CudaGraphExec graph) noexcept override;

  void check_libraries() const override;
  /// By CUPTI; the first call says in the log why there is none.
  std::optional<std::vector<double>> measure_by_records(
      std::span<const std::span<const Command>> work, CudaStream stream) override;
  /// The same.
  std::optional<std::vector<RunRecord>> launch_by_records(CudaGraphExec graph,
                                                          CudaStream stream) override;

  /// Returns how many bytes of the device's free memory went since this was opened, without those
  /// handed out here: the only way to learn what modules, handles and graphs take. Memory that
  /// other processes take on the device blurs it.
  std::size_t other_bytes() const override;

 private:
  /// A source's code on the device. Holding the source keeps its address its own, so that commands
  /// are told apart by it.
  struct GeneratedKernel {
    std::shared_ptr<const std::string> source;
    const void* kernel = nullptr;
  };
  struct Graph {
    RecordedGraph recorded;
    std::unordered_map<cudaGraphNode_t, std::int32_t> commands;  // GraphBuilder::commands
    GraphExec exec;                       // destroyed before the recorded graph
    std::optional<WatchedGraph> watched;  // the same, made by the first launch by records
  };

  /// Those of ops and the executor's own.
  static const DeviceKernels& compiled_kernels();
  /// Makes the device current on this thread, as long as the result is kept.
  CurrentDevice enter() const;
  /// Does so for a call that capture forbids; InternalError in a capture.
  CurrentDevice enter_outside_capture(std::string_view doing) const;

  DeviceLibrary& library_of(const LibraryCommand& call) const;
  const void* find_compiled(const KernelCommand& command) const;
  const void* load(const GeneratedCommand& command);
  /// The code of a kernel that was loaded.
  const void* code_of(const GeneratedCommand& command) const;
  void play(const Command& command, cudaStream_t stream);
  void add(const Command& command, CudaStream stream);
  void add(const LibraryCommand& call, CudaStream stream);
  RecordedGraph capture_alone(const LibraryCommand& call);

  /// Memory of a trial.
  struct GivesBack {
    RuntimeDriver* driver;
    void operator()(std::byte* memory) const noexcept { driver->release(memory); }
  };
  using TriedMemory = std::unique_ptr<std::byte, GivesBack>;

  bool records();
  bool records_graphs();
  void watch(Graph& graph, cudaStream_t stream);
  std::vector<RunRecord> launch_watched(const Graph& graph, cudaStream_t stream);
  template <class Work>
  void record_activities(Work work);
  template <class Work>
  void end_recording(Work work);
  CudaEvent make_event(unsigned flags);
  GraphBuilder& builder_on(CudaStream stream, const char* what);

  cudaStream_t of(CudaStream stream) const { return streams_.at(stream.index); }
  cudaEvent_t of(CudaEvent event) const { return events_.at(event.index).get(); }

  std::optional<CurrentDevice>
      ending_;  // made last, goes last: what lies below is given back there
  int index_;
  DeviceProperties properties_;
  std::size_t free_bytes_ = 0;  // when it was opened
  std::unique_ptr<Activities> activities_;
  bool no_activities_ = false;          // it was tried
  std::optional<bool> records_graphs_;  // once it was tried
  CodeCache cache_;

  // Resources that were handed out. They are destroyed from the last to the first: graphs before
  // the modules and the memory that they use.
  std::deque<DeviceMemory> device_;
  std::unordered_map<const std::byte*, std::size_t> device_bytes_;  // of each
  std::deque<HostMemory> mapped_;
  std::deque<Module> modules_;
  std::unordered_map<std::string, const void*> kernels_;               // by their source
  std::unordered_map<const std::string*, GeneratedKernel> generated_;  // by its address
  std::vector<std::unique_ptr<DeviceLibrary>> libraries_;
  std::deque<Stream> own_streams_;
  std::vector<cudaStream_t> streams_;  // those, and callers'
  std::unordered_map<void*, CudaStream> callers_;
  std::deque<Event> events_;
  std::deque<Graph> graphs_;
  Stream alone_;  // on which libraries' calls are captured, and memory is zeroed
  std::optional<GraphBuilder> building_;
};

}  // namespace metronome::executor::runtime
