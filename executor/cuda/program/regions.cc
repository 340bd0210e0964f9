// There are two passes. `Grouper` places the tasks. A task is ready when all that it comes after
// are placed. A region takes its own ready tasks first; where it has none, it opens a node for a
// region within, and leaves that when nothing is ready there. So tasks of one guard come together,
// as far as their order allows. Here a loop of three iterations runs forward (0, 2, 4), to the loss
// (5) and backward (6, 7, 8); task 1 computes a, task 3 computes b, which implies a:
//
//   planned   0  1  2|a  3  4|b  5  6|b  7|a  8
//   flat      0  1  if a {2}  3  if b {4}  5  if b {6}  if a {7}  8
//   nested    0  1  if a {2 3 if b {4}} else {b := false}  5  if a {if b {6} 7}  8
//
// A node gets a further body while a task is ready under a guard that excludes those of all its
// bodies and was computed before the node was opened. `Clearing` then walks all places in order and
// adds what bodies clear: guards that other bodies of the node compute and that are read later.
#include "executor/cuda/program/regions.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <utility>

#include "executor/cuda/driver/driver.h"
#include "executor/cuda/program/io_kernels.h"
#include "graph/ir/error.h"

namespace metronome::executor::program {
namespace {

/// Takes tasks in an order that leaves a region only when nothing is ready in it.
class Grouper {
 public:
  Grouper(std::span<const Task> tasks, std::span<const std::vector<std::int32_t>> after,
          const control::Regions& guards, Nesting nesting)
      : tasks_(tasks),
        guards_(guards),
        nesting_(nesting),
        waits_for_(tasks.size()),
        followers_(tasks.size()),
        placed_(tasks.size(), -1) {
    for (std::size_t i = 0; i < tasks.size(); ++i) {
      const auto task = static_cast<std::int32_t>(i);
      waits_for_[i] = static_cast<std::int32_t>(after[i].size());
      for (const std::int32_t before : after[i]) followers_[before].push_back(task);
      if (guard_of(i).present()) ++left_under_[guard_of(i)];
      if (tasks[i].computes.present()) maker_of_[tasks[i].computes] = task;
      if (after[i].empty()) ready_.insert(task);
    }
  }

  RegionParts run() {
    RegionParts parts = within({});
    if (taken_ != static_cast<std::int32_t>(tasks_.size())) {
      throw InternalError(
          fmt::format("{} of {} tasks stand in no region", tasks_.size() - taken_, tasks_.size()));
    }
    return parts;
  }

 private:
  /// Takes the ready tasks that run if `region` is true (an absent guard: the whole graph), then
  /// the tasks that these make ready, and so on.
  RegionParts within(ValueId region) {
    // No region in this one is its own or around it: of a loop's guards, few are left to look at.
    const bool was_open = open_.erase(region) > 0;
    RegionParts parts = parts_of(region);
    if (was_open && left_under_.contains(region)) open_.insert(region);
    return parts;
  }

  RegionParts parts_of(ValueId region) {
    RegionParts parts;
    while (true) {
      if (const std::int32_t task = ready_itself(region); task >= 0) {
        parts.push_back({take(task), {}});
      } else if (const ValueId inner = ready_region(region); inner.present()) {
        parts.push_back({-1, bodies(region, inner)});
      } else {
        return parts;
      }
    }
  }

  /// A conditional node in `region`, whose first body is under `first`.
  std::vector<Body> bodies(ValueId region, ValueId first) {
    const std::int32_t opened = taken_;
    std::vector<ValueId> guards;
    std::vector<Body> bodies;
    for (ValueId guard = first; guard.present(); guard = ready_other(region, guards, opened)) {
      guards.push_back(guard);
      RegionParts parts = within(guard);
      if (can_stand_for(parts, opened, bodies.size())) {
        std::move(parts[0].bodies.begin(), parts[0].bodies.end(), std::back_inserter(bodies));
      } else {
        bodies.push_back({guard, address_of(guard), std::move(parts)});
      }
      if (bodies.size() == CudaDriver::kMostCases) break;
    }
    return bodies;
  }

  /// True where a body holds a node alone, whose bodies can be those of the node around it: it has
  /// `others` besides, and all guards were computed before it was opened. (A guard that is never
  /// true implies all others, also one of a body in which it was not computed.)
  bool can_stand_for(const RegionParts& parts, std::int32_t opened, std::size_t others) const {
    return parts.size() == 1 && parts[0].task < 0 &&
           others + parts[0].bodies.size() <= CudaDriver::kMostCases &&
           std::ranges::all_of(
               parts[0].bodies,
               [&](const Body& body) { return computed_before(body.guard, opened); });
  }

  /// The first ready task of the region's own.
  std::int32_t ready_itself(ValueId region) const {
    for (const std::int32_t i : ready_) {
      const Task& task = tasks_[i];
      const bool decides = nesting_ == Nesting::nested && region.present() &&
                           task.computes.present() && !guard_of(i).present() &&
                           guards_.implies(task.computes, region);
      if (same(guard_of(i), region) || decides) return i;
    }
    return -1;
  }

  /// The region in `region` that the first ready task within opens; absent where there is none.
  ValueId ready_region(ValueId region) const {
    for (const std::int32_t i : ready_) {
      if (const ValueId inner = guard_to_open(i, region); inner.present()) return inner;
    }
    return {};
  }

  /// Another that excludes all of `guards` and was computed before the node was opened.
  ValueId ready_other(ValueId region, std::span<const ValueId> guards, std::int32_t opened) const {
    for (const std::int32_t i : ready_) {
      const ValueId inner = guard_to_open(i, region);
      if (!inner.present() || !computed_before(inner, opened)) continue;
      if (std::ranges::all_of(guards, [&](ValueId g) { return guards_.exclude(g, inner); })) {
        return inner;
      }
    }
    return {};
  }

  /// The weakest guard that is stronger than `region`, that the task's guard implies, and whose
  /// byte still holds it; absent if the task's place is not within `region`.
  ValueId guard_to_open(std::int32_t task, ValueId region) const {
    const ValueId own = guard_of(task);
    if (!stronger(own, region)) return {};
    if (nesting_ == Nesting::flat) return region.present() ? ValueId{} : own;
    ValueId weakest = own;
    for (const ValueId guard : open_) {
      if (stronger(weakest, guard) && stronger(guard, region)) weakest = guard;
    }
    return weakest;
  }

  bool same(ValueId a, ValueId b) const {
    return a == b || (guards_.implies(a, b) && guards_.implies(b, a));
  }
  bool stronger(ValueId a, ValueId b) const {
    return a.present() && a != b && guards_.implies(a, b) && !guards_.implies(b, a);
  }

  bool computed_before(ValueId guard, std::int32_t place) const {
    const auto maker = maker_of_.find(guard);
    return maker != maker_of_.end() && placed_[maker->second] >= 0 &&
           placed_[maker->second] < place;
  }

  /// The guard under which the task has its place.
  ValueId guard_of(std::size_t task) const {
    return tasks_[task].conditional ? tasks_[task].guard : ValueId{};
  }

  std::int32_t take(std::int32_t task) {
    placed_[task] = taken_++;
    ready_.erase(task);
    for (const std::int32_t follower : followers_[task]) {
      if (--waits_for_[follower] == 0) ready_.insert(follower);
    }
    const ValueId made = tasks_[task].computes;
    if (left_under_.contains(made)) open_.insert(made);
    const ValueId own = guard_of(task);
    if (own.present() && --left_under_[own] == 0) {
      left_under_.erase(own);
      open_.erase(own);
    }
    return task;
  }

  const bool* address_of(ValueId guard) const {
    for (const Task& task : tasks_) {
      if (task.guard == guard) return task.guard_at;
    }
    throw InternalError("a region under a guard that no task has");
  }

  std::span<const Task> tasks_;
  const control::Regions& guards_;
  Nesting nesting_;
  std::vector<std::int32_t> waits_for_;               // [task]
  std::vector<std::vector<std::int32_t>> followers_;  // [task]
  std::vector<std::int32_t> placed_;                  // [task] its place, or -1
  std::set<std::int32_t> ready_;                      // not placed, and waiting for nothing
  std::map<ValueId, int> left_under_;                 // tasks that are not placed, if any
  std::set<ValueId> open_;  // computed guards with tasks left (while there is one, the guard's byte
                            // is its own), but for those of the regions that it stands in
  std::map<ValueId, std::int32_t> maker_of_;
  std::int32_t taken_ = 0;
};

/// Adds what bodies must clear.
class Clearing {
 public:
  Clearing(std::span<const Task> tasks, const RegionParts& parts) : tasks_(tasks) {
    list(parts);
    find_last_reads();
  }

  void run(RegionParts& parts) {
    for (RegionPart& part : parts) {
      if (part.task >= 0) {
        ++place_;
      } else {
        run(part.bodies);
      }
    }
  }

 private:
  void run(std::vector<Body>& bodies) {
    std::vector<std::pair<std::size_t, std::size_t>> ranges;  // of places, of each body
    for (Body& body : bodies) {
      const std::size_t begin = place_;
      run(body.parts);
      ranges.emplace_back(begin, place_);
    }
    // The body that runs where no guard is true comes last, without tasks.
    ranges.emplace_back(place_, place_);
    for (std::size_t i = 0; i < ranges.size(); ++i) {
      const auto [begin, end] = ranges[i];
      // Guards of earlier bodies are cleared first, as this body may read them; guards of later
      // bodies are cleared last, as their bytes may hold another value until then.
      const std::vector<bool*> first = guards_of(ranges.front().first, begin, begin);
      const std::vector<bool*> last = guards_of(end, place_, place_);
      if (first.empty() && last.empty()) continue;
      if (i == bodies.size()) bodies.emplace_back();
      bodies[i].clears_first = clears_of(first);
      bodies[i].clears_last = clears_of(last);
    }
  }

  /// Those that are computed from `begin` on, before `end`, and read at `read` or later.
  std::vector<bool*> guards_of(std::size_t begin, std::size_t end, std::size_t read) const {
    std::vector<bool*> guards;
    auto made = std::ranges::lower_bound(made_, begin, {}, &ComputedGuard::place);
    for (; made != made_.end() && made->place < end; ++made) {
      if (made->last_read >= read && made->last_read > made->place) guards.push_back(made->guard);
    }
    return guards;
  }

  static std::vector<Command> clears_of(std::span<bool* const> guards) {
    CommandList commands;
    for (std::size_t begin = 0; begin < guards.size(); begin += cuda::ClearGuards::kMost) {
      cuda::ClearGuards clear{};
      for (; clear.count < cuda::ClearGuards::kMost && begin + clear.count < guards.size();
           ++clear.count) {
        clear.guards[clear.count] = guards[begin + clear.count];
      }
      commands.launch(clear, {1, cuda::ClearGuards::kMost, 0});
    }
    return commands.commands();
  }

  /// Fills `made_`. The last read of a guard comes before its byte is written again.
  void find_last_reads() {
    std::map<const std::byte*, std::size_t> open;  // a guard's byte: its place in `made_`
    const auto within = [&](const ByteRange& range) {
      const auto* begin = static_cast<const std::byte*>(range.begin);
      return std::pair(open.lower_bound(begin), open.lower_bound(begin + range.bytes));
    };
    for (std::size_t place = 0; place < order_.size(); ++place) {
      const Task& task = tasks_[order_[place]];
      for (const ByteRange& range : task.touched.reads) {
        const auto [begin, end] = within(range);
        for (auto it = begin; it != end; ++it) made_[it->second].last_read = place;
      }
      for (const ByteRange& range : task.touched.writes) {
        const auto [begin, end] = within(range);
        open.erase(begin, end);
      }
      if (!task.computes.present()) continue;
      const void* byte = task.touched.writes.front().begin;
      open[static_cast<const std::byte*>(byte)] = made_.size();
      made_.push_back({place, static_cast<bool*>(const_cast<void*>(byte)), place});
    }
  }

  void list(const RegionParts& parts) {
    for (const RegionPart& part : parts) {
      if (part.task >= 0) order_.push_back(part.task);
      for (const Body& body : part.bodies) list(body.parts);
    }
  }

  /// A guard that the task at `place` computes; `last_read` is `place` where nothing reads it.
  struct ComputedGuard {
    std::size_t place;
    bool* guard;
    std::size_t last_read;
  };

  std::span<const Task> tasks_;
  std::vector<std::int32_t> order_;  // [place] task
  std::vector<ComputedGuard> made_;  // by place
  std::size_t place_ = 0;
};

}  // namespace

RegionParts make_regions(std::span<const Task> tasks,
                         std::span<const std::vector<std::int32_t>> after,
                         const control::Regions& guards, Nesting nesting) {
  RegionParts parts = Grouper(tasks, after, guards, nesting).run();
  Clearing(tasks, parts).run(parts);
  return parts;
}

int regions_in(const RegionParts& parts) {
  int regions = 0;
  for (const RegionPart& part : parts) {
    regions += part.task < 0;
    for (const Body& body : part.bodies) regions += regions_in(body.parts);
  }
  return regions;
}

int depth_of(const RegionParts& parts) {
  int depth = 0;
  for (const RegionPart& part : parts) {
    for (const Body& body : part.bodies) depth = std::max(depth, 1 + depth_of(body.parts));
  }
  return depth;
}

}  // namespace metronome::executor::program
