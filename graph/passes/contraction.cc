#include "graph/passes/contraction.h"

#include <algorithm>
#include <utility>

namespace metronome::passes {

Contraction::Contraction(const ir::Graph& graph) {
  const auto count = static_cast<std::int32_t>(graph.nodes().size());
  readers_.resize(count);
  marked_.resize(count, 0);
  listed_.resize(count, 0);
  for (std::int32_t n = 0; n < count; ++n) {
    of_.push_back(n);
    members_.push_back({n});
    order_.push_back(n);
    place_.push_back(n);
    const auto follow = [&](std::int32_t before) {
      std::vector<std::int32_t>& readers = readers_[before];
      if (readers.empty() || readers.back() != n) readers.push_back(n);
    };
    const Node& node = graph.nodes()[n];
    for (const ValueId id : node.inputs) follow(id.node);
    if (node.guard.present()) follow(node.guard.node);
    for (const std::int32_t before : node.waits_for) follow(before);
    waits_.push_back(node.waits_for);
  }
  read_by_ = readers_;
}

bool Contraction::waits(std::int32_t a, std::int32_t b) const {
  return std::ranges::any_of(members_[a], [&](std::int32_t node) {
    return std::ranges::any_of(waits_[node], [&](std::int32_t before) { return of_[before] == b; });
  });
}

std::vector<std::int32_t> Contraction::order() const {
  std::vector<std::int32_t> groups = order_;
  std::erase(groups, kGone);
  return groups;
}

void Contraction::shorten(std::int32_t group) {
  ++lists_;
  listed_[group] = lists_;
  std::erase_if(read_by_[group], [&](std::int32_t reader) {
    return std::exchange(listed_[of_[reader]], lists_) == lists_;
  });
}

bool Contraction::mark_between(std::int32_t first, std::int32_t last) {
  ++search_;
  std::vector<std::int32_t> open = {first};
  while (!open.empty()) {
    const std::int32_t group = open.back();
    open.pop_back();
    for (const std::int32_t reader : read_by_[group]) {
      const std::int32_t next = of_[reader];
      if (next == last && group != first) return false;
      if (place_[next] >= place_[last] || marked_[next] == search_) continue;
      marked_[next] = search_;
      open.push_back(next);
    }
  }
  return true;
}

bool Contraction::merge(std::int32_t a, std::int32_t b) {
  if (place_[a] > place_[b]) std::swap(a, b);
  if (waits(b, a) || !mark_between(a, b)) return false;

  // ... a x y z b ...  where only y reads a becomes  ... x z ab y ...
  std::vector<std::int32_t> readers;
  std::int32_t place = place_[a];
  for (std::int32_t i = place_[a] + 1; i < place_[b]; ++i) {
    const std::int32_t group = order_[i];
    if (group == kGone) continue;
    if (marked_[group] == search_) {
      readers.push_back(group);
    } else {
      order_[place++] = group;
    }
  }
  order_[place++] = b;
  for (const std::int32_t group : readers) order_[place++] = group;
  const std::int32_t end = place_[b] + 1;  // what stands after it stays where it is
  for (std::int32_t i = place_[a]; i < place; ++i) place_[order_[i]] = i;
  for (std::int32_t i = place; i < end; ++i) order_[i] = kGone;

  std::vector<std::int32_t> both(members_[a].size() + members_[b].size());
  std::merge(members_[a].begin(), members_[a].end(), members_[b].begin(), members_[b].end(),
             both.begin());
  for (const std::int32_t node : members_[a]) of_[node] = b;
  members_[a].clear();
  members_[b] = std::move(both);
  read_by_[b].insert(read_by_[b].end(), read_by_[a].begin(), read_by_[a].end());
  read_by_[a] = {};
  shorten(b);
  return true;
}

}  // namespace metronome::passes
