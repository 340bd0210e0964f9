// Memory that was touched is cut into segments. Each knows the item that wrote it last and those
// that read it since; a range that begins or ends inside of a segment splits it.
//
//   item 0 writes [0, 8)     [0, 8) w0
//   item 1 reads [4, 12)     [0, 4) w0   [4, 8) w0 r1               [8, 12) r1     after 0
//   item 2 writes [6, 8)     [0, 4) w0   [4, 6) w0 r1   [6, 8) w2   [8, 12) r1     after 1
//
// A reader comes after the segment's writer. A writer comes after its readers, or after its writer
// where there are none: readers come after that one already. `Ancestors` keeps a row of bits for
// each item, of all that it comes after. It goes through an item's list from the latest to the
// earliest and drops what the rows of the later ones hold.
#include "executor/cuda/program/hazards.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <map>
#include <utility>

namespace metronome::executor::program {
namespace {

using Items = std::vector<std::int32_t>;

/// Who touched which bytes last. Segments do not overlap; bytes in none were never touched.
class LastTouches {
 public:
  /// Adds the writers of the range to `before`.
  void read(const ByteRange& range, std::int32_t item, Items& before) {
    for_each_segment(range, [&](Segment& segment) {
      if (segment.writer >= 0) before.push_back(segment.writer);
      if (segment.readers.empty() || segment.readers.back() != item) {
        segment.readers.push_back(item);
      }
    });
  }

  /// Adds the writers and the readers of the range to `before`; the range is one segment then.
  void write(const ByteRange& range, std::int32_t item, Items& before) {
    if (range.bytes == 0) return;
    for_each_segment(range, [&](Segment& segment) {
      // Each reader came after the writer already.
      if (segment.readers.empty() && segment.writer >= 0) before.push_back(segment.writer);
      before.insert(before.end(), segment.readers.begin(), segment.readers.end());
    });
    const auto begin = reinterpret_cast<std::uintptr_t>(range.begin);
    const auto first = segments_.find(begin);
    segments_.erase(std::next(first), segments_.lower_bound(begin + range.bytes));
    first->second = {begin + range.bytes, item, {}};
  }

 private:
  struct Segment {
    std::uintptr_t end = 0;
    std::int32_t writer = -1;  // none within the step
    Items readers = {};        // since the writer
  };

  /// Makes segments end and begin at an address that lies inside of one.
  void split(std::uintptr_t at) {
    auto next = segments_.lower_bound(at);
    if (next == segments_.begin()) return;
    Segment& segment = std::prev(next)->second;
    if (segment.end <= at) return;
    Segment rest = segment;
    segment.end = at;
    segments_.emplace_hint(next, at, std::move(rest));
  }

  /// Calls f on segments that cover exactly the range, new ones where nothing was touched.
  template <class F>
  void for_each_segment(const ByteRange& range, F f) {
    if (range.bytes == 0) return;
    const auto begin = reinterpret_cast<std::uintptr_t>(range.begin);
    const std::uintptr_t end = begin + range.bytes;
    split(begin);
    split(end);
    auto next = segments_.lower_bound(begin);
    for (std::uintptr_t at = begin; at < end; at = next->second.end, ++next) {
      if (next == segments_.end() || next->first != at) {
        const std::uintptr_t gap_end = next == segments_.end() ? end : std::min(end, next->first);
        next = segments_.emplace_hint(next, at, Segment{gap_end});
      }
      f(next->second);
    }
  }

  std::map<std::uintptr_t, Segment> segments_;  // by first address
};

/// The items that each item comes after, directly or not: a bit each.
class Ancestors {
 public:
  /// Takes out of `before`, a new item's list, what the rest of it comes after; the list ascends
  /// then.
  void reduce(Items& before) {
    const std::size_t item = rows_.size();
    std::vector<std::uint64_t>& row = rows_.emplace_back((item + 63) / 64);
    std::sort(before.begin(), before.end(), std::greater<>());
    Items kept;
    for (const std::int32_t i : before) {
      if (row[i / 64] >> (i % 64) & 1) continue;  // twice in the list, or implied by a later one
      kept.push_back(i);
      for (std::size_t word = 0; word < rows_[i].size(); ++word) row[word] |= rows_[i][word];
      row[i / 64] |= std::uint64_t{1} << (i % 64);
    }
    std::reverse(kept.begin(), kept.end());
    before = std::move(kept);
  }

 private:
  std::vector<std::vector<std::uint64_t>> rows_;  // [item] bits of the items before it
};

}  // namespace

std::vector<Items> hazards(std::span<const TouchedMemory> items) {
  std::vector<Items> result(items.size());
  LastTouches touched;
  Ancestors ancestors;
  for (std::size_t i = 0; i < items.size(); ++i) {
    const auto item = static_cast<std::int32_t>(i);
    Items& before = result[i];
    for (const ByteRange& range : items[i].reads) touched.read(range, item, before);
    for (const ByteRange& range : items[i].writes) touched.write(range, item, before);
    std::erase(before, item);
    ancestors.reduce(before);
  }
  return result;
}

}  // namespace metronome::executor::program
