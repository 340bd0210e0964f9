#include "executor/cuda/runtime/runtime_driver.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <exception>
#include <utility>
#include <variant>

#include "executor/cuda/program/io_device.h"
#include "executor/cuda/runtime/graph_nodes.h"
#include "executor/cuda/runtime/kernel_code.h"
#include "executor/cuda/runtime/nvrtc.h"
#include "executor/support/log.h"
#include "graph/ir/error.h"

namespace metronome::executor::runtime {
namespace {

std::size_t free_bytes() noexcept {
  std::size_t free = 0, total = 0;
  return cudaMemGetInfo(&free, &total) == cudaSuccess ? free : 0;
}

/// Adds to a sum what the device's free memory loses while it lives: the only way to learn what
/// modules, handles and graphs take. Another process on the device blurs it.
class Measured {
 public:
  explicit Measured(std::size_t& sum) : sum_(sum), before_(free_bytes()) {}
  ~Measured() {
    const std::size_t after = free_bytes();
    if (before_ > after) sum_ += before_ - after;
  }
  Measured(const Measured&) = delete;
  Measured& operator=(const Measured&) = delete;

 private:
  std::size_t& sum_;
  std::size_t before_;
};

DeviceFacts facts_of(int index, std::span<const std::unique_ptr<DeviceLibrary>> libraries) {
  cudaDeviceProp properties = {};
  check(cudaGetDeviceProperties(&properties, index), "describe the device");
  int runtime = 0;
  check(cudaRuntimeGetVersion(&runtime), "tell its version");
  std::string versions = fmt::format("CUDA {}.{}", runtime / 1000, runtime % 1000 / 10);
  for (const auto& library : libraries) versions += ", " + library->version();
  return {.name = properties.name,
          .major = properties.major,
          .minor = properties.minor,
          .multiprocessors = properties.multiProcessorCount,
          .memory_bytes = properties.totalGlobalMem,
          .library_versions = std::move(versions)};
}

/// Loads the kernel's code (the first query does that) and checks that it can be launched so.
void load_code(const std::string& name, const void* kernel, const KernelShape& shape) {
  cudaFuncAttributes code = {};
  check(cudaFuncGetAttributes(&code, kernel), "load the kernel " + name);
  require_launchable(name, shape,
                     {.threads = code.maxThreadsPerBlock,
                      .registers = code.numRegs,
                      .shared_bytes = code.maxDynamicSharedSizeBytes});
}

void launch_kernel(const void* kernel, const KernelShape& shape,
                   const std::vector<std::byte>& arguments, cudaStream_t stream) {
  cudaLaunchConfig_t config = {};
  config.gridDim = {static_cast<unsigned>(shape.blocks), 1, 1};
  config.blockDim = {static_cast<unsigned>(shape.threads), 1, 1};
  config.dynamicSmemBytes = static_cast<std::size_t>(shape.shared_bytes);
  config.stream = stream;
  void* argument = const_cast<std::byte*>(arguments.data());
  check(cudaLaunchKernelExC(&config, kernel, &argument), "launch a kernel");
}

Stream make_nonblocking() {
  cudaStream_t made = nullptr;
  check(cudaStreamCreateWithFlags(&made, cudaStreamNonBlocking), "make a stream");
  return Stream(made);
}

}  // namespace

RuntimeDriver::RuntimeDriver(int index) : index_(index) {
  check(cudaInitDevice(index, 0, 0), "use the device");
  enter();
  const Measured measured(other_bytes_);
  libraries_ = open_libraries();
  facts_ = facts_of(index, libraries_);
  counting_ = make_nonblocking();
  bodies_ = make_nonblocking();
}

RuntimeDriver::~RuntimeDriver() {
  static_cast<void>(cudaSetDevice(index_));
  static_cast<void>(cudaDeviceSynchronize());
}

void RuntimeDriver::enter() const { check(cudaSetDevice(index_), "use the device"); }

void RuntimeDriver::enter_outside_capture(std::string_view doing) const {
  if (capturing_) throw InternalError(fmt::format("{} while a graph is captured", doing));
  enter();
}

DeviceLibrary& RuntimeDriver::library_of(const LibraryCommand& call) const {
  for (const auto& library : libraries_) {
    if (library->makes(call)) return *library;
  }
  throw InternalError(
      fmt::format("no library of the device makes {} {}", call.name(), call.text()));
}

std::vector<Candidate> RuntimeDriver::candidates(const LibraryCommand& call) const {
  enter();
  return library_of(call).candidates(call);
}

std::byte* RuntimeDriver::device_memory(std::size_t bytes) {
  enter_outside_capture("allocating device memory");
  bytes = std::max<std::size_t>(bytes, 1);  // an address of its own for nothing too
  void* made = nullptr;
  const cudaError_t status = cudaMalloc(&made, bytes);
  if (status == cudaErrorMemoryAllocation) {
    static_cast<void>(cudaGetLastError());
    throw RunError(fmt::format("{} bytes are needed on device {} ({}), and {} of {} are free",
                               bytes, index_, facts_.name, free_bytes(), facts_.memory_bytes));
  }
  check(status, "allocate device memory");
  device_.emplace_back(made);
  check(cudaMemset(made, 0, bytes), "zero device memory");
  check(cudaDeviceSynchronize(), "zero device memory");  // other streams would not wait for it
  return static_cast<std::byte*>(made);
}

void RuntimeDriver::release(std::byte* device_memory) noexcept {
  if (capturing_) return;  // freeing would break the capture: it is held until the driver ends
  static_cast<void>(cudaSetDevice(index_));
  const auto released =
      std::erase_if(device_, [&](const DeviceMemory& held) { return held.get() == device_memory; });
  if (released == 0) logger().error("device memory is released that is not held");
}

MappedMemory RuntimeDriver::mapped_memory(std::size_t bytes) {
  enter_outside_capture("allocating page-locked memory");
  bytes = std::max<std::size_t>(bytes, 1);
  void* made = nullptr;
  check(cudaHostAlloc(&made, bytes, cudaHostAllocMapped), "allocate page-locked memory");
  mapped_.emplace_back(made);
  void* device = nullptr;
  check(cudaHostGetDevicePointer(&device, made, 0), "map page-locked memory");
  std::byte* host = static_cast<std::byte*>(made);
  std::fill_n(host, bytes, std::byte{0});
  return {host, static_cast<std::byte*>(device)};
}

std::shared_ptr<std::byte> RuntimeDriver::page_locked_memory(std::size_t bytes) {
  enter_outside_capture("allocating page-locked memory");
  bytes = std::max<std::size_t>(bytes, 1);
  void* made = nullptr;
  check(cudaHostAlloc(&made, bytes, cudaHostAllocDefault), "allocate page-locked memory");
  std::fill_n(static_cast<std::byte*>(made), bytes, std::byte{0});
  return {static_cast<std::byte*>(made), Calls<cudaFreeHost>()};
}

CudaStream RuntimeDriver::make_stream() {
  enter_outside_capture("making a stream");
  streams_.push_back(make_nonblocking());
  return {static_cast<int>(streams_.size()) - 1};
}

CudaEvent RuntimeDriver::make_event() { return make_event(cudaEventDisableTiming); }

CudaEvent RuntimeDriver::make_timed_event() { return make_event(cudaEventDefault); }

CudaEvent RuntimeDriver::make_event(unsigned flags) {
  enter_outside_capture("making an event");
  cudaEvent_t made = nullptr;
  check(cudaEventCreateWithFlags(&made, flags), "make an event");
  events_.emplace_back(made);
  return {static_cast<int>(events_.size()) - 1};
}

void RuntimeDriver::record(CudaEvent event, CudaStream stream) {
  enter();
  check(cudaEventRecord(of(event), of(stream)), "record an event");
}

void RuntimeDriver::wait(CudaStream stream, CudaEvent event) {
  enter();
  check(cudaStreamWaitEvent(of(stream), of(event), cudaEventWaitDefault), "wait for an event");
}

bool RuntimeDriver::done(CudaEvent event) {
  enter();
  const cudaError_t status = cudaEventQuery(of(event));
  if (status == cudaErrorNotReady) {
    static_cast<void>(cudaGetLastError());
    return false;
  }
  check(status, "ask for an event");
  return true;
}

void RuntimeDriver::synchronize(CudaEvent event) {
  enter_outside_capture("waiting for an event");
  check(cudaEventSynchronize(of(event)), "wait for an event");
}

void RuntimeDriver::synchronize(CudaStream stream) {
  enter_outside_capture("waiting for a stream");
  check(cudaStreamSynchronize(of(stream)), "wait for a stream");
}

double RuntimeDriver::milliseconds(CudaEvent begin, CudaEvent end) {
  enter();
  float result = 0;
  check(cudaEventElapsedTime(&result, of(begin), of(end)), "tell the time between two events");
  return static_cast<double>(result);
}

void RuntimeDriver::upload(void* to, const void* from, std::size_t bytes, CudaStream stream) {
  enter_outside_capture("copying to the device");
  check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, of(stream)), "copy to the device");
}

void RuntimeDriver::download(void* to, const void* from, std::size_t bytes, CudaStream stream) {
  enter_outside_capture("copying from the device");
  check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, of(stream)), "copy from the device");
  check(cudaStreamSynchronize(of(stream)), "copy from the device");
}

const DeviceKernels& RuntimeDriver::compiled_kernels() {
  static const DeviceKernels table = [] {
    DeviceKernels made = device_kernels();
    cuda::add_kernels_io(made);
    return made;
  }();
  return table;
}

const void* RuntimeDriver::loaded(const KernelCommand& command) const {
  const void* kernel = compiled_kernels().find(command.kernel);
  if (kernel == nullptr) {
    throw InternalError(
        fmt::format("kernel {} ({}) was not compiled for devices: its stem's list "
                    "of kernels lacks it",
                    command.name, command.kernel.name()));
  }
  return kernel;
}

const void* RuntimeDriver::load(const GeneratedCommand& command) {
  Generated& entry = generated_[command.source.get()];
  if (entry.kernel != nullptr) return entry.kernel;
  const void*& kernel = kernels_[*command.source];
  if (kernel == nullptr) {
    const std::vector<char> code =
        cached_cubin(*command.source, architecture(facts_.major, facts_.minor), cache_);
    cudaLibrary_t library = nullptr;
    check(cudaLibraryLoadData(&library, code.data(), nullptr, nullptr, 0, nullptr, nullptr, 0),
          "load a generated kernel");
    modules_.emplace_back(library);
    cudaKernel_t found = nullptr;
    check(cudaLibraryGetKernel(&found, library, kGeneratedEntry), "find a generated kernel");
    kernel = found;
  }
  entry = {command.source, kernel};
  return kernel;
}

CapturedAs RuntimeDriver::prepare(const Command& command) {
  enter_outside_capture("preparing a command");
  const Measured measured(other_bytes_);
  if (const auto* kernel = std::get_if<KernelCommand>(&command)) {
    load_code(kernel->name, loaded(*kernel), kernel->shape);
  } else if (const auto* generated = std::get_if<GeneratedCommand>(&command)) {
    load_code(generated->name, load(*generated), generated->shape);
  } else if (const auto* call = std::get_if<LibraryCommand>(&command)) {
    library_of(*call).prepare(*call);
  }
  return captured_alone(command);
}

/// Captures the command alone. Nothing runs, but libraries load what they load lazily, which only
/// this mode of capture allows.
CapturedAs RuntimeDriver::captured_alone(const Command& command) {
  check(cudaStreamBeginCapture(counting_.get(), cudaStreamCaptureModeRelaxed), "begin a capture");
  cudaGraph_t made = nullptr;
  try {
    play(command, counting_.get());
  } catch (...) {
    static_cast<void>(cudaStreamEndCapture(counting_.get(), &made));
    const RecordedGraph ended(made);
    static_cast<void>(cudaGetLastError());
    throw;
  }
  check(cudaStreamEndCapture(counting_.get(), &made), "end a capture");
  const RecordedGraph graph(made);
  const std::vector<cudaGraphNodeType> types = node_types(graph.get());
  return {static_cast<int>(types.size()), !unconditional(types)};
}

void RuntimeDriver::enqueue(const Command& command, CudaStream stream) {
  enter();
  play(command, open_.empty() ? of(stream) : bodies_.get());
}

void RuntimeDriver::play(const Command& command, cudaStream_t stream) {
  if (const auto* kernel = std::get_if<KernelCommand>(&command)) {
    launch_kernel(loaded(*kernel), kernel->shape, kernel->arguments, stream);
  } else if (const auto* generated = std::get_if<GeneratedCommand>(&command)) {
    const auto found = generated_.find(generated->source.get());
    if (found == generated_.end() || found->second.kernel == nullptr) {
      throw InternalError("a generated kernel that was not prepared: " + generated->name);
    }
    launch_kernel(found->second.kernel, generated->shape, generated->arguments, stream);
  } else if (const auto* copy = std::get_if<CopyCommand>(&command)) {
    check(cudaMemcpyAsync(copy->to, copy->from, copy->bytes, cudaMemcpyDefault, stream),
          "enqueue a copy");
  } else if (const auto* zero = std::get_if<ZeroCommand>(&command)) {
    check(cudaMemsetAsync(zero->to, 0, zero->bytes, stream), "enqueue a zeroing");
  } else if (const auto* call = std::get_if<LibraryCommand>(&command)) {
    library_of(*call).enqueue(*call, stream);
  }
}

void RuntimeDriver::begin_capture(CudaStream stream) {
  enter_outside_capture("beginning a capture");
  check(cudaStreamBeginCapture(of(stream), cudaStreamCaptureModeThreadLocal), "begin a capture");
  capturing_ = stream;
  body_nodes_ = 0;
}

CudaGraphExec RuntimeDriver::end_capture(CudaStream stream, int expected) {
  if (capturing_ != stream) throw InternalError("the end of a capture that was not begun");
  enter();
  capturing_.reset();
  cudaGraph_t recorded = nullptr;
  check(cudaStreamEndCapture(of(stream), &recorded), "end a capture");
  Graph graph;
  graph.recorded.reset(recorded);
  const int nodes = static_cast<int>(node_types(recorded).size()) + std::exchange(body_nodes_, 0);
  if (nodes != expected) {
    throw InternalError(
        fmt::format("the captured graph has {} nodes, and its commands make {}", nodes, expected));
  }
  const Measured measured(other_bytes_);
  cudaGraphExec_t exec = nullptr;
  check(cudaGraphInstantiate(&exec, recorded, 0), "instantiate a graph");
  graph.exec.reset(exec);
  check(cudaGraphUpload(exec, of(stream)), "upload a graph");
  check(cudaStreamSynchronize(of(stream)), "upload a graph");
  graphs_.push_back(std::move(graph));
  return {static_cast<int>(graphs_.size()) - 1};
}

void RuntimeDriver::abandon_capture(CudaStream stream) noexcept {
  if (capturing_ != stream) return;
  capturing_.reset();
  static_cast<void>(cudaSetDevice(index_));
  if (!std::exchange(open_, {}).empty()) return leave_behind(stream);
  cudaGraph_t recorded = nullptr;
  static_cast<void>(cudaStreamEndCapture(of(stream), &recorded));
  const RecordedGraph graph(recorded);
  static_cast<void>(cudaGetLastError());
}

// Ending a capture in whose conditional body something failed crashes some drivers
// (github.com/NVIDIA/cuda-python, issue 2918): streams and graph are never touched again.
void RuntimeDriver::leave_behind(CudaStream stream) noexcept {
  static_cast<void>(cudaGetLastError());
  for (Stream* left : {&streams_[static_cast<std::size_t>(stream.index)], &bodies_}) {
    cudaStream_t made = nullptr;
    static_cast<void>(cudaStreamCreateWithFlags(&made, cudaStreamNonBlocking));
    static_cast<void>(left->release());
    left->reset(made);
  }
}

void RuntimeDriver::launch(CudaGraphExec graph, CudaStream stream) {
  enter();
  check(cudaGraphLaunch(graphs_.at(graph.index).exec.get(), of(stream)), "launch a graph");
}

void RuntimeDriver::release(CudaGraphExec graph) noexcept {
  if (capturing_) return;  // destroying would break the capture: it is held until the driver ends
  static_cast<void>(cudaSetDevice(index_));
  const std::size_t before = free_bytes();
  graphs_[static_cast<std::size_t>(graph.index)] = {};
  const std::size_t after = free_bytes();
  if (after > before) other_bytes_ -= std::min(other_bytes_, after - before);
}

/// Whether CUPTI serves: a memset must be among its records.
bool RuntimeDriver::records() {
  if (activities_ != nullptr || std::exchange(no_activities_, true)) return activities_ != nullptr;
  constexpr std::uint64_t kLabel = 1;
  try {
    auto tried = std::make_unique<Activities>();
    std::byte* const place = device_memory(sizeof(int));
    tried->begin();
    tried->label(kLabel);
    const cudaError_t zeroed = cudaMemsetAsync(place, 0, sizeof(int), counting_.get());
    const cudaError_t over = cudaStreamSynchronize(counting_.get());
    const auto found = tried->end();
    release(place);
    check(zeroed, "enqueue a zeroing");
    check(over, "wait for a stream");
    if (!found.contains(kLabel)) throw RunError("CUPTI tells of nothing that the device did");
    activities_ = std::move(tried);
  } catch (const RunError& error) {
    logger().info("no records of the device: {}", error.what());
  }
  return activities_ != nullptr;
}

std::optional<std::vector<double>> RuntimeDriver::recorded(
    std::span<const std::span<const Command>> work, CudaStream stream) {
  enter_outside_capture("recording what the device does");
  if (!records()) return std::nullopt;
  activities_->begin();
  std::exception_ptr failed;
  try {
    for (std::size_t i = 0; i < work.size(); ++i) {
      activities_->label(i);
      for (const Command& command : work[i]) enqueue(command, stream);
    }
    synchronize(stream);
  } catch (...) {
    failed = std::current_exception();
  }
  const auto found = activities_->end();
  if (failed != nullptr) std::rethrow_exception(failed);
  std::vector<double> microseconds(work.size());
  for (const auto& [label, us] : found) {
    if (label < microseconds.size()) microseconds[label] = us;
  }
  return microseconds;
}

}  // namespace metronome::executor::runtime
