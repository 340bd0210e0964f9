// The points of a training as a page shows them: thinned as they grow, told in parts.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace metronome::executor {

/// How far a page has been told. New for each page.
struct NewsCursor {
  struct Series {
    std::int64_t stride = 1;
    std::int64_t count = 0;
    std::size_t points = 0;  ///< told of those that are kept now
  };
  std::vector<Series> series;
  std::int64_t notes = 0;
  bool ended = false;
};

/// One thread adds, others read. Whoever adds waits for a reader only while that one copies a
/// series.
class Points {
 public:
  /// Kept of each series: where it grows beyond, every second point goes, and from then on every
  /// second one that comes. 16 bytes each.
  static constexpr std::size_t kMostPoints = 4096;
  /// Kept of notes: the last ones.
  static constexpr std::size_t kMostNotes = 100;

  enum class State : std::uint8_t { running, finished, failed };

  /// `steps`: the last step that there will be, 0 if that is not known.
  Points(std::string title, std::int64_t steps);

  void add(std::string_view name, std::int64_t step, double value);
  void note(std::string_view text);
  void end(State how);

  /// A JSON object of what the page has not been told; lines have no end inside.
  /// - title, state, seconds since the start, step (the highest so far), steps, rate (steps per
  /// second
  ///   over the last ten seconds) and left (seconds), each null where it is not known;
  /// - memory: bytes that this process holds now;
  /// - series: those with points that are new: at (its place among all), name, stride, count (of
  /// all
  ///   points, thinned ones too), points (flat: step, value, step, value, ...), last (the newest
  ///   point, thinned or not). A page with another stride drops every second of its points until
  ///   the stride is the same. Numbers that JSON lacks are "NaN", "Infinity" and "-Infinity";
  /// - notes: [seconds since the start, step, text] of each.
  std::string news(NewsCursor& told) const;

 private:
  using Clock = std::chrono::steady_clock;
  struct Point {
    std::int64_t step = 0;
    double value = 0;
  };
  struct Series {
    std::string name;
    std::int64_t stride = 1;
    std::int64_t count = 0;
    Point last = {};
    std::vector<Point> points = {};
  };
  struct Note {
    double seconds = 0;
    std::int64_t step = 0;
    std::string text;
  };
  struct Mark {
    Clock::time_point time;
    std::int64_t step = 0;
  };

  double seconds_to(Clock::time_point time) const;
  std::string news_of(std::size_t series, NewsCursor::Series& told) const;

  const std::string title_;
  const std::int64_t steps_;
  const Clock::time_point begin_ = Clock::now();

  mutable std::mutex mutex_;  // of all below
  State state_ = State::running;
  std::map<std::string, std::size_t, std::less<>> named_;
  std::vector<Series> series_;
  std::deque<Note> notes_;
  std::int64_t notes_made_ = 0;
  std::int64_t step_ = 0;
  Clock::time_point end_;
  std::deque<Mark> marks_;  // what the rate is taken over
};

}  // namespace metronome::executor
