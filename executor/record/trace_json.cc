#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "executor/record/trace.h"

namespace metronome {
namespace {

using TraceJson = nlohmann::ordered_json;

enum Row { host = 1, kernels = 2 };

/// Complete events ("ph": "X") of one row lie inside each other or apart.
TraceJson slice(Row row, std::string_view name, double begin, double microseconds) {
  return {{"name", name}, {"ph", "X"},          {"pid", 1}, {"tid", static_cast<int>(row)},
          {"ts", begin},  {"dur", microseconds}};
}

TraceJson metadata_event(std::string_view what, int row, std::string_view name) {
  TraceJson event = {{"name", what}, {"ph", "M"}, {"pid", 1}, {"args", {{"name", name}}}};
  if (row > 0) event["tid"] = row;
  return event;
}

/// The scopes of a kernel: all parts of its path but the last.
std::vector<std::string_view> scopes_of(std::string_view path) {
  std::vector<std::string_view> scopes;
  for (std::size_t slash; (slash = path.find('/')) != path.npos; path.remove_prefix(slash + 1)) {
    scopes.push_back(path.substr(0, slash));
  }
  return scopes;
}

TraceJson kernel_slice(const KernelTime& kernel, const TracedRun& run) {
  TraceJson event = slice(kernels, kernel.op, run.begin, run.microseconds);
  event["cat"] = name_of(kernel.phase);
  TraceJson& more = event["args"];
  more = {{"kernel", kernel.kernel}, {"bytes", kernel.bytes}, {"flops", kernel.flops}};
  if (run.microseconds > 0) {
    more["GB/s"] = kernel.bytes * 1e-3 / run.microseconds;
    more["GFLOP/s"] = kernel.flops * 1e-3 / run.microseconds;
  }
  return event;
}

/// A scope is open from its first kernel to its last one of those that follow each other.
class Scopes {
 public:
  explicit Scopes(TraceJson& events) : events_(events) {}

  void at(std::string_view path, const TracedRun& run) {
    const std::vector<std::string_view> scopes = scopes_of(path);
    std::size_t same = 0;
    while (same < std::min(scopes.size(), open_.size()) && scopes[same] == open_[same].name) ++same;
    close(same);
    for (std::size_t i = same; i < scopes.size(); ++i) open_.push_back({scopes[i], run.begin});
    end_ = run.begin + run.microseconds;
  }
  /// All but the outermost `keep`.
  void close(std::size_t keep = 0) {
    for (; open_.size() > keep; open_.pop_back()) {
      events_.push_back(
          slice(kernels, open_.back().name, open_.back().begin, end_ - open_.back().begin));
    }
  }

 private:
  struct OpenScope {
    std::string_view name;
    double begin;
  };
  TraceJson& events_;
  std::vector<OpenScope> open_;
  double end_ = 0;
};

}  // namespace

std::string to_json(const Trace& trace) {
  TraceJson events = TraceJson::array();
  events.push_back(
      metadata_event("process_name", 0, fmt::format("{} on {}", trace.graph, trace.target)));
  events.push_back(metadata_event("thread_name", host, "steps"));
  events.push_back(metadata_event("thread_name", kernels, fmt::format("kernels, {}", trace.where)));
  for (const TracedStep& step : trace.steps) {
    events.push_back(slice(host, fmt::format("step {} ({})", step.number, name_of(step.mode)),
                           step.begin, step.microseconds));
    events.push_back(slice(host, "feeds", step.begin, step.kernels_begin - step.begin));
    Scopes scopes(events);
    for (const TracedRun& run : step.runs) {
      const KernelTime& kernel = trace.kernels[run.kernel];
      scopes.at(kernel.path, run);
      events.push_back(kernel_slice(kernel, run));
    }
    scopes.close();
  }
  const TraceJson whole = {{"displayTimeUnit", "ns"}, {"traceEvents", std::move(events)}};
  return whole.dump(-1, ' ', false, TraceJson::error_handler_t::replace);
}

}  // namespace metronome
