// Two groups can be one unless a path leads from one to the other through a third. All groups stand
// in an order, a ring with rising labels, so such a path lies between the two:
//
//   ... a x y z b ...     y reads a; b reads x and z
//
// Two searches take turns between a and b: one forward from a, along readers, the other back from
// b, along operands. A group that both find lies on such a path, and the merge is refused. One
// search that ends alone is enough. The groups found forward, here y, move behind b; or those found
// back, here x and z, move before a. Labels leave gaps of 2^32 for groups that move, and all are
// numbered anew if a gap is used up.
#include "graph/passes/walk/contraction.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <queue>
#include <utility>

namespace metronome::passes {
namespace {

/// Between labels of neighbours: half of it is free for each group that moves between them.
constexpr std::uint64_t kApart = std::uint64_t{1} << 32;

}  // namespace

template <class Visit>
void Contraction::each_before(std::int32_t node, Visit visit) const {
  const Node& of = graph_.nodes()[node];
  for (const ValueId id : of.inputs) visit(id.node);
  if (of.guard.present()) visit(of.guard.node);
  for (const std::int32_t before : of.waits_for) visit(before);
}

Contraction::Contraction(const ir::Graph& graph) : graph_(graph) {
  const auto count = static_cast<std::int32_t>(graph.nodes().size());
  readers_.resize(count);
  marked_.resize(count, 0);
  listed_.resize(count, 0);
  for (std::int32_t n = 0; n < count; ++n) {
    of_.push_back(n);
    members_.push_back({n});
    each_before(n, [&](std::int32_t before) {
      std::vector<std::int32_t>& readers = readers_[before];
      if (readers.empty() || readers.back() != n) readers.push_back(n);
    });
  }
  read_by_ = readers_;
  for (std::int32_t place = 0; place <= count; ++place) {
    next_.push_back(place < count ? place + 1 : 0);
    previous_.push_back(place > 0 ? place - 1 : count);
  }
  label_.resize(count + 1, 0);
  label_anew();
}

bool Contraction::waits(std::int32_t a, std::int32_t b) const {
  return std::ranges::any_of(members_[a], [&](std::int32_t node) {
    return std::ranges::any_of(graph_.nodes()[node].waits_for,
                               [&](std::int32_t before) { return of_[before] == b; });
  });
}

std::vector<std::int32_t> Contraction::order() const {
  std::vector<std::int32_t> left(of_.size(), 0);  // [group] what it reads and is not yet listed
  for (std::int32_t n = 0; n < nodes(); ++n) {
    for (const std::int32_t reader : readers_[n]) left[of_[reader]] += of_[reader] != of_[n];
  }
  std::priority_queue<std::int32_t, std::vector<std::int32_t>, std::greater<>> ready;  // last nodes
  const auto add_if_ready = [&](std::int32_t group) {
    if (left[group] == 0) ready.push(members_[group].back());
  };
  for (std::int32_t group = 0; group < nodes(); ++group) {
    if (!members_[group].empty()) add_if_ready(group);
  }
  std::vector<std::int32_t> groups;
  while (!ready.empty()) {
    const std::int32_t group = of_[ready.top()];
    ready.pop();
    groups.push_back(group);
    for (const std::int32_t n : members_[group]) {
      for (const std::int32_t reader : readers_[n]) {
        if (of_[reader] == group) continue;
        --left[of_[reader]];
        add_if_ready(of_[reader]);
      }
    }
  }
  return groups;
}

void Contraction::shorten(std::int32_t group) {
  ++lists_;
  listed_[group] = lists_;
  std::erase_if(read_by_[group], [&](std::int32_t reader) {
    return std::exchange(listed_[of_[reader]], lists_) == lists_;
  });
}

bool Contraction::look_after(std::int32_t group, std::int32_t first, std::int32_t last,
                             Side& after) {
  for (const std::int32_t reader : read_by_[group]) {
    ++after.steps;
    const std::int32_t next = of_[reader];
    if (next == last && group != first) return false;
    if (label_[next] >= label_[last] || marked_[next] == search_) continue;
    if (marked_[next] == -search_) return false;
    marked_[next] = search_;
    if (next != first) after.found.push_back(next);
  }
  return true;
}

bool Contraction::look_before(std::int32_t group, std::int32_t first, std::int32_t last,
                              Side& before) {
  bool apart = true;
  for (const std::int32_t member : members_[group]) {
    each_before(member, [&](std::int32_t node) {
      ++before.steps;
      const std::int32_t next = of_[node];
      if (next == first && group != last) apart = false;
      if (label_[next] <= label_[first] || marked_[next] == -search_) return;
      if (marked_[next] == search_) apart = false;
      marked_[next] = -search_;
      if (next != last) before.found.push_back(next);
    });
  }
  return apart;
}

bool Contraction::search_between(std::int32_t first, std::int32_t last, Side& after, Side& before) {
  ++search_;
  marked_[first] = search_;
  marked_[last] = -search_;
  if (!look_after(first, first, last, after)) return false;
  for (bool begun = false; after.looked_at < after.found.size();) {
    // One side or the other, so that neither takes many more steps than the other.
    if (begun && before.looked_at == before.found.size()) return true;
    const std::int32_t up = after.found[after.looked_at];
    const std::int32_t down = begun ? before.found[before.looked_at] : last;
    if (after.steps + read_by_[up].size() <= before.steps + members_[down].size()) {
      ++after.looked_at;
      if (!look_after(up, first, last, after)) return false;
    } else {
      if (std::exchange(begun, true)) ++before.looked_at;
      if (!look_before(down, first, last, before)) return false;
    }
  }
  return true;
}

void Contraction::label_anew() {
  const std::int32_t end = nodes();
  std::uint64_t label = 0;
  for (std::int32_t place = next_[end]; place != end; place = next_[place]) {
    label_[place] = label += kApart;
  }
}

void Contraction::take_out(std::int32_t group) {
  next_[previous_[group]] = next_[group];
  previous_[next_[group]] = previous_[group];
}

void Contraction::move_behind(std::int32_t place, std::vector<std::int32_t>& groups) {
  std::ranges::sort(groups, {}, [&](std::int32_t group) { return label_[group]; });
  for (const std::int32_t group : groups) {
    take_out(group);
    next_[group] = next_[place];
    previous_[group] = place;
    next_[place] = previous_[next_[group]] = group;
    place = group;
  }
  if (groups.empty()) return;
  const std::int32_t before = previous_[groups.front()], behind = next_[place];
  const std::uint64_t end =
      behind == nodes() ? std::numeric_limits<std::uint64_t>::max() : label_[behind];
  const std::uint64_t apart = (end - label_[before]) / (groups.size() + 1);
  if (apart == 0) return label_anew();
  std::uint64_t label = label_[before];
  for (const std::int32_t group : groups) label_[group] = label += apart;
}

bool Contraction::merge(std::int32_t a, std::int32_t b) {
  if (label_[a] > label_[b]) std::swap(a, b);
  Side after, before;
  if (waits(b, a) || !search_between(a, b, after, before)) return false;

  // ... a x y z b ...  where only y reads a becomes  ... x z ab y ...,
  //                    or, where b reads only x,     ... x ab y z ...
  if (after.looked_at == after.found.size()) {
    move_behind(b, after.found);
  } else {
    move_behind(previous_[a], before.found);
    std::swap(a, b);
  }
  take_out(a);

  std::vector<std::int32_t> both(members_[a].size() + members_[b].size());
  std::merge(members_[a].begin(), members_[a].end(), members_[b].begin(), members_[b].end(),
             both.begin());
  for (const std::int32_t node : members_[a]) of_[node] = b;
  members_[a] = {};
  members_[b] = std::move(both);
  read_by_[b].insert(read_by_[b].end(), read_by_[a].begin(), read_by_[a].end());
  read_by_[a] = {};
  shorten(b);
  return true;
}

}  // namespace metronome::passes
