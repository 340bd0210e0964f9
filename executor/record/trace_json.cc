#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "executor/record/trace.h"

namespace metronome {
namespace {

using TraceJson = nlohmann::ordered_json;

constexpr int kHostRow = 1;
constexpr int kFirstTraceRow = 2;  // and those behind it, where kernels overlap
// Microseconds by which times that were added up may be off: a kernel that begins as another ends.
constexpr double kRounding = 1e-6;

/// Complete events ("ph": "X") of one row lie inside each other or apart.
TraceJson slice(int row, std::string_view name, double begin, double microseconds) {
  return {{"name", name}, {"ph", "X"},   {"pid", 1},
          {"tid", row},   {"ts", begin}, {"dur", microseconds}};
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

TraceJson kernel_slice(int row, const KernelTime& kernel, const TracedRun& run) {
  TraceJson event = slice(row, kernel.op, run.begin, run.microseconds);
  event["cat"] = name_of(kernel.phase);
  TraceJson& more = event["args"];
  more = {{"kernel", kernel.kernel}, {"bytes", kernel.bytes}, {"flops", kernel.flops}};
  if (run.microseconds > 0) {
    more["GB/s"] = kernel.bytes * 1e-3 / run.microseconds;
    more["GFLOP/s"] = kernel.flops * 1e-3 / run.microseconds;
  }
  return event;
}

/// A row of kernels. A scope is open from its first kernel to its last one of those that follow
/// each other.
class TraceRow {
 public:
  TraceRow(TraceJson& events, int row) : events_(events), row_(row) {}

  int row() const { return row_; }
  double end() const { return end_; }

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
          slice(row_, open_.back().name, open_.back().begin, end_ - open_.back().begin));
    }
  }

 private:
  struct OpenScope {
    std::string_view name;
    double begin;
  };
  TraceJson& events_;
  int row_;
  std::vector<OpenScope> open_;
  double end_ = 0;
};

/// Each kernel in the first row in which none runs when it begins; gives the number of rows.
std::size_t add_kernels(TraceJson& events, const Trace& trace, const TracedStep& step) {
  std::deque<TraceRow> rows;
  for (const TracedRun& run : step.runs) {
    const KernelTime& kernel = trace.kernels[run.kernel];
    auto row = std::ranges::find_if(
        rows, [&](const TraceRow& each) { return each.end() <= run.begin + kRounding; });
    if (row == rows.end()) {
      rows.emplace_back(events, kFirstTraceRow + static_cast<int>(rows.size()));
      row = std::prev(rows.end());
    }
    row->at(kernel.path, run);
    events.push_back(kernel_slice(row->row(), kernel, run));
  }
  for (TraceRow& row : rows) row.close();
  return rows.size();
}

}  // namespace

std::string to_json(const Trace& trace) {
  TraceJson events = TraceJson::array();
  events.push_back(
      metadata_event("process_name", 0, fmt::format("{} on {}", trace.graph, trace.target)));
  events.push_back(metadata_event("thread_name", kHostRow, "steps"));
  std::size_t rows = 1;
  for (const TracedStep& step : trace.steps) {
    events.push_back(slice(kHostRow, fmt::format("step {} ({})", step.number, name_of(step.mode)),
                           step.begin, step.microseconds));
    events.push_back(slice(kHostRow, "feeds", step.begin, step.kernels_begin - step.begin));
    rows = std::max(rows, add_kernels(events, trace, step));
  }
  for (std::size_t i = 0; i < rows; ++i) {
    const std::string beside = i == 0 ? "" : fmt::format(", beside {}", i);
    events.push_back(metadata_event("thread_name", kFirstTraceRow + static_cast<int>(i),
                                    fmt::format("kernels, {}{}", trace.where, beside)));
  }
  const TraceJson whole = {{"displayTimeUnit", "ns"}, {"traceEvents", std::move(events)}};
  return whole.dump(-1, ' ', false, TraceJson::error_handler_t::replace);
}

}  // namespace metronome
