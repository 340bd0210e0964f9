// A driver that writes down what a device would be asked for.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "executor/cuda/driver/driver.h"

namespace metronome {

/// Addresses are made up, and nothing is computed: what is downloaded is zero. It keeps the rules
/// of capture as a device does: InternalError for what may not happen while one is under way, and
/// for waiting for an event of a stream that takes no part in it.
class NullDriver : public CudaDriver {
 public:
  explicit NullDriver(DeviceProperties properties = {});

  /// The recorded calls, a line each:
  ///   "memory 1024 bytes", "release", "release of memory that is not held", "mapped 4096 bytes",
  ///   "stream 1", "event 3", "begin capture on stream 0", "layer_norm <<<256, 32, 0>>> on stream
  ///   1", "gemm f32 ... on stream 0", "copy 64 bytes on stream 0", "zero 64 bytes on stream 0",
  ///   "record event 3 on stream 1", "wait for event 3 on stream 0", "if on stream 0", "end if",
  ///   "end capture: graph 0 of 57 nodes", "launch graph 0 on stream 0", "release graph 0",
  ///   "page-locked 4096 bytes", "timed event 4", "stream 2 is the caller's"
  const std::vector<std::string>& record_lines() const { return lines_; }
  void clear_record() { lines_.clear(); }

  const DeviceProperties& properties() const override { return properties_; }
  bool computes() const override { return false; }
  std::byte* device_memory(std::size_t bytes) override;
  void release(std::byte* device_memory) noexcept override;
  MappedMemory mapped_memory(std::size_t bytes) override;
  std::shared_ptr<std::byte> page_locked_memory(std::size_t bytes) override;
  /// All of it is.
  bool is_device_memory(const std::byte*) const override { return true; }
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
  CapturedNodes prepare(const Command& command) override;
  void enqueue(const Command& command, CudaStream stream) override;
  void begin_capture(CudaStream stream) override;
  CudaGraphExec end_capture(CudaStream stream, int expected) override;
  void begin_cases(std::span<const bool* const> guards, bool otherwise, CudaStream stream) override;
  void next_case(CudaStream stream) override;
  void end_cases(CudaStream stream) override;
  void abandon_capture(CudaStream stream) noexcept override;
  void launch(CudaGraphExec graph, CudaStream stream) override;
  void release(CudaGraphExec graph) noexcept override;
  std::size_t other_bytes() const override { return 0; }
  /// One, with a workspace, for each call.
  std::vector<Candidate> candidates(const LibraryCommand& call) const override;

 private:
  static constexpr std::size_t kAlignment = 256;  ///< bytes, of mapped memory

  void outside_capture(const char* what) const;
  bool captures(CudaStream stream) const { return capturing_.contains(stream.index); }
  void write(std::string line);

  DeviceProperties properties_;
  std::vector<std::string> lines_;
  std::uintptr_t next_address_ = std::uintptr_t{1} << 40;
  std::map<std::byte*, std::size_t> blocks_;
  std::vector<std::unique_ptr<std::byte[]>> mapped_;
  int streams_ = 0, events_ = 0, graphs_ = 0;
  std::map<void*, CudaStream> callers_;
  std::map<int, bool> capturing_;  ///< streams that take part in a capture; true once joined again
  std::map<int, std::pair<int, bool>> recorded_;  ///< event -> stream, and whether in this capture
  int captured_nodes_ = 0;
  std::vector<std::size_t> cases_left_;  ///< of the conditional nodes that are open, outer first
};

}  // namespace metronome
