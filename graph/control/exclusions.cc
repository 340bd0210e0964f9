// `HeaviestGuards` splits the guards that weigh anything into parts, the parts into parts, and so
// on, by two kinds of split in turn:
//
//   add_up    no pair lies between two parts: the sum of the parts' weights
//   exclude   every two guards of two parts are a pair: the largest of them
//
//   x.choose(s, {f, g}), x.choose(t, {p, q})   pairs f-g and p-q; f weighs 3, g 5, p 4, q 1
//   add_up {f g} {p q}: max(3, 5) + max(4, 1) = 9, held by g and p
//
// Guards that neither split takes apart are tried with the guard of most pairs and without it. The
// result is exact, but each such guard may double the time. A change of a weight is cheap: only the
// guards that pairs tie to the changed one are chosen again.
//
// `number_guards` shortens the list of guards: regions -> essences (steps that tell none of them
// from another are left out) -> pairs (asked only of two that have a decider in common) -> numbers,
// for those alone that exclude another.
#include "graph/control/exclusions.h"

#include <algorithm>
#include <map>
#include <set>

#include "graph/control/regions.h"

namespace metronome::control {

Exclusions::Exclusions(std::int32_t guards) : excluded_(guards), tied_(guards) {
  for (std::int32_t guard = 0; guard < guards; ++guard) {
    tied_[guard] = guard;
    ties_.push_back({guard});
  }
}

void Exclusions::add(std::int32_t a, std::int32_t b) {
  if ((*this)(a, b)) return;
  const auto insert = [&](std::int32_t guard, std::int32_t other) {
    std::vector<std::int32_t>& of = excluded_[guard];
    of.insert(std::ranges::lower_bound(of, other), other);
  };
  insert(a, b);
  if (a != b) insert(b, a);
  std::int32_t to = tied_[a], from = tied_[b];
  if (from == to) return;
  if (ties_[from].size() > ties_[to].size()) std::swap(from, to);
  for (const std::int32_t guard : ties_[from]) tied_[guard] = to;
  ties_[to].insert(ties_[to].end(), ties_[from].begin(), ties_[from].end());
  ties_[from] = {};
}

HeaviestGuards::HeaviestGuards(const Exclusions& excludes)
    : excludes_(excludes), weights_(excludes.guards()), tied_(excludes.guards()) {}

void HeaviestGuards::add(std::int32_t guard, std::size_t weight) {
  const std::size_t before = weights_[guard];
  weights_[guard] += weight;
  const std::int32_t number = excludes_.tied(guard);
  TiedGuards& tied = tied_[number];
  if (before == 0 && weight != 0) {
    tied.held.insert(std::ranges::lower_bound(tied.held, guard), guard);
  }
  if (before != 0 && weights_[guard] == 0) std::erase(tied.held, guard);
  if (!std::exchange(tied.changed, true)) changed_.push_back(number);
}

std::size_t HeaviestGuards::weight() {
  for (const std::int32_t number : std::exchange(changed_, {})) {
    TiedGuards& tied = tied_[number];
    weight_ -= tied.chosen.weight;
    tied.chosen = choose(tied.held, PartWeights::add_up);
    weight_ += tied.chosen.weight;
    tied.changed = false;
  }
  return weight_;
}

std::vector<std::int32_t> HeaviestGuards::guards() {
  static_cast<void>(weight());
  std::vector<std::int32_t> all;
  for (const TiedGuards& tied : tied_) {
    all.insert(all.end(), tied.chosen.guards.begin(), tied.chosen.guards.end());
  }
  std::ranges::sort(all);
  return all;
}

/// Those of each part are linked: if parts are to add up, by exclusions; if they are to exclude
/// each other wholly, by pairs that do not. In ascending order, as `held` is.
std::vector<std::vector<std::int32_t>> HeaviestGuards::parts_of(std::vector<std::int32_t> held,
                                                                PartWeights parts) const {
  std::vector<std::vector<std::int32_t>> found;
  while (!held.empty()) {
    std::vector<std::int32_t> part = {held.front()};
    held.erase(held.begin());
    for (std::size_t i = 0; i < part.size(); ++i) {
      const auto linked = std::ranges::stable_partition(held, [&](std::int32_t other) {
        return excludes_(part[i], other) != (parts == PartWeights::add_up);
      });
      part.insert(part.end(), linked.begin(), linked.end());
      held.erase(linked.begin(), linked.end());
    }
    std::ranges::sort(part);
    found.push_back(std::move(part));
  }
  return found;
}

/// Splits into parts of the one kind, these into parts of the other kind, and so on. Guards of
/// choices in choices and in loops always come apart.
HeaviestGuards::GuardSet HeaviestGuards::choose(const std::vector<std::int32_t>& held,
                                                PartWeights parts, bool whole) const {
  if (held.size() == 1) return {weights_[held[0]], held};
  const PartWeights other =
      parts == PartWeights::add_up ? PartWeights::exclude : PartWeights::add_up;
  const std::vector<std::vector<std::int32_t>> found = parts_of(held, parts);
  if (found.size() == 1) return whole ? with_or_without(held) : choose(held, other, true);
  GuardSet chosen;
  for (const std::vector<std::int32_t>& part : found) {
    GuardSet of_part = choose(part, other);
    if (parts == PartWeights::add_up) {
      chosen.weight += of_part.weight;
      chosen.guards.insert(chosen.guards.end(), of_part.guards.begin(), of_part.guards.end());
    } else if (of_part.weight > chosen.weight) {
      chosen = std::move(of_part);
    }
  }
  return chosen;
}

/// The guard that excludes most others is either chosen or not.
HeaviestGuards::GuardSet HeaviestGuards::with_or_without(std::vector<std::int32_t> held) const {
  const auto excluded = [&](std::int32_t guard) {
    return std::ranges::count_if(held, [&](std::int32_t other) { return excludes_(guard, other); });
  };
  const std::int32_t most = *std::ranges::max_element(held, {}, excluded);
  std::erase(held, most);
  GuardSet without = choose(held, PartWeights::add_up);
  std::erase_if(held, [&](std::int32_t other) { return excludes_(most, other); });
  GuardSet with = choose(held, PartWeights::add_up);
  with.weight += weights_[most];
  with.guards.push_back(most);
  return without.weight > with.weight ? without : with;
}

namespace {

/// The regions to which some regions lead, themselves included, and the deciders of all of them.
struct RegionsBelow {
  std::set<Region> regions;
  std::set<std::int32_t> deciders;
};

RegionsBelow find_regions_below(const Regions& regions, std::vector<Region> open) {
  RegionsBelow found;
  while (!open.empty()) {
    const Region region = open.back();
    open.pop_back();
    if (!found.regions.insert(region).second) continue;
    const Decision& decision = regions.decision(region);
    if (decision.decider >= 0) found.deciders.insert(decision.decider);
    open.insert(open.end(), decision.cases.begin(), decision.cases.end());
  }
  return found;
}

/// [region] What is left of it without the steps that tell none of the regions from another: those
/// whose deciders come out in one way for all of them. Nothing is left of most loops' guards.
std::map<Region, Region> essences(const Regions& regions, const std::vector<Region>& asked) {
  const std::set<Region> all = find_regions_below(regions, asked).regions;
  std::map<std::int32_t, std::set<std::vector<bool>>> ways;  // [decider] the cases that are open
  for (const Region region : all) {
    const Decision& decision = regions.decision(region);
    std::vector<bool> open;
    for (const Region left : decision.cases) open.push_back(left != kNever);
    ways[decision.decider].insert(open);
  }
  std::map<Region, Region> essence;
  for (const Region region : all) {                      // its parent is earlier
    const Decision decision = regions.decision(region);  // a copy: they grow
    const bool step = decision.parent != region;
    if (!step) {
      essence[region] = region;
    } else if (ways[decision.decider].size() == 1) {
      essence[region] = essence[decision.parent];
    } else {
      const auto k = std::ranges::find(decision.cases, decision.parent) - decision.cases.begin();
      essence[region] =
          regions.decide(decision.decider, k, decision.cases.size(), essence[decision.parent]);
    }
  }
  return essence;
}

/// Pairs of indices of `of`, which ascend, that exclude each other: they have a decider in common,
/// or one of them never runs.
Exclusions excluding(const Regions& regions, const std::vector<Region>& of) {
  Exclusions pairs(static_cast<std::int32_t>(of.size()));
  std::map<std::int32_t, std::vector<std::int32_t>> deciding;  // [decider] earlier ones
  std::vector<std::int32_t> asked(of.size(), -1);              // by which index last
  for (std::int32_t i = 0; i < pairs.guards(); ++i) {
    if (of[0] == kNever) pairs.add(0, i);
    for (const std::int32_t decider : find_regions_below(regions, {of[i]}).deciders) {
      for (const std::int32_t earlier : deciding[decider]) {
        if (std::exchange(asked[earlier], i) == i) continue;
        if (!regions.meet(of[earlier], of[i])) pairs.add(earlier, i);
      }
      deciding[decider].push_back(i);
    }
  }
  return pairs;
}

}  // namespace

NumberedGuards number_guards(const std::vector<Node>& nodes, const Settings& settings) {
  NumberedGuards result{std::vector<std::int32_t>(nodes.size(), -1), {}};
  if (!settings.skips) return result;
  const Regions regions(nodes);
  std::map<ValueId, std::int32_t> number;  // [guard]
  for (const Node& node : nodes) {
    if (node.guard.present()) number[node.guard] = -1;
  }
  std::vector<Region> asked;
  for (const auto& guard : number) asked.push_back(regions.region(guard.first));
  // Guards of one essence exclude the same others.
  const std::map<Region, Region> essence = essences(regions, asked);
  std::set<Region> distinct;
  for (const Region region : asked) distinct.insert(essence.at(region));
  const std::vector<Region> of(distinct.begin(), distinct.end());
  const Exclusions pairs = excluding(regions, of);

  std::vector<std::vector<std::int32_t>> kept(of.size());  // [essence] numbers
  std::int32_t numbers = 0;
  auto region = asked.begin();
  for (auto& guard : number) {
    const auto found = std::ranges::lower_bound(of, essence.at(*region++)) - of.begin();
    if (pairs.of(static_cast<std::int32_t>(found)).empty()) continue;
    guard.second = numbers++;
    kept[found].push_back(guard.second);
  }
  result.excludes = Exclusions(numbers);
  for (std::int32_t a = 0; a < pairs.guards(); ++a) {
    for (const std::int32_t b : pairs.of(a)) {
      for (const std::int32_t x : kept[a]) {
        for (const std::int32_t y : kept[b]) {
          if (x != y) result.excludes.add(x, y);
        }
      }
    }
  }
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    if (nodes[i].guard.present()) result.of_node[i] = number.at(nodes[i].guard);
  }
  return result;
}

}  // namespace metronome::control
