// runtime_driver.h says how graphs are made. Handles are places in vectors, which own the streams,
// events and graphs. Code is loaded when a command is prepared, as nothing may load while a graph
// is built. A command then goes one of two ways:
//
//   enqueue -> play   onto the stream: a launch, a copy, or a library's call
//           -> add    a node of the graph that is built; a library's call is captured alone, from
//                     the stream `alone_`, and becomes a child graph
//
// `end_capture` compares the number of nodes with the one expected, instantiates the graph and
// uploads it. Waits and launches ask all libraries for errors that came later. The device's
// records are read in driver_records.cc.
#include "executor/cuda/runtime/runtime_driver.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <exception>
#include <iterator>
#include <utility>
#include <variant>

#include "executor/cuda/program/io_device.h"
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

DeviceProperties facts_of(int index, std::span<const std::unique_ptr<DeviceLibrary>> libraries) {
  cudaDeviceProp properties = {};
  check(cudaGetDeviceProperties(&properties, index), "describe the device");
  int runtime = 0;
  check(cudaRuntimeGetVersion(&runtime), "tell its version");
  std::string versions = fmt::format("CUDA {}.{}", runtime / 1000, runtime % 1000 / 10);
  for (const auto& library : libraries) {
    if (const std::string version = library->version(); !version.empty())
      versions += ", " + version;
  }
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
  config.dynamicSmemBytes = launched_shared_bytes(shape);
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

RuntimeDriver::RuntimeDriver(int index, LibrariesOpener open) : index_(index) {
  check(cudaInitDevice(index, 0, 0), "use the device");
  const CurrentDevice entered = enter();
  free_bytes_ = free_bytes();
  libraries_ = open();
  properties_ = facts_of(index, libraries_);
  alone_ = make_nonblocking();
  // Here, as nothing loads code while a graph is built.
  load_code("set_condition", cuda::condition_kernel(), cuda::kConditionShape);
}

RuntimeDriver::~RuntimeDriver() {
  ending_.emplace(index_, std::nothrow);
  for (const Stream& stream : own_streams_) static_cast<void>(cudaStreamSynchronize(stream.get()));
  static_cast<void>(cudaStreamSynchronize(alone_.get()));
}

CurrentDevice RuntimeDriver::enter() const { return CurrentDevice(index_); }

CurrentDevice RuntimeDriver::enter_outside_capture(std::string_view doing) const {
  if (building_) throw InternalError(fmt::format("{} while a graph is captured", doing));
  return enter();
}

DeviceLibrary& RuntimeDriver::library_of(const LibraryCommand& call) const {
  for (const auto& library : libraries_) {
    if (library->makes(call)) return *library;
  }
  throw InternalError(
      fmt::format("no library of the device makes {} {}", call.name(), call.text()));
}

std::vector<Candidate> RuntimeDriver::candidates(const LibraryCommand& call) const {
  const CurrentDevice entered = enter();
  const auto makes = [&](const auto& library) { return library->makes(call); };
  if (std::ranges::none_of(libraries_, makes)) return {};
  return library_of(call).candidates(call);
}

std::byte* RuntimeDriver::device_memory(std::size_t bytes) {
  const CurrentDevice entered = enter_outside_capture("allocating device memory");
  bytes = std::max<std::size_t>(bytes, 1);  // an address of its own for nothing too
  void* made = nullptr;
  const cudaError_t status = cudaMalloc(&made, bytes);
  if (status == cudaErrorMemoryAllocation) {
    static_cast<void>(cudaGetLastError());
    throw RunError(fmt::format("{} bytes are needed on device {} ({}), and {} of {} are free",
                               bytes, index_, properties_.name, free_bytes(),
                               properties_.memory_bytes));
  }
  check(status, "allocate device memory");
  DeviceMemory memory(made);
  check(cudaMemsetAsync(made, 0, bytes, alone_.get()), "zero device memory");
  check(cudaStreamSynchronize(alone_.get()), "zero device memory");  // other streams do not wait
  device_bytes_[static_cast<std::byte*>(made)] = bytes;
  device_.push_back(std::move(memory));
  return static_cast<std::byte*>(made);
}

void RuntimeDriver::release(std::byte* device_memory) noexcept {
  const CurrentDevice entered(index_, std::nothrow);
  device_bytes_.erase(device_memory);
  const auto released =
      std::erase_if(device_, [&](const DeviceMemory& held) { return held.get() == device_memory; });
  if (released == 0) logger().error("device memory is released that is not held");
}

MappedMemory RuntimeDriver::mapped_memory(std::size_t bytes) {
  const CurrentDevice entered = enter_outside_capture("allocating page-locked memory");
  bytes = std::max<std::size_t>(bytes, 1);
  void* made = nullptr;
  check(cudaHostAlloc(&made, bytes, cudaHostAllocMapped), "allocate page-locked memory");
  HostMemory memory(made);
  void* device = nullptr;
  check(cudaHostGetDevicePointer(&device, made, 0), "map page-locked memory");
  mapped_.push_back(std::move(memory));
  std::byte* host = static_cast<std::byte*>(made);
  std::fill_n(host, bytes, std::byte{0});
  return {host, static_cast<std::byte*>(device)};
}

std::shared_ptr<std::byte> RuntimeDriver::page_locked_memory(std::size_t bytes) {
  const CurrentDevice entered = enter_outside_capture("allocating page-locked memory");
  bytes = std::max<std::size_t>(bytes, 1);
  void* made = nullptr;
  check(cudaHostAlloc(&made, bytes, cudaHostAllocDefault), "allocate page-locked memory");
  std::fill_n(static_cast<std::byte*>(made), bytes, std::byte{0});
  // It may go on any thread. The call would make a context on the first device where none is
  // current.
  return {static_cast<std::byte*>(made), [index = index_](std::byte* memory) {
            const CurrentDevice entered(index, std::nothrow);
            static_cast<void>(cudaFreeHost(memory));
          }};
}

bool RuntimeDriver::is_page_locked(const std::byte* memory) const {
  const CurrentDevice entered = enter();
  cudaPointerAttributes found{};
  check(cudaPointerGetAttributes(&found, memory), "ask whether host memory is page-locked");
  return found.type == cudaMemoryTypeHost;
}

bool RuntimeDriver::is_device_memory(const std::byte* memory) const {
  const CurrentDevice entered = enter();
  cudaPointerAttributes found{};
  check(cudaPointerGetAttributes(&found, memory), "ask where memory lies");
  return found.type == cudaMemoryTypeManaged ||
         (found.type == cudaMemoryTypeDevice && found.device == index_);
}

CudaStream RuntimeDriver::make_stream() {
  const CurrentDevice entered = enter_outside_capture("making a stream");
  own_streams_.push_back(make_nonblocking());
  streams_.push_back(own_streams_.back().get());
  return {static_cast<int>(streams_.size()) - 1};
}

CudaStream RuntimeDriver::stream_of_caller(void* handle) {
  const CurrentDevice entered = enter();
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  check(cudaStreamIsCapturing(static_cast<cudaStream_t>(handle), &status),
        "tell whether a tensor's stream is captured");
  if (status != cudaStreamCaptureStatusNone) {
    throw RunError(
        "a tensor's stream is being captured, and a step takes no part in captures of others; run "
        "it before or after");
  }
  const auto [found, added] = callers_.try_emplace(handle);
  if (!added) return found->second;
  streams_.push_back(static_cast<cudaStream_t>(handle));
  return found->second = {static_cast<int>(streams_.size()) - 1};
}

CudaEvent RuntimeDriver::make_event() { return make_event(cudaEventDisableTiming); }

CudaEvent RuntimeDriver::make_timed_event() { return make_event(cudaEventDefault); }

CudaEvent RuntimeDriver::make_event(unsigned flags) {
  const CurrentDevice entered = enter_outside_capture("making an event");
  cudaEvent_t made = nullptr;
  check(cudaEventCreateWithFlags(&made, flags), "make an event");
  events_.emplace_back(made);
  return {static_cast<int>(events_.size()) - 1};
}

void RuntimeDriver::record(CudaEvent event, CudaStream stream) {
  if (building_ && building_->takes(stream)) return building_->record(event, stream);
  const CurrentDevice entered = enter();
  check(cudaEventRecord(of(event), of(stream)), "record an event");
}

void RuntimeDriver::wait(CudaStream stream, CudaEvent event) {
  if (building_ && building_->wait(stream, event)) return;
  const CurrentDevice entered = enter();
  check(cudaStreamWaitEvent(of(stream), of(event), cudaEventWaitDefault), "wait for an event");
}

bool RuntimeDriver::is_done(CudaEvent event) {
  const CurrentDevice entered = enter();
  const cudaError_t status = cudaEventQuery(of(event));
  if (status == cudaErrorNotReady) {
    static_cast<void>(cudaGetLastError());
    return false;
  }
  check(status, "ask for an event");
  check_libraries();
  return true;
}

void RuntimeDriver::synchronize(CudaEvent event) {
  const CurrentDevice entered = enter_outside_capture("waiting for an event");
  check(cudaEventSynchronize(of(event)), "wait for an event");
  check_libraries();
}

void RuntimeDriver::synchronize(CudaStream stream) {
  const CurrentDevice entered = enter_outside_capture("waiting for a stream");
  check(cudaStreamSynchronize(of(stream)), "wait for a stream");
  check_libraries();
}

double RuntimeDriver::milliseconds(CudaEvent begin, CudaEvent end) {
  const CurrentDevice entered = enter();
  float result = 0;
  check(cudaEventElapsedTime(&result, of(begin), of(end)), "tell the time between two events");
  return static_cast<double>(result);
}

void RuntimeDriver::upload(void* to, const void* from, std::size_t bytes, CudaStream stream) {
  const CurrentDevice entered = enter_outside_capture("copying to the device");
  check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, of(stream)), "copy to the device");
}

void RuntimeDriver::download(void* to, const void* from, std::size_t bytes, CudaStream stream) {
  const CurrentDevice entered = enter_outside_capture("copying from the device");
  check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, of(stream)), "copy from the device");
  check(cudaStreamSynchronize(of(stream)), "copy from the device");
  check_libraries();
}

const DeviceKernels& RuntimeDriver::compiled_kernels() {
  static const DeviceKernels table = [] {
    DeviceKernels made = device_kernels();
    cuda::add_kernels_io(made);
    return made;
  }();
  return table;
}

const void* RuntimeDriver::find_compiled(const KernelCommand& command) const {
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
  GeneratedKernel& entry = generated_[command.source.get()];
  if (entry.kernel != nullptr) return entry.kernel;
  const void*& kernel = kernels_[*command.source];
  if (kernel == nullptr) {
    const std::vector<char> code =
        cached_cubin(*command.source, architecture(properties_.major, properties_.minor), cache_);
    cudaLibrary_t library = nullptr;
    check(cudaLibraryLoadData(&library, code.data(), nullptr, nullptr, 0, nullptr, nullptr, 0),
          "load a generated kernel");
    Module module(library);
    cudaKernel_t found = nullptr;
    check(cudaLibraryGetKernel(&found, library, kGeneratedEntry), "find a generated kernel");
    modules_.push_back(std::move(module));
    kernel = found;
  }
  entry = {command.source, kernel};
  return kernel;
}

const void* RuntimeDriver::code_of(const GeneratedCommand& command) const {
  const auto found = generated_.find(command.source.get());
  if (found == generated_.end() || found->second.kernel == nullptr) {
    throw InternalError("a generated kernel that was not prepared: " + command.name);
  }
  return found->second.kernel;
}

void RuntimeDriver::compile_ahead(std::span<const Command* const> commands) {
  std::vector<const Command*> missing;
  std::ranges::copy_if(commands, std::back_inserter(missing), [&](const Command* command) {
    const auto* generated = std::get_if<GeneratedCommand>(command);
    return generated != nullptr && !kernels_.contains(*generated->source);
  });
  // One alone is compiled as it is loaded.
  if (missing.size() < 2) return;
  runtime::compile_ahead(missing, architecture(properties_.major, properties_.minor), cache_);
}

CapturedNodes RuntimeDriver::prepare(const Command& command) {
  const CurrentDevice entered = enter_outside_capture("preparing a command");
  if (const auto* kernel = std::get_if<KernelCommand>(&command)) {
    load_code(kernel->name, find_compiled(*kernel), kernel->shape);
  } else if (const auto* generated = std::get_if<GeneratedCommand>(&command)) {
    load_code(generated->name, load(*generated), generated->shape);
  } else if (const auto* call = std::get_if<LibraryCommand>(&command)) {
    library_of(*call).prepare(*call);
    const std::vector<cudaGraphNodeType> types = node_types(capture_alone(*call).get());
    return {static_cast<int>(types.size()), call->conditional() && !unconditional(types)};
  }
  return {};
}

/// Nothing runs, but libraries load what they load lazily, which only this mode of capture allows.
RecordedGraph RuntimeDriver::capture_alone(const LibraryCommand& call) {
  check(cudaStreamBeginCapture(alone_.get(), cudaStreamCaptureModeRelaxed), "begin a capture");
  std::exception_ptr failed;
  try {
    library_of(call).enqueue(call, alone_.get());
  } catch (...) {
    failed = std::current_exception();
  }
  // One that was broken ends, too, but gives no graph.
  cudaGraph_t made = nullptr;
  const cudaError_t ended = cudaStreamEndCapture(alone_.get(), &made);
  RecordedGraph graph(made);
  if (failed == nullptr && ended == cudaSuccess) return graph;
  static_cast<void>(cudaGetLastError());
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  const cudaError_t asked = cudaStreamIsCapturing(alone_.get(), &status);
  if (asked != cudaSuccess || status != cudaStreamCaptureStatusNone) {
    // It did not end: the stream is never touched again.
    static_cast<void>(cudaGetLastError());
    static_cast<void>(alone_.release());
    alone_ = make_nonblocking();
  }
  if (failed != nullptr) std::rethrow_exception(failed);
  check(ended, "end a capture");
  return nullptr;
}

void RuntimeDriver::enqueue(const Command& command, CudaStream stream) {
  const CurrentDevice entered = enter();
  if (building_ && building_->takes(stream)) return add(command, stream);
  play(command, of(stream));
}

void RuntimeDriver::play(const Command& command, cudaStream_t stream) {
  if (const auto* kernel = std::get_if<KernelCommand>(&command)) {
    launch_kernel(find_compiled(*kernel), kernel->shape, kernel->arguments, stream);
  } else if (const auto* generated = std::get_if<GeneratedCommand>(&command)) {
    launch_kernel(code_of(*generated), generated->shape, generated->arguments, stream);
  } else if (const auto* copy = std::get_if<CopyCommand>(&command)) {
    check(cudaMemcpyAsync(copy->to, copy->from, copy->bytes, cudaMemcpyDefault, stream),
          "enqueue a copy");
  } else if (const auto* zero = std::get_if<ZeroCommand>(&command)) {
    check(cudaMemsetAsync(zero->to, 0, zero->bytes, stream), "enqueue a zeroing");
  } else if (const auto* call = std::get_if<LibraryCommand>(&command)) {
    library_of(*call).enqueue(*call, stream);
  }
}

void RuntimeDriver::add(const Command& command, CudaStream stream) {
  if (const auto* call = std::get_if<LibraryCommand>(&command)) return add(*call, stream);
  const bool own = std::holds_alternative<KernelCommand>(command) ||
                   std::holds_alternative<GeneratedCommand>(command);
  building_->add(
      stream, 1,
      [&](cudaGraphNode_t* made, cudaGraph_t graph, std::span<const cudaGraphNode_t> after) {
        const auto kernel = [&](const void* code, const auto& launched) {
          void* argument = const_cast<std::byte*>(launched.arguments.data());
          return add_kernel(made, graph, after, code, launched.shape, &argument);
        };
        if (const auto* k = std::get_if<KernelCommand>(&command))
          return kernel(find_compiled(*k), *k);
        if (const auto* g = std::get_if<GeneratedCommand>(&command)) return kernel(code_of(*g), *g);
        if (const auto* copy = std::get_if<CopyCommand>(&command)) {
          return add_copy(made, graph, after, *copy);
        }
        return add_zero(made, graph, after, std::get<ZeroCommand>(command));
      },
      own);
}

void RuntimeDriver::add(const LibraryCommand& call, CudaStream stream) {
  if (!call.conditional() && building_->in_case()) {
    throw InternalError(fmt::format("a {} in a conditional region", call.name()));
  }
  const RecordedGraph child = capture_alone(call);
  const std::vector<cudaGraphNodeType> types = node_types(child.get());
  if (const auto type = unconditional(types); type && building_->in_case()) {
    throw RunError(fmt::format("a node of type {} cannot stand in a conditional region",
                               static_cast<int>(*type)));
  }
  if (types.empty()) return building_->skip();
  building_->add(
      stream, static_cast<int>(types.size()),
      [&](cudaGraphNode_t* made, cudaGraph_t graph, std::span<const cudaGraphNode_t> after) {
        return add_child(made, graph, after, child.get());
      });
}

GraphBuilder& RuntimeDriver::builder_on(CudaStream stream, const char* what) {
  if (!building_ || building_->origin() != stream) throw InternalError(what);
  return *building_;
}

void RuntimeDriver::begin_capture(CudaStream stream) {
  const CurrentDevice entered = enter_outside_capture("beginning a capture");
  building_.emplace(stream);
}

void RuntimeDriver::begin_early(CudaStream stream) {
  const CurrentDevice entered = enter();
  builder_on(stream, "kernels that begin early outside of a capture").begin_early();
}

CudaGraphExec RuntimeDriver::end_capture(CudaStream stream, int expected) {
  const CurrentDevice entered = enter();
  GraphBuilder built = std::move(builder_on(stream, "the end of a capture that was not begun"));
  building_.reset();
  Graph graph;
  graph.commands = built.commands();
  graph.recorded = built.take();
  const int nodes = built.nodes();
  if (nodes != expected) {
    throw InternalError(
        fmt::format("the captured graph has {} nodes, and its commands make {}", nodes, expected));
  }
  graph.exec = instantiate(graph.recorded.get(), of(stream));
  graphs_.push_back(std::move(graph));
  return {static_cast<int>(graphs_.size()) - 1};
}

void RuntimeDriver::begin_cases(std::span<const bool* const> guards, bool otherwise,
                                CudaStream stream) {
  const CurrentDevice entered = enter();
  builder_on(stream, "a condition outside of a capture").begin_cases(guards, otherwise);
}

void RuntimeDriver::next_case(CudaStream stream) {
  const CurrentDevice entered = enter();
  builder_on(stream, "a case outside of a capture").next_case();
}

void RuntimeDriver::end_cases(CudaStream stream) {
  const CurrentDevice entered = enter();
  builder_on(stream, "a condition ends outside of a capture").end_cases();
}

void RuntimeDriver::abandon_capture(CudaStream stream) noexcept {
  if (building_ && building_->origin() == stream) building_.reset();
}

void RuntimeDriver::launch(CudaGraphExec graph, CudaStream stream) {
  const CurrentDevice entered = enter();
  check_libraries();
  check(cudaGraphLaunch(graphs_.at(graph.index).exec.get(), of(stream)), "launch a graph");
}

void RuntimeDriver::release(CudaGraphExec graph) noexcept {
  const CurrentDevice entered(index_, std::nothrow);
  graphs_[static_cast<std::size_t>(graph.index)] = {};
}

void RuntimeDriver::check_libraries() const {
  for (const auto& library : libraries_) library->require_sound();
}

std::size_t RuntimeDriver::other_bytes() const {
  // Memory comes in pages of 2 MiB, which small pieces share.
  constexpr std::size_t kPage = 2 << 20;
  const CurrentDevice entered = enter();
  const auto pages = [](std::size_t bytes) { return (bytes + kPage - 1) / kPage * kPage; };
  std::size_t held = 0, small = 0;
  for (const auto& [memory, bytes] : device_bytes_) {
    if (bytes < kPage) {
      small += bytes;
    } else {
      held += pages(bytes);
    }
  }
  const std::size_t left = free_bytes() + held + pages(small);
  return free_bytes_ > left ? free_bytes_ - left : 0;
}

}  // namespace metronome::executor::runtime
