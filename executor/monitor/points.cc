#include "executor/monitor/points.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>

namespace metronome::executor {
namespace {

constexpr std::chrono::milliseconds kBetweenMarks{500};
constexpr std::size_t kMarks = 21;  // ten seconds

std::string number(double value) {
  if (std::isnan(value)) return "\"NaN\"";
  if (std::isinf(value)) return value > 0 ? "\"Infinity\"" : "\"-Infinity\"";
  return fmt::format("{}", value);
}

/// In quotes; bytes that are no UTF-8 give way to U+FFFD.
std::string json_text(std::string_view text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::int64_t resident_bytes() {
  std::int64_t all = 0, held = 0;  // in pages
  std::ifstream("/proc/self/statm") >> all >> held;
  return held * sysconf(_SC_PAGESIZE);
}

std::string_view name_of(Points::State state) {
  constexpr std::string_view kNames[] = {"running", "finished", "failed"};
  return kNames[static_cast<std::size_t>(state)];
}

}  // namespace

Points::Points(std::string title, std::int64_t steps) : title_(std::move(title)), steps_(steps) {}

double Points::seconds_to(Clock::time_point time) const {
  return std::chrono::duration<double>(time - begin_).count();
}

void Points::add(std::string_view name, std::int64_t step, double value) {
  const Clock::time_point now = Clock::now();
  const std::scoped_lock lock(mutex_);
  auto named = named_.find(name);
  if (named == named_.end()) {
    named = named_.emplace(name, series_.size()).first;
    series_.push_back({.name = std::string(name)});
    series_.back().points.reserve(kMostPoints);
  }
  Series& series = series_[named->second];
  series.last = {step, value};
  if (series.count++ % series.stride == 0) {
    if (series.points.size() == kMostPoints) {
      for (std::size_t i = 0; 2 * i < kMostPoints; ++i) series.points[i] = series.points[2 * i];
      series.points.resize(kMostPoints / 2);
      series.stride *= 2;  // this point is at a multiple of it
    }
    series.points.push_back({step, value});
  }
  step_ = std::max(step_, step);
  if (marks_.empty() || now - marks_.back().time >= kBetweenMarks) {
    marks_.push_back({now, step_});
    if (marks_.size() > kMarks) marks_.pop_front();
  }
}

void Points::note(std::string_view text) {
  const std::scoped_lock lock(mutex_);
  notes_.push_back({seconds_to(Clock::now()), step_, std::string(text)});
  ++notes_made_;
  if (notes_.size() > kMostNotes) notes_.pop_front();
}

void Points::end(State how) {
  const std::scoped_lock lock(mutex_);
  state_ = how;
  end_ = Clock::now();
}

std::string Points::news_of(std::size_t at, NewsCursor::Series& told) const {
  std::string name;
  std::vector<Point> fresh;
  Point last;
  {
    const std::scoped_lock lock(mutex_);
    const Series& series = series_[at];
    if (told.count == series.count) return "";
    for (; told.stride < series.stride; told.stride *= 2) told.points = (told.points + 1) / 2;
    fresh.assign(series.points.begin() + static_cast<std::ptrdiff_t>(told.points),
                 series.points.end());
    told.points = series.points.size();
    told.count = series.count;
    name = series.name;
    last = series.last;
  }
  std::string json =
      fmt::format(R"({{"at":{},"name":{},"stride":{},"count":{},"last":[{},{}],)", at,
                  json_text(name), told.stride, told.count, last.step, number(last.value));
  json += "\"points\":[";
  for (const Point& point : fresh) {
    if (json.back() != '[') json += ',';
    fmt::format_to(std::back_inserter(json), "{},{}", point.step, number(point.value));
  }
  return json + "]}";
}

std::string Points::news(NewsCursor& told) const {
  std::size_t all = 0;
  std::vector<Note> notes;
  std::string json;
  {
    const std::scoped_lock lock(mutex_);
    all = series_.size();
    const auto fresh =
        std::min<std::int64_t>(notes_made_ - told.notes, static_cast<std::int64_t>(notes_.size()));
    notes.assign(notes_.end() - fresh, notes_.end());
    told.notes = notes_made_;
    told.ended = state_ != State::running;
    const Clock::time_point now = told.ended ? end_ : Clock::now();
    std::string rate = "null", left = "null";
    if (marks_.size() > 1 && marks_.back().step > marks_.front().step) {
      const double seconds = seconds_to(marks_.back().time) - seconds_to(marks_.front().time);
      const double steps = static_cast<double>(marks_.back().step - marks_.front().step) / seconds;
      rate = number(steps);
      if (steps_ > 0)
        left = number(static_cast<double>(std::max(steps_ - step_, std::int64_t{0})) / steps);
    }
    json = fmt::format(
        R"({{"title":{},"state":"{}","seconds":{:.3f},"step":{},"steps":{},"rate":{},"left":{},)",
        json_text(title_), name_of(state_), seconds_to(now), step_,
        steps_ > 0 ? std::to_string(steps_) : "null", rate, left);
  }
  json += fmt::format("\"memory\":{},\"series\":[", resident_bytes());
  told.series.resize(all);
  for (std::size_t at = 0; at < all; ++at) {
    const std::string series = news_of(at, told.series[at]);
    if (!series.empty() && json.back() != '[') json += ',';
    json += series;
  }
  json += "],\"notes\":[";
  for (const Note& note : notes) {
    if (json.back() != '[') json += ',';
    json += fmt::format("[{:.3f},{},{}]", note.seconds, note.step, json_text(note.text));
  }
  return json + "]}";
}

}  // namespace metronome::executor
