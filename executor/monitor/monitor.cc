// A monitor gives each point to a page, to files, or to both. `Page` keeps the points in memory,
// for a server to show. `Files` writes to a folder:
//
//   .lock                   locked by the one run that may write there
//   scalars.csv             a line for each point: step, time, name, value
//   events.out.tfevents.*   the same points for TensorBoard; a run begins one that sorts last
//
// A run that is resumed keeps the lines before its first step, and drops the rest of the table. A
// new run refuses a folder that holds points. Both files are flushed together, at most every
// `flush_seconds`.
#include "executor/monitor/monitor.h"

#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <system_error>
#include <utility>

#include "executor/monitor/appended_file.h"
#include "executor/monitor/event_file.h"
#include "executor/monitor/points.h"
#include "executor/monitor/watch_server.h"
#include "executor/support/atomic_file.h"
#include "executor/support/log.h"
#include "graph/ir/error.h"

namespace metronome {
namespace {

namespace fs = std::filesystem;
using executor::AppendedFile;
using executor::cannot;

constexpr std::string_view kHeader = "step,time,name,value\n";
constexpr std::string_view kEvents = "events.out.tfevents.";

double seconds_now() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration<double>(now).count();
}

/// The step of a line; absent where it is no point.
std::optional<std::int64_t> step_of(std::string_view line) {
  std::int64_t step = 0;
  const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), step);
  if (error != std::errc() || std::ranges::count(line, ',') < 3 || *end != ',') return std::nullopt;
  return step;
}

/// The whole lines of an earlier run, up to `first_step`. A run that was killed may have left a
/// part of a line.
std::string kept_points(const fs::path& file, std::int64_t first_step) {
  std::string kept(kHeader);
  std::ifstream in(file, std::ios::binary);
  if (!in) return kept;
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  if (text.empty() || (text.size() < kHeader.size() && kHeader.starts_with(text))) return kept;
  if (!text.starts_with(kHeader)) {
    cannot(file, "gone on with",
           fmt::format("it does not begin with \"{}\"", kHeader.substr(0, kHeader.size() - 1)));
  }
  std::int64_t points = 0, last = 0;
  for (std::size_t begin = kHeader.size(), end; (end = text.find('\n', begin)) != text.npos;
       begin = end + 1) {
    const std::string_view line(text.data() + begin, end - begin);
    const std::optional<std::int64_t> step = step_of(line);
    if (!step) cannot(file, "gone on with", fmt::format("\"{}\" is no point", line));
    ++points;
    last = std::max(last, *step);
    if (*step < first_step) kept.append(line).append("\n");
  }
  if (first_step == 0 && points > 0) {
    throw RunError(fmt::format(
        "{}: holds {} point{} up to step {}: name another folder for a new run, or resume this one",
        file.string(), points, points == 1 ? "" : "s", last));
  }
  return kept;
}

/// Readers take a folder's event files in the order of their names.
fs::path next_event_file(const fs::path& folder) {
  auto second = static_cast<std::int64_t>(seconds_now());
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    std::int64_t taken = 0;
    if (!name.starts_with(kEvents)) continue;
    std::from_chars(name.data() + kEvents.size(), name.data() + name.size(), taken);
    second = std::max(second, taken + 1);
  }
  char host[256] = "host";
  static_cast<void>(gethostname(host, sizeof host - 1));
  return folder / fmt::format("{}{:010}.{}.{}", kEvents, second, host, getpid());
}

/// A field of CSV, in quotes where it needs them (RFC 4180).
std::string field(std::string_view text) {
  if (text.find_first_of(",\"") == text.npos) return std::string(text);
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"') quoted += '"';
    quoted += c;
  }
  return quoted + '"';
}

/// Text that a line of CSV and a string of protocol buffers hold.
bool is_name(std::string_view name) {
  const auto control = [](char c) { return static_cast<unsigned char>(c) < ' ' || c == 0x7F; };
  if (name.empty() || std::ranges::any_of(name, control)) return false;
  try {
    static_cast<void>(nlohmann::json(name).dump());
    return true;
  } catch (const nlohmann::json::type_error&) {  // no UTF-8
    return false;
  }
}

fs::path make_folder(const std::string& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) cannot(folder, "made", error.message());
  if (!fs::is_directory(folder)) cannot(folder, "made", "it is a file");
  return folder;
}

void check(const MonitorOptions& options, const std::string& name) {
  if (options.first_step < 0 || !(options.flush_seconds >= 0) || options.steps < 0) {
    throw RunError(fmt::format(
        "{}: a monitor begins with step 0 or a later one, not {}, flushes after 0 seconds or more, "
        "not {}, and expects 0 steps or more, not {}",
        name, options.first_step, options.flush_seconds, options.steps));
  }
  if (options.port && (*options.port < 0 || *options.port > 65535)) {
    throw RunError(fmt::format("{}: a port is 0 to 65535, not {}", name, *options.port));
  }
}

}  // namespace

class Monitor::Files {
 public:
  Files(const std::string& folder, const MonitorOptions& options)
      : flush_seconds_(options.flush_seconds),
        folder_(make_folder(folder)),
        lock_(folder_ / ".lock") {
    if (flock(lock_.descriptor(), LOCK_EX | LOCK_NB) != 0) {
      throw RunError(fmt::format("{}: another run writes there: name another folder", folder));
    }
    const fs::path table = folder_ / "scalars.csv";
    const std::string kept = kept_points(table, options.first_step);
    executor::AtomicFile file(table);
    file.write(std::as_bytes(std::span(kept)));
    file.commit();
    csv_.emplace(table);
    events_.emplace(next_event_file(folder_));
    events_->write(executor::version_record(seconds_now()));
    if (options.first_step > 0) {
      events_->write(executor::restart_record(seconds_now(), options.first_step));
    }
    flush();
  }

  void scalar(std::string_view name, std::int64_t step, double value) {
    const double now = seconds_now();
    csv_->write(fmt::format("{},{:.3f},{},{}\n", step, now, field(name), value));
    events_->write(executor::scalar_record(now, step, name, static_cast<float>(value)));
    if (now - flushed_ >= flush_seconds_) flush();
  }

  void flush() {
    flushed_ = seconds_now();
    csv_->flush();
    events_->flush();
  }

 private:
  double flush_seconds_;
  fs::path folder_;
  AppendedFile lock_;
  std::optional<AppendedFile> csv_, events_;
  double flushed_ = 0;
};

class Monitor::Page {
 public:
  explicit Page(const MonitorOptions& options)
      : points_(options.title, options.steps), server_(options.address, *options.port, points_) {}
  Page(const Page&) = delete;
  ~Page() {
    using State = executor::Points::State;
    points_.end(std::uncaught_exceptions() > exceptions_ ? State::failed : State::finished);
  }

  executor::Points& points() { return points_; }
  const std::string& url() const { return server_.url(); }

 private:
  const int exceptions_ = std::uncaught_exceptions();
  executor::Points points_;
  executor::WatchServer server_;  // ends before what it shows
};

Monitor::Monitor(const std::string& folder, MonitorOptions options)
    : name_(folder.empty() ? options.title : folder), first_step_(options.first_step) {
  if (folder.empty() && !options.port) throw RunError("a monitor has neither a folder nor a port");
  check(options, name_);
  // The page first: where it cannot be served, no folder is left behind.
  if (options.port) page_ = std::make_unique<Page>(options);
  if (!folder.empty()) files_ = std::make_unique<Files>(folder, options);
}

Monitor::~Monitor() {
  try {
    flush();
  } catch (const std::exception& error) {
    executor::logger().warn("{}", error.what());
  }
}

void Monitor::scalar(std::string_view name, std::int64_t step, double value) {
  if (!is_name(name)) {
    throw RunError(fmt::format(
        "{}: a point's name is \"{}\": it must be UTF-8, not empty, without control characters",
        name_, name));
  }
  if (step < first_step_) {
    throw RunError(fmt::format("{}: \"{}\" has a point at step {}, before the first step, {}",
                               name_, name, step, first_step_));
  }
  if (page_) page_->points().add(name, step, value);
  if (files_) files_->scalar(name, step, value);
}

void Monitor::note(std::string_view text) {
  if (page_) page_->points().note(text);
}
void Monitor::flush() {
  if (files_) files_->flush();
}
std::string Monitor::page() const { return page_ ? page_->url() : ""; }

}  // namespace metronome
