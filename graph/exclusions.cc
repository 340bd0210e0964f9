#include "graph/exclusions.h"

#include <algorithm>
#include <bit>
#include <map>
#include <optional>

#include "graph/guarded.h"
#include "graph/guards.h"
#include "graph/state.h"

namespace metronome {
namespace {

using Bits = std::vector<std::uint64_t>;

/// Calls `visit` with each guard of a set.
template <class Visit>
void each(const Bits& bits, Visit visit) {
  for (std::size_t word = 0; word < bits.size(); ++word) {
    for (std::uint64_t rest = bits[word]; rest != 0; rest &= rest - 1) {
      visit(static_cast<std::int32_t>(64 * word) + std::countr_zero(rest));
    }
  }
}

std::optional<std::int32_t> first(const Bits& bits) {
  for (std::size_t word = 0; word < bits.size(); ++word) {
    if (bits[word] != 0) return static_cast<std::int32_t>(64 * word) + std::countr_zero(bits[word]);
  }
  return std::nullopt;
}

int common(const Bits& a, const Bits& b) {
  int count = 0;
  for (std::size_t word = 0; word < a.size(); ++word) count += std::popcount(a[word] & b[word]);
  return count;
}

int count(const Bits& bits) { return common(bits, bits); }

void insert(Bits& bits, std::int32_t guard) {
  bits[static_cast<std::size_t>(guard) / 64] |= std::uint64_t{1} << (guard % 64);
}

void remove(Bits& bits, const Bits& others) {
  for (std::size_t word = 0; word < bits.size(); ++word) bits[word] &= ~others[word];
}

}  // namespace

Exclusions::Exclusions(std::int32_t guards)
    : excluded_(static_cast<std::size_t>(guards),
                Bits(static_cast<std::size_t>(guards + 63) / 64)) {}

void Exclusions::add(std::int32_t a, std::int32_t b) {
  insert(excluded_[a], b);
  insert(excluded_[b], a);
}

Exclusions::Heaviest Exclusions::heaviest(std::span<const std::size_t> weights) const {
  Bits open(excluded_.empty() ? 0 : excluded_[0].size());
  for (std::int32_t guard = 0; guard < guards(); ++guard) {
    if (weights[guard] > 0) insert(open, guard);
  }
  Heaviest chosen;
  choose(std::move(open), weights, chosen);
  std::sort(chosen.guards.begin(), chosen.guards.end());
  return chosen;
}

/// Parts that exclude nothing of each other add up; of parts that exclude all of each other the
/// heaviest counts.
void Exclusions::choose(Bits open, std::span<const std::size_t> weights, Heaviest& chosen) const {
  while (const std::optional<std::int32_t> guard = first(open)) {
    Bits part = connected(*guard, open, true);
    remove(open, part);
    const Bits whole = part;
    Heaviest heaviest;
    while (const std::optional<std::int32_t> other = first(part)) {
      const Bits apart = connected(*other, part, false);
      remove(part, apart);
      Heaviest found;
      if (count(apart) == 1) {
        found = {weights[*other], {*other}};
      } else if (apart != whole) {
        choose(apart, weights, found);
      } else {
        found = with_or_without(apart, weights);
      }
      if (found.weight > heaviest.weight) heaviest = std::move(found);
    }
    chosen.weight += heaviest.weight;
    chosen.guards.insert(chosen.guards.end(), heaviest.guards.begin(), heaviest.guards.end());
  }
}

/// The guard that excludes most others is either chosen or not.
Exclusions::Heaviest Exclusions::with_or_without(Bits part,
                                                 std::span<const std::size_t> weights) const {
  std::int32_t most = *first(part);
  each(part, [&](std::int32_t guard) {
    if (common(excluded_[guard], part) > common(excluded_[most], part)) most = guard;
  });
  Bits only(part.size());
  insert(only, most);
  remove(part, only);
  Bits beside = part;
  remove(beside, excluded_[most]);
  Heaviest with{weights[most], {most}}, without;
  choose(std::move(beside), weights, with);
  choose(std::move(part), weights, without);
  return without.weight > with.weight ? without : with;
}

/// What can be reached from a guard by exclusions, or by pairs that are none.
Bits Exclusions::connected(std::int32_t guard, const Bits& among, bool by_exclusions) const {
  Bits part(among.size());
  insert(part, guard);
  std::vector<std::int32_t> open = {guard};
  while (!open.empty()) {
    Bits next = excluded_[open.back()];
    open.pop_back();
    for (std::size_t word = 0; word < next.size(); ++word) {
      if (!by_exclusions) next[word] = ~next[word];
      next[word] &= among[word] & ~part[word];
      part[word] |= next[word];
    }
    each(next, [&](std::int32_t other) { open.push_back(other); });
  }
  return part;
}

namespace {

/// Every pair of a graph's guards, asked only where it does not follow from earlier pairs: a guard
/// excludes what a guard that it implies excludes.
class Pairs {
 public:
  explicit Pairs(const Graph& graph) : graph_(graph), says_(graph.state().nodes) {
    for (const Node& node : graph.nodes()) add(node.guard);
    std::int32_t next = 0;
    for (auto& [guard, number] : number_) number = next++;  // what a guard implies comes earlier
    excluded_.assign(number_.size(), std::vector<bool>(number_.size()));
    implied_ = excluded_;
    for (const auto& [guard, number] : number_) compare(guard, number);
  }

  const std::map<ValueId, std::int32_t>& guards() const { return number_; }
  bool exclude(std::int32_t a, std::int32_t b) const { return excluded_[a][b]; }

 private:
  void add(ValueId guard) {
    if (!guard.present() || !number_.emplace(guard, -1).second) return;
    for (const ValueId implied : implied_at_once(guard)) add(implied);
  }

  /// The parent, and the decider where that is a guard and must be true.
  std::vector<ValueId> implied_at_once(ValueId guard) const {
    const Node& node = graph_.node(guard);
    const Guard* rule = node.op->as<Guard>();
    std::vector<ValueId> implied;
    if (rule == nullptr) return implied;
    if (rule->nested) implied.push_back(node.inputs[1]);
    const bool by_guard = graph_.node(node.inputs[0]).op->as<Guard>() != nullptr;
    if (by_guard && rule->when == 1) implied.push_back(node.inputs[0]);
    return implied;
  }

  void compare(ValueId guard, std::int32_t number) {
    std::vector<bool>& implied = implied_[number];
    for (const ValueId id : implied_at_once(guard)) {
      const std::int32_t before = number_.at(id);
      implied[before] = true;
      for (std::int32_t other = 0; other < number; ++other) {
        if (implied_[before][other]) implied[other] = true;
        if (excluded_[before][other]) excluded_[number][other] = true;
      }
    }
    std::optional<bool> possible;
    for (auto it = number_.begin(); it->first != guard; ++it) {
      const auto [id, other] = *it;
      bool exclude = excluded_[number][other];
      for (const ValueId before : implied_at_once(id)) {
        exclude = exclude || excluded_[number][number_.at(before)];
      }
      if (!exclude && implied[other]) {
        if (!possible) possible = says_.possible(std::vector<GuardFact>{{guard, true}});
        exclude = !*possible;
      } else if (!exclude) {
        exclude = says_.exclude(guard, id);
      }
      excluded_[number][other] = excluded_[other][number] = exclude;
    }
  }

  const Graph& graph_;
  const Guards says_;
  std::map<ValueId, std::int32_t> number_;
  std::vector<std::vector<bool>> excluded_;
  std::vector<std::vector<bool>> implied_;
};

}  // namespace

NumberedGuards number_guards(const Graph& graph, const Settings& settings) {
  NumberedGuards result{std::vector<std::int32_t>(graph.nodes().size(), -1), {}};
  if (!settings.skips) return result;
  const Pairs pairs(graph);
  // Of those that guard a node, those that exclude another such.
  std::map<ValueId, std::int32_t> number;
  for (const Node& node : graph.nodes()) {
    if (node.guard.present()) number[node.guard] = -1;
  }
  std::vector<std::int32_t> asked;
  for (auto& [guard, index] : number) {
    const std::int32_t a = pairs.guards().at(guard);
    const bool any = std::any_of(number.begin(), number.end(), [&](const auto& other) {
      return pairs.exclude(a, pairs.guards().at(other.first));
    });
    if (!any) continue;
    index = static_cast<std::int32_t>(asked.size());
    asked.push_back(a);
  }
  result.excludes = Exclusions(static_cast<std::int32_t>(asked.size()));
  for (std::size_t a = 0; a < asked.size(); ++a) {
    for (std::size_t b = 0; b < a; ++b) {
      if (!pairs.exclude(asked[a], asked[b])) continue;
      result.excludes.add(static_cast<std::int32_t>(a), static_cast<std::int32_t>(b));
    }
  }
  for (std::size_t i = 0; i < graph.nodes().size(); ++i) {
    const auto found = number.find(graph.nodes()[i].guard);
    if (found != number.end()) result.of_node[i] = found->second;
  }
  return result;
}

}  // namespace metronome
