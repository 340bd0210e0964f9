// The few calls that the CUDA executor makes of a device. `RuntimeDriver` makes them; `NullDriver`
// writes them down, so that everything above this line runs and is tested without a GPU; tests
// bring a third that runs kernels on the host.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "ops/cuda/launch.h"

namespace metronome {

/// Handles that a driver hands out: numbers of its own.
struct CudaStream {
  int index = -1;
  bool operator==(const CudaStream&) const = default;
};
struct CudaEvent {
  int index = -1;
};
struct CudaGraphExec {
  int index = -1;
};

/// The graph nodes that a command becomes when it is captured.
struct CapturedNodes {
  int nodes = 1;
  bool conditional = true;  ///< whether all of them may stand in a conditional node
};

/// Work of a captured graph, as one launch ran it.
struct RunRecord {
  static constexpr std::int32_t kGuards = -1;
  /// The place of its command among all that were enqueued in the capture, or `kGuards`: it read
  /// the guards of a condition. A library's command may have several records.
  std::int32_t command = kGuards;
  double begin = 0, end = 0;  ///< microseconds since the first one began
};

/// Memory that the host and the device see. `host` and `device` may be equal.
struct MappedMemory {
  std::byte* host = nullptr;
  std::byte* device = nullptr;
};

/// Calls throw RunError where the device or the system refuses, InternalError where the executor
/// broke a rule of capture. Everything handed out lives as long as the driver, or until `release`,
/// unless it says else.
class CudaDriver : public Libraries {
 public:
  virtual const DeviceProperties& properties() const = 0;
  /// False where what is enqueued is only written down.
  virtual bool computes() const { return true; }
  /// True where a form of a step that fails ends the compile, and commands that are timed must be
  /// captured; else the form is left out, with a note, and the commands are timed by launches.
  virtual bool strict() const { return false; }

  /// Zeroed device memory, 256-byte aligned.
  virtual std::byte* device_memory(std::size_t bytes) = 0;
  /// Gives `device_memory` back, when nothing that is enqueued uses it any more. Destructors call
  /// it, also behind a fault of the device: what cannot be given back now is when the driver ends.
  virtual void release(std::byte* device_memory) noexcept = 0;
  /// Zeroed page-locked host memory that the device can address, 256-byte aligned.
  virtual MappedMemory mapped_memory(std::size_t bytes) = 0;

  /// Zeroed page-locked host memory at a multiple of 64 bytes, from which copies go to the device
  /// without a stop. It lives until its last owner is gone, which may be after the driver.
  virtual std::shared_ptr<std::byte> page_locked_memory(std::size_t bytes) = 0;
  /// Whether host memory is page-locked, whoever allocated it.
  virtual bool is_page_locked(const std::byte* memory) const {
    static_cast<void>(memory);
    return false;
  }

  /// The device's number.
  virtual int index() const { return 0; }
  /// Whether memory, whoever allocated it, is this device's.
  virtual bool is_device_memory(const std::byte* memory) const = 0;

  /// Streams do not block on the default stream.
  virtual CudaStream make_stream() = 0;
  /// A stream of the caller's, a `cudaStream_t`, null for the default stream. The same one each
  /// time. Throws RunError for one that is being captured.
  virtual CudaStream stream_of_caller(void* handle) = 0;
  /// For streams that wait for each other, and to ask whether something is done.
  virtual CudaEvent make_event() = 0;
  /// For `milliseconds` too. Each time it is recorded the device writes down when.
  virtual CudaEvent make_timed_event() = 0;
  virtual void record(CudaEvent event, CudaStream stream) = 0;
  virtual void wait(CudaStream stream, CudaEvent event) = 0;
  virtual bool is_done(CudaEvent event) = 0;
  /// Blocks the host until the event has happened; at once where it was never recorded.
  virtual void synchronize(CudaEvent event) = 0;
  virtual void synchronize(CudaStream stream) = 0;
  /// Between two timed events that were recorded and have happened.
  virtual double milliseconds(CudaEvent begin, CudaEvent end) = 0;

  /// To device memory, or such as the device can address, and from there to the host. `upload` may
  /// return before the copy is made: `from` is mapped memory, or any that is left alone until the
  /// stream has passed it. `download` returns when it is made.
  virtual void upload(void* to, const void* from, std::size_t bytes, CudaStream stream) = 0;
  virtual void download(void* to, const void* from, std::size_t bytes, CudaStream stream) = 0;

  /// Compiles sources of commands, many at once, so that `prepare` finds them compiled. Only saves
  /// time.
  virtual void compile_ahead(std::span<const Command* const> commands) {
    static_cast<void>(commands);
  }
  /// Loads what a command needs: finds its kernel, compiles its source, makes the library's plan.
  /// Before the first enqueue.
  virtual CapturedNodes prepare(const Command& command) = 0;
  virtual void enqueue(const Command& command, CudaStream stream) = 0;

  /// Work that is enqueued on the stream, and on streams that wait for its events, until
  /// end_capture, becomes a graph, which is instantiated and uploaded. `expected` is the number of
  /// its nodes, those of conditional bodies included; InternalError names both numbers if they
  /// differ.
  virtual void begin_capture(CudaStream stream) = 0;
  virtual CudaGraphExec end_capture(CudaStream stream, int expected) = 0;
  /// Whether the device lets a kernel begin before the one that it comes after has ended.
  virtual bool begins_early() const { return false; }
  /// In the graph that is captured on the stream, each of our own kernels that comes directly after
  /// a single other one begins early: its launch and the fetching of its code take no time of their
  /// own. Its computation waits as before. Only if `begins_early`.
  virtual void begin_early(CudaStream) {}
  /// Begins a conditional node of the graph. `next_case` divides the work that is enqueued on the
  /// capturing stream until `end_cases` into parts, of which a launch runs one: that of the first
  /// of `guards`, on the device, that is true when the launch arrives here; if none is true, the
  /// part after all of theirs, if there is one (`otherwise`). Parts hold commands and conditional
  /// nodes. At most kMostCases guards. Makes kCaseNodes nodes beside those of its parts.
  virtual void begin_cases(std::span<const bool* const> guards, bool otherwise,
                           CudaStream stream) = 0;
  virtual void next_case(CudaStream stream) = 0;
  virtual void end_cases(CudaStream stream) = 0;
  static constexpr int kCaseNodes = 2;  ///< one that reads the guards, one that holds the parts
  static constexpr int kMostCases = 256;
  /// Ends a capture that failed midway and forgets it; does not throw.
  virtual void abandon_capture(CudaStream stream) noexcept = 0;
  virtual void launch(CudaGraphExec graph, CudaStream stream) = 0;
  /// Gives a graph back that no stream runs, and that is never launched again.
  virtual void release(CudaGraphExec graph) noexcept = 0;

  /// Throws RunError where a library's call that was enqueued has failed since. So do `launch`,
  /// and calls that wait for what was enqueued.
  virtual void check_libraries() const {}

  /// Enqueues pieces of work, whose commands are prepared, one after the other on the stream, and
  /// waits: the microseconds that each took by the device's own records, 0 where one has no record.
  /// Nothing where the device tells of none: then nothing was enqueued.
  virtual std::optional<std::vector<double>> measure_by_records(
      std::span<const std::span<const Command>> work, CudaStream stream) {
    static_cast<void>(work);
    static_cast<void>(stream);
    return std::nullopt;
  }
  /// Launches a graph once, and waits: what ran, by the device's own records, in the order in which
  /// it began. Nothing where the device tells of none: then nothing was launched. Makes the graph a
  /// second time in the device's memory, at the first call.
  virtual std::optional<std::vector<RunRecord>> launch_by_records(CudaGraphExec graph,
                                                                  CudaStream stream) {
    static_cast<void>(graph);
    static_cast<void>(stream);
    return std::nullopt;
  }

  /// Bytes taken on the device outside of `device_memory`: modules, handles, graphs.
  virtual std::size_t other_bytes() const = 0;
};

/// The device `index`. Throws RunError with one sentence that says what is missing: no CUDA in this
/// build, no driver, a driver too old, no such device, a library that cannot be loaded.
std::unique_ptr<CudaDriver> open_cuda(int index);

}  // namespace metronome
