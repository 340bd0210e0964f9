// Each call adds a line to `lines_`, such as "upload 64 bytes on stream 0", and computes nothing.
// Handles are numbers in order. Device addresses are made up; mapped and page-locked memory is real
// host memory. Three tables hold the rules of capture, and a call that breaks one is an
// InternalError:
//
//   capturing_    [stream] streams of the capture; false: no stream has waited for all its work
//   recorded_     [event] its stream, and whether that was captured
//   cases_left_   for each open condition, the cases that have not begun
//
// The end of a capture asks that all streams were joined and all conditions ended. The number of
// nodes must be the one that the commands gave when they were prepared.
#include "executor/cuda/driver/null_driver.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "executor/engine/block.h"
#include "graph/ir/error.h"

namespace metronome {
namespace {

std::string describe(const Command& command) {
  if (const auto* k = std::get_if<KernelCommand>(&command)) {
    return fmt::format("{} <<<{}, {}, {}>>>", k->name, k->shape.blocks, k->shape.threads,
                       k->shape.shared_bytes);
  }
  if (const auto* g = std::get_if<GeneratedCommand>(&command)) {
    return fmt::format("{} <<<{}, {}, {}>>>", g->name, g->shape.blocks, g->shape.threads,
                       g->shape.shared_bytes);
  }
  if (const auto* c = std::get_if<CopyCommand>(&command)) {
    return fmt::format("copy {} bytes", c->bytes);
  }
  if (const auto* z = std::get_if<ZeroCommand>(&command)) {
    return fmt::format("zero {} bytes", z->bytes);
  }
  const auto& call = std::get<LibraryCommand>(command);
  return fmt::format("{} {}", call.name(), call.text());
}

}  // namespace

NullDriver::NullDriver(DeviceProperties properties) : properties_(std::move(properties)) {}

void NullDriver::write(std::string line) { lines_.push_back(std::move(line)); }

void NullDriver::outside_capture(const char* what) const {
  if (capturing_.empty()) return;
  throw InternalError(fmt::format("{} while a capture is under way", what));
}

std::byte* NullDriver::device_memory(std::size_t bytes) {
  outside_capture("memory was asked for");
  write(fmt::format("memory {} bytes", bytes));
  auto* at = reinterpret_cast<std::byte*>(next_address_);
  // A gap after each block, so that two neighbours never look like one block.
  next_address_ += (bytes + 511) / 256 * 256;
  blocks_[at] = bytes;
  return at;
}

void NullDriver::release(std::byte* device_memory) noexcept {
  write(blocks_.erase(device_memory) > 0 ? "release" : "release of memory that is not held");
}

MappedMemory NullDriver::mapped_memory(std::size_t bytes) {
  outside_capture("mapped memory was asked for");
  write(fmt::format("mapped {} bytes", bytes));
  mapped_.push_back(std::make_unique<std::byte[]>(bytes + kAlignment));
  const auto begin = reinterpret_cast<std::uintptr_t>(mapped_.back().get());
  auto* at = reinterpret_cast<std::byte*>((begin + kAlignment - 1) / kAlignment * kAlignment);
  return {at, at};
}

std::shared_ptr<std::byte> NullDriver::page_locked_memory(std::size_t bytes) {
  outside_capture("page-locked memory was asked for");
  write(fmt::format("page-locked {} bytes", bytes));
  return executor::Block(bytes).owner();
}

CudaStream NullDriver::make_stream() {
  outside_capture("a stream was made");
  write(fmt::format("stream {}", streams_));
  return {streams_++};
}

CudaStream NullDriver::stream_of_caller(void* handle) {
  const auto [found, added] = callers_.try_emplace(handle);
  if (!added) return found->second;
  outside_capture("a stream was made");
  write(fmt::format("stream {} is the caller's", streams_));
  return found->second = {streams_++};
}

CudaEvent NullDriver::make_event() {
  outside_capture("an event was made");
  write(fmt::format("event {}", events_));
  return {events_++};
}

CudaEvent NullDriver::make_timed_event() {
  outside_capture("an event was made");
  write(fmt::format("timed event {}", events_));
  return {events_++};
}

void NullDriver::record(CudaEvent event, CudaStream stream) {
  if (!cases_left_.empty()) throw InternalError("an event is recorded inside of a condition");
  recorded_[event.index] = {stream.index, captures(stream)};
  write(fmt::format("record event {} on stream {}", event.index, stream.index));
}

void NullDriver::wait(CudaStream stream, CudaEvent event) {
  if (!cases_left_.empty()) throw InternalError("an event is waited for inside of a condition");
  const auto recorded = recorded_.find(event.index);
  const bool in_capture = recorded != recorded_.end() && recorded->second.second;
  if (captures(stream) && !in_capture) {
    throw InternalError(fmt::format("stream {} waits in a capture for event {}, which is not of it",
                                    stream.index, event.index));
  }
  if (in_capture && !capturing_.empty()) {
    capturing_[stream.index] = false;  // joins the capture, or goes on in it
    if (recorded->second.first != stream.index) capturing_[recorded->second.first] = true;
  }
  write(fmt::format("wait for event {} on stream {}", event.index, stream.index));
}

bool NullDriver::is_done(CudaEvent) { return true; }

void NullDriver::synchronize(CudaEvent) { outside_capture("the host waited for an event"); }

void NullDriver::synchronize(CudaStream) { outside_capture("the host waited for a stream"); }

double NullDriver::milliseconds(CudaEvent, CudaEvent) { return 0; }

void NullDriver::upload(void*, const void*, std::size_t bytes, CudaStream stream) {
  outside_capture("bytes were uploaded");
  write(fmt::format("upload {} bytes on stream {}", bytes, stream.index));
}

void NullDriver::download(void* to, const void*, std::size_t bytes, CudaStream stream) {
  outside_capture("bytes were downloaded");
  std::memset(to, 0, bytes);
  write(fmt::format("download {} bytes on stream {}", bytes, stream.index));
}

CapturedNodes NullDriver::prepare(const Command& command) {
  outside_capture("a command was prepared");
  const auto* call = std::get_if<LibraryCommand>(&command);
  return {.conditional = call == nullptr || call->conditional()};
}

void NullDriver::enqueue(const Command& command, CudaStream stream) {
  if (!capturing_.empty() && !captures(stream)) {
    throw InternalError(
        fmt::format("{} on stream {}, which takes no part in the capture that is under way",
                    describe(command), stream.index));
  }
  if (captures(stream)) {
    capturing_[stream.index] = false;
    ++captured_nodes_;
  }
  write(fmt::format("{} on stream {}", describe(command), stream.index));
}

void NullDriver::begin_capture(CudaStream stream) {
  outside_capture("a capture was begun");
  capturing_[stream.index] = true;
  captured_nodes_ = 0;
  write(fmt::format("begin capture on stream {}", stream.index));
}

void NullDriver::begin_cases(std::span<const bool* const> guards, bool otherwise,
                             CudaStream stream) {
  if (!captures(stream)) throw InternalError("a condition outside of a capture");
  if (guards.empty() || std::ranges::count(guards, nullptr) > 0) {
    throw InternalError("a condition without a guard");
  }
  cases_left_.push_back(guards.size() + (otherwise ? 1 : 0) - 1);
  captured_nodes_ += kCaseNodes;
  write(fmt::format(
      "{} on stream {}",
      guards.size() == 1 ? std::string("if") : fmt::format("switch of {}", guards.size()),
      stream.index));
}

void NullDriver::next_case(CudaStream) {
  if (cases_left_.empty() || cases_left_.back() == 0) {
    throw InternalError("a case of a condition that has no more");
  }
  --cases_left_.back();
  write("else");
}

void NullDriver::end_cases(CudaStream) {
  if (cases_left_.empty() || cases_left_.back() > 0) {
    throw InternalError("a condition ends that did not begin, or lacks cases");
  }
  cases_left_.pop_back();
  write("end");
}

CudaGraphExec NullDriver::end_capture(CudaStream stream, int expected) {
  for (const auto& [index, joined] : capturing_) {
    if (joined || index == stream.index) continue;
    throw InternalError(fmt::format("the capture ends, but stream {} was not joined", index));
  }
  if (!cases_left_.empty()) throw InternalError("the capture ends inside of a condition");
  capturing_.clear();
  recorded_.clear();
  if (captured_nodes_ != expected) {
    throw InternalError(
        fmt::format("the captured graph has {} nodes, but its commands, captured alone, {}",
                    captured_nodes_, expected));
  }
  write(fmt::format("end capture: graph {} of {} nodes", graphs_, captured_nodes_));
  return {graphs_++};
}

void NullDriver::abandon_capture(CudaStream) noexcept {
  cases_left_.clear();
  capturing_.clear();
  recorded_.clear();
}

void NullDriver::launch(CudaGraphExec graph, CudaStream stream) {
  write(fmt::format("launch graph {} on stream {}", graph.index, stream.index));
}

void NullDriver::release(CudaGraphExec graph) noexcept {
  write(fmt::format("release graph {}", graph.index));
}

std::vector<Candidate> NullDriver::candidates(const LibraryCommand& call) const {
  constexpr std::size_t kWorkspace = 4 << 20;  // what cuBLAS itself takes by default, about
  return {{.maker = call.maker(), .scratch_bytes = kWorkspace}};
}

}  // namespace metronome
