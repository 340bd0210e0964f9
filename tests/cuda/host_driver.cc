#include "tests/cuda/host_driver.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <type_traits>
#include <utility>

#include "executor/engine/block.h"
#include "graph/ir/error.h"

namespace metronome {
namespace {

template <class... Functions>
struct Overloaded : Functions... {
  using Functions::operator()...;
};
template <class... Functions>
Overloaded(Functions...) -> Overloaded<Functions...>;

std::string key_of(const LibraryCommand& call) {
  return fmt::format("{} {} by {}", call.name(), call.text(),
                     call.algorithm() ? to_string(*call.algorithm()) : "any");
}

const char* does(LibraryOperand::Use use) {
  if (use == LibraryOperand::Use::read) return "reads";
  return use == LibraryOperand::Use::write ? "writes" : "works in";
}

void merge_into(std::vector<int>& to, const std::vector<int>& from) {
  to.insert(to.end(), from.begin(), from.end());
  std::sort(to.begin(), to.end());
  to.erase(std::unique(to.begin(), to.end()), to.end());
}

}  // namespace

HostDriver::HostDriver(HostSettings settings, HostKernels& kernels)
    : settings_(std::move(settings)),
      kernels_(kernels),
      libraries_(settings_.gemm_bias),
      player_(settings_.order, kernels),
      random_(settings_.seed.value_or(0)) {}

// --- Memory ---

std::byte* HostDriver::allocate(std::size_t bytes) {
  ++counts_.allocations;
  GuardedBytes block(bytes);
  std::memset(block.data(), 0, bytes);
  std::byte* data = block.data();
  memory_.emplace(data, std::move(block));
  return data;
}

std::byte* HostDriver::device_memory(std::size_t bytes) {
  forbid_in_capture("memory is asked for");
  if (bytes > settings_.properties.memory_bytes - device_bytes_) {
    throw RunError(fmt::format("the device has no {} bytes left of its {}", bytes,
                               settings_.properties.memory_bytes));
  }
  device_bytes_ += bytes;
  return allocate(bytes);
}

MappedMemory HostDriver::mapped_memory(std::size_t bytes) {
  forbid_in_capture("mapped memory is asked for");
  std::byte* data = allocate(bytes);
  return {data, data};
}

std::shared_ptr<std::byte> HostDriver::page_locked_memory(std::size_t bytes) {
  forbid_in_capture("page-locked memory is asked for");
  ++counts_.allocations;
  return executor::Block(bytes).owner();
}

void HostDriver::release(std::byte* device_memory) noexcept {
  const auto block = memory_.find(device_memory);
  std::string wrong;
  try {  // as cudaFree does, wait for what may touch it still
    const auto idle = [](const Stream& stream) { return stream.work.empty(); };
    if (!capturing_) advance_until([&] { return std::ranges::all_of(streams_, idle); });
  } catch (const std::exception&) {  // the device is in error: it runs nothing more
    for (Stream& stream : streams_) stream.work.clear();
  }
  if (capturing_) {
    wrong = "memory is released while a graph is captured";
  } else if (block == memory_.end()) {
    wrong = "memory is released that was not handed out";
  } else if (!block->second.intact()) {
    wrong =
        fmt::format("something was written beside {} bytes of device memory", block->second.size());
  }
  if (wrong_release_.empty()) wrong_release_ = wrong;
  if (block == memory_.end() || capturing_) return;
  device_bytes_ -= block->second.size();
  memory_.erase(block);
}

HostDriver::~HostDriver() {
  if (wrong_release_.empty()) return;
  fmt::print(stderr, "host device: {}\n", wrong_release_);
  std::abort();
}

void HostDriver::check() const {
  if (!wrong_release_.empty()) throw InternalError(std::exchange(wrong_release_, {}));
  for (const auto& [data, block] : memory_) {
    if (!block.intact()) {
      throw InternalError(
          fmt::format("something was written beside {} bytes of device memory", block.size()));
    }
  }
}

void HostDriver::require_own(const void* begin, std::size_t bytes, const char* what) const {
  const auto* address = static_cast<const std::byte*>(begin);
  auto block = memory_.upper_bound(address);
  if (block != memory_.begin()) {
    --block;
    if (address + bytes <= block->first + block->second.size()) return;
  }
  throw InternalError(fmt::format("{} {} bytes outside of device memory", what, bytes));
}

void HostDriver::require_own(const Command& command) const {
  if (const auto* copy = std::get_if<CopyCommand>(&command)) {
    require_own(copy->to, copy->bytes, "a copy writes");
    require_own(copy->from, copy->bytes, "a copy reads");
  } else if (const auto* zero = std::get_if<ZeroCommand>(&command)) {
    require_own(zero->to, zero->bytes, "zeros are written to");
  } else if (const auto* call = std::get_if<LibraryCommand>(&command)) {
    for (const LibraryOperand& operand : call->operands()) {
      const std::string what = fmt::format("{} {}", call->name(), does(operand.use));
      require_own(operand.data, operand.bytes, what.c_str());
    }
  }
}

// --- Streams and events ---

void HostDriver::forbid_in_capture(const char* what) const {
  if (capturing_) throw InternalError(fmt::format("{} while a graph is captured", what));
}

HostDriver::Stream& HostDriver::at(CudaStream stream) {
  if (stream.index < 0 || stream.index >= static_cast<int>(streams_.size())) {
    throw InternalError(fmt::format("there is no stream {}", stream.index));
  }
  return streams_[stream.index];
}

HostDriver::Event& HostDriver::at(CudaEvent event) {
  if (event.index < 0 || event.index >= static_cast<int>(events_.size())) {
    throw InternalError(fmt::format("there is no event {}", event.index));
  }
  return events_[event.index];
}

bool HostDriver::is_device_memory(const std::byte* memory) const {
  const auto after = memory_.upper_bound(memory);
  if (after == memory_.begin()) return false;
  const auto& [begin, bytes] = *std::prev(after);
  return memory < begin + bytes.size();
}

CudaStream HostDriver::make_stream() {
  forbid_in_capture("a stream is made");
  streams_.emplace_back();
  return {static_cast<int>(streams_.size()) - 1};
}

CudaStream HostDriver::stream_of_caller(void* handle) {
  if (captured_streams.contains(handle)) throw RunError("a tensor's stream is being captured");
  const auto [found, added] = callers_.try_emplace(handle);
  if (added) found->second = make_stream();
  return found->second;
}

CudaEvent HostDriver::make_event() {
  forbid_in_capture("an event is made");
  events_.emplace_back();
  return {static_cast<int>(events_.size()) - 1};
}

CudaEvent HostDriver::make_timed_event() {
  const CudaEvent event = make_event();
  at(event).timed = true;
  return event;
}

void HostDriver::record(CudaEvent event, CudaStream stream) {
  Event& e = at(event);
  if (const Stream& s = at(stream); s.captures) {
    if (!s.cases.empty()) throw InternalError("an event is recorded inside of a condition");
    e.capture = captures_;
    e.frontier = s.frontier;
    return;
  }
  e.capture = 0;
  e.pending.insert(++e.recorded);
  put(Record{event.index, e.recorded}, stream);
}

void HostDriver::wait(CudaStream stream, CudaEvent event) {
  const Event& e = at(event);
  Stream& s = at(stream);
  if (e.capture > 0) {
    if (!capturing_ || e.capture != captures_) {
      throw InternalError(fmt::format("stream {} waits for event {} of a capture that has ended",
                                      stream.index, event.index));
    }
    s.captures = true;
    merge_into(s.frontier, e.frontier);
  } else if (e.recorded > 0) {
    if (s.captures) {
      throw InternalError(
          fmt::format("stream {} waits in a capture for event {} from outside of it", stream.index,
                      event.index));
    }
    put(Wait{event.index, e.recorded}, stream);
  }
}

bool HostDriver::is_done(CudaEvent event) {
  forbid_in_capture("an event is asked for");
  const Event& e = at(event);
  if (e.capture > 0) throw InternalError(fmt::format("event {} is of a capture", event.index));
  if (!e.happened()) advance();
  return e.happened();
}

void HostDriver::synchronize(CudaEvent event) {
  forbid_in_capture("the host waits for an event");
  ++counts_.synchronizations;
  const Event& e = at(event);
  if (e.capture > 0) throw InternalError(fmt::format("event {} is of a capture", event.index));
  advance_until([&] { return e.happened(); });
  check();
}

void HostDriver::synchronize(CudaStream stream) {
  forbid_in_capture("the host waits for a stream");
  ++counts_.synchronizations;
  const Stream& s = at(stream);
  advance_until([&] { return s.work.empty(); });
  check();
}

double HostDriver::milliseconds(CudaEvent begin, CudaEvent end) {
  for (const CudaEvent event : {begin, end}) {
    if (!at(event).timed) {
      throw InternalError(fmt::format("event {} was made without timing", event.index));
    }
    if (const Event& e = at(event); e.recorded == 0 || !e.happened()) {
      throw InternalError(fmt::format("event {} has not happened", event.index));
    }
  }
  return at(end).at - at(begin).at;
}

void HostDriver::upload(void* to, const void* from, std::size_t bytes, CudaStream stream) {
  forbid_in_capture("bytes are uploaded");
  require_own(to, bytes, "an upload writes");
  ++counts_.uploads;
  put(Transfer{to, from, bytes}, stream);
}

void HostDriver::download(void* to, const void* from, std::size_t bytes, CudaStream stream) {
  forbid_in_capture("bytes are downloaded");
  require_own(from, bytes, "a download reads");
  ++counts_.downloads;
  put(Transfer{to, from, bytes}, stream);
  const Stream& s = at(stream);
  advance_until([&] { return s.work.empty(); });
}

// --- Commands ---

CapturedNodes HostDriver::prepare(const Command& command) {
  forbid_in_capture("a command is prepared");
  if (const auto* kernel = std::get_if<KernelCommand>(&command)) {
    kernels_.find(*kernel);
    loaded_.insert(kernel->kernel);
  } else if (const auto* generated = std::get_if<GeneratedCommand>(&command)) {
    kernels_.find(*generated);
  } else if (const auto* call = std::get_if<LibraryCommand>(&command)) {
    libraries_.check(*call);
    prepared_.insert(key_of(*call));
    return {libraries_.nodes(*call), settings_.conditional_calls && call->conditional()};
  }
  return {};
}

void HostDriver::require_prepared(const Command& command) const {
  const bool prepared = std::visit(
      Overloaded{[&](const KernelCommand& c) { return loaded_.contains(c.kernel); },
                 [&](const GeneratedCommand& c) { return kernels_.compiler().has(*c.source); },
                 [&](const LibraryCommand& c) { return prepared_.contains(key_of(c)); },
                 [&](const auto&) { return true; }},
      command);
  if (!prepared) throw InternalError(fmt::format("{} was not prepared", name_of(command)));
}

void HostDriver::enqueue(const Command& command, CudaStream stream) {
  if (on_enqueue) on_enqueue(command, stream);
  require_prepared(command);
  require_own(command);
  if (Stream& s = at(stream); s.captures) {
    ++counts_.captured;
    return capture(command, s);
  }
  ++counts_.enqueued;
  put(command, stream);
}

std::optional<std::vector<double>> HostDriver::measure_by_records(
    std::span<const std::span<const Command>> work, CudaStream stream) {
  forbid_in_capture("what is done is recorded");
  if (!settings_.records) return std::nullopt;
  std::vector<double> microseconds;
  for (const std::span<const Command> piece : work) {
    for (const Command& command : piece) enqueue(command, stream);
    microseconds.push_back(static_cast<double>(piece.size()) * settings_.in_graph_us);
  }
  synchronize(stream);
  return microseconds;
}

std::optional<std::vector<RunRecord>> HostDriver::launch_by_records(CudaGraphExec graph,
                                                                    CudaStream stream) {
  forbid_in_capture("what is done is recorded");
  if (!settings_.graph_records) return std::nullopt;
  launch(graph, stream);
  synchronize(stream);
  std::vector<RunRecord> ran = graphs_[graph.index].ran;
  std::ranges::stable_sort(ran, {}, &RunRecord::begin);
  if (on_records) on_records(ran);
  return ran;
}

void HostDriver::play(const Command& command) {
  if (settings_.seed) player_.set_order({RunOrder::Kind::random, random_()});
  player_.play(command);
}

// --- Doing the work ---

void HostDriver::put(Work work, CudaStream stream) {
  at(stream).work.push_back(std::move(work));
  if (settings_.lazy) return;
  while (advance()) {
  }
}

std::size_t HostDriver::pick(std::size_t count) { return settings_.seed ? random_() % count : 0; }

bool HostDriver::can_go(const Stream& stream) const {
  if (stream.work.empty()) return false;
  const Work& next = stream.work.front();
  if (const auto* wait = std::get_if<Wait>(&next)) {
    return !events_[wait->event].pending.contains(wait->occasion);
  }
  const auto* launch = std::get_if<Launch>(&next);
  return launch == nullptr || graphs_[launch->graph].finished == launch->before;
}

/// One piece of work of one stream; false where nothing is left to do.
bool HostDriver::advance() {
  std::vector<Stream*> able;
  for (Stream& stream : streams_) {
    if (can_go(stream)) able.push_back(&stream);
  }
  if (able.empty()) return false;
  advance_stream(*able[pick(able.size())]);
  return true;
}

template <class Condition>
void HostDriver::advance_until(const Condition& condition) {
  while (!condition()) {
    if (!advance()) throw InternalError("streams wait for each other");
  }
}

void HostDriver::advance_stream(Stream& stream) {
  const auto finished =
      std::visit(Overloaded{[&](const Command& command) {
                              play(command);
                              clock_ += time_of(&command, settings_.alone_us) / 1e3;
                              return true;
                            },
                            [&](const Transfer& t) {
                              if (t.bytes > 0) std::memcpy(t.to, t.from, t.bytes);
                              return true;
                            },
                            [&](const Record& r) {
                              events_[r.event].pending.erase(r.occasion);
                              events_[r.event].at = clock_;
                              return true;
                            },
                            [&](const Wait&) { return true; },
                            [&](const Launch& l) { return advance_graph(graphs_[l.graph]); }},
                 stream.work.front());
  if (finished) stream.work.pop_front();
}

/// Keeps the record of a node that ran.
void HostDriver::note_run(Graph& graph, int node, bool ran) {
  double begin = 0;
  for (const int before : graph.nodes[node].after) begin = std::max(begin, graph.ends[before]);
  const double us =
      ran ? time_of(std::get_if<Command>(&graph.nodes[node].work), settings_.in_graph_us) : 0;
  graph.ends[node] = begin + us;
  if (ran) graph.ran.push_back({graph.nodes[node].command, begin, begin + us});
}

/// The time of a launch on the clock.
double HostDriver::time_of(const Graph& graph) const {
  double sum = 0, end = 0;
  for (const RunRecord& run : graph.ran) {
    sum += run.end - run.begin;
    end = std::max(end, run.end);
  }
  return settings_.graph_records ? end : sum;
}

/// Microseconds; `command`: null for a condition.
double HostDriver::time_of(const Command* command, double otherwise) const {
  return microseconds && command != nullptr ? microseconds(*command) : otherwise;
}

/// False where it is of a case that was not taken.
bool HostDriver::run_node(Graph& graph, const Graph::Node& node) {
  if (node.in.condition >= 0 && graph.conditions[node.in.condition].chosen != node.in.index) {
    return false;
  }
  if (const auto* command = std::get_if<Command>(&node.work)) {
    plays_graph_ = true;
    play(*command);
    plays_graph_ = false;
    return true;
  }
  Graph::Condition& condition = graph.conditions[std::get<int>(node.work)];
  const auto first =
      std::ranges::find_if(condition.guards, [](const bool* guard) { return *guard; });
  condition.chosen = static_cast<int>(first - condition.guards.begin());
  return true;
}

/// One node of the graph; true where it was the last.
bool HostDriver::advance_graph(Graph& graph) {
  const int nodes = static_cast<int>(graph.nodes.size());
  if (!graph.runs) {
    graph.runs = true;
    graph.left = graph.nodes.size();
    graph.missing.assign(nodes, 0);
    graph.ready.clear();
    graph.ends.assign(nodes, 0);
    graph.ran.clear();
    for (Graph::Condition& condition : graph.conditions) condition.chosen = -1;
    for (int i = 0; i < nodes; ++i) {
      graph.missing[i] = static_cast<int>(graph.nodes[i].after.size());
      if (graph.missing[i] == 0) graph.ready.push_back(i);
    }
  }
  if (graph.left > 0) {
    const auto chosen = graph.ready.begin() + static_cast<std::ptrdiff_t>(pick(graph.ready.size()));
    const int node = *chosen;
    graph.ready.erase(chosen);
    const bool ran = run_node(graph, graph.nodes[node]);
    note_run(graph, node, ran);
    if (!ran) ++counts_.skipped;
    --graph.left;
    for (const int next : graph.nodes[node].before) {
      if (--graph.missing[next] > 0) continue;
      graph.ready.insert(std::lower_bound(graph.ready.begin(), graph.ready.end(), next), next);
    }
  }
  if (graph.left > 0) return false;
  clock_ += time_of(graph) / 1e3;
  graph.runs = false;
  ++graph.finished;
  return true;
}

}  // namespace metronome
