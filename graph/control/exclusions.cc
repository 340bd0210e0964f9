#include "graph/control/exclusions.h"

#include <algorithm>
#include <bit>
#include <map>
#include <optional>

#include "graph/control/guards.h"
#include "graph/ir/guarded.h"

namespace metronome::control {
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

bool has(const Bits& bits, std::int32_t guard) {
  return (bits[static_cast<std::size_t>(guard) / 64] >> (guard % 64) & 1) != 0;
}

void insert(Bits& bits, std::int32_t guard) {
  bits[static_cast<std::size_t>(guard) / 64] |= std::uint64_t{1} << (guard % 64);
}

void erase(Bits& bits, std::int32_t guard) {
  bits[static_cast<std::size_t>(guard) / 64] &= ~(std::uint64_t{1} << (guard % 64));
}

void insert(Bits& bits, const Bits& others) {
  for (std::size_t word = 0; word < bits.size(); ++word) bits[word] |= others[word];
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

/// Splits `open` into parts. Between parts without any exclusion the weights add up; of parts that
/// exclude each other wholly the heaviest counts.
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

/// The guards that can be reached from one along exclusions, or along pairs that do not exclude.
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

HeaviestHeld::HeaviestHeld(const Exclusions& excludes)
    : excludes_(excludes),
      weights_(static_cast<std::size_t>(excludes.guards())),
      excluded_(weights_.size()),
      tangled_(excludes.excluded_.empty() ? 0 : excludes.excluded_[0].size()) {}

void HeaviestHeld::add(std::int32_t guard, std::size_t weight) {
  const std::size_t before = weights_[guard], after = before + weight;
  weights_[guard] = after;
  if (before == 0 && after > 0) begin(guard);
  if (before > 0 && after == 0) {
    weights_[guard] = before;
    end(guard);
    weights_[guard] = 0;
  }
  if (before == 0 || after == 0) return;
  if (excluded_[guard] == 0) {
    loose_ += weight;
  } else {
    changed_ = true;
  }
}

void HeaviestHeld::begin(std::int32_t guard) {
  each(excludes_.excluded_[guard], [&](std::int32_t other) {
    if (excluded_[other]++ > 0 || weights_[other] == 0) return;
    loose_ -= weights_[other];
    insert(tangled_, other);
  });
  if (excluded_[guard] == 0) {
    loose_ += weights_[guard];
  } else {
    insert(tangled_, guard);
    changed_ = true;
  }
}

void HeaviestHeld::end(std::int32_t guard) {
  if (excluded_[guard] == 0) {
    loose_ -= weights_[guard];
  } else {
    erase(tangled_, guard);
    changed_ = true;
  }
  each(excludes_.excluded_[guard], [&](std::int32_t other) {
    if (--excluded_[other] > 0 || weights_[other] == 0) return;
    loose_ += weights_[other];
    erase(tangled_, other);
  });
}

std::size_t HeaviestHeld::weight() {
  if (changed_) {
    chosen_ = {};
    excludes_.choose(tangled_, weights_, chosen_);
    changed_ = false;
  }
  return loose_ + chosen_.weight;
}

std::vector<std::int32_t> HeaviestHeld::guards() {
  static_cast<void>(weight());
  std::vector<std::int32_t> all = chosen_.guards;
  for (std::int32_t guard = 0; guard < excludes_.guards(); ++guard) {
    if (weights_[guard] > 0 && excluded_[guard] == 0) all.push_back(guard);
  }
  std::sort(all.begin(), all.end());
  return all;
}

namespace {

/// Every pair of a graph's guards. Two exclude each other where what is known of the one
/// contradicts what is known of the other. A guard knows what those know that it implies, and some
/// facts more: so what it excludes is what those exclude, and the guards that deny one of its own
/// facts.
class Pairs {
 public:
  explicit Pairs(const std::vector<Node>& nodes) : nodes_(nodes), says_(nodes) {
    for (const Node& node : nodes) add(node.guard);
    std::int32_t next = 0;
    for (auto& [guard, number] : number_) number = next++;  // what a guard implies comes earlier
    excluded_.assign(number_.size(), Bits((number_.size() + 63) / 64));
    exclude_what_contradicts();
    for (const auto& [guard, number] : number_) search(guard, number);
    for (const auto& [guard, number] : number_) erase(excluded_[number], number);
  }

  const std::map<ValueId, std::int32_t>& guards() const { return number_; }
  bool exclude(std::int32_t a, std::int32_t b) const { return has(excluded_[a], b); }

 private:
  /// Facts that a guard adds to those of the guards that it implies.
  struct Own {
    std::vector<std::size_t> holds, fails;
  };

  void add(ValueId guard) {
    if (!guard.present() || !number_.emplace(guard, -1).second) return;
    for (const ValueId implied : implied_at_once(guard)) add(implied);
  }

  /// The parent, and the decider where that is a guard and must be true.
  std::vector<ValueId> implied_at_once(ValueId guard) const {
    const Node& node = nodes_[guard.node];
    const Guard* rule = node.op->as<Guard>();
    std::vector<ValueId> implied;
    if (rule == nullptr) return implied;
    if (rule->nested) implied.push_back(node.inputs[1]);
    const bool by_guard = nodes_[node.inputs[0].node].op->as<Guard>() != nullptr;
    if (by_guard && rule->when == 1) implied.push_back(node.inputs[0]);
    return implied;
  }

  Own own_facts(ValueId guard) const {
    const Known& known = says_.known(guard);
    NumberSet holds = known.holds, fails = known.fails;
    for (const ValueId implied : implied_at_once(guard)) {
      holds.remove(says_.known(implied).holds);
      fails.remove(says_.known(implied).fails);
    }
    return {holds.all(), fails.all()};
  }

  void exclude_what_contradicts() {
    std::vector<Own> own;
    for (const auto& [guard, number] : number_) own.push_back(own_facts(guard));
    // [guard] itself and all that imply it: they know what it knows.
    std::vector<Bits> knowing(number_.size(), Bits(excluded_.empty() ? 0 : excluded_[0].size()));
    for (auto it = number_.rbegin(); it != number_.rend(); ++it) {
      insert(knowing[it->second], it->second);
      for (const ValueId implied : implied_at_once(it->first)) {
        insert(knowing[number_.at(implied)], knowing[it->second]);
      }
    }
    // [fact] the guards that know that it holds, or that it fails.
    std::map<std::size_t, Bits> hold, fail;
    const auto know = [&](std::map<std::size_t, Bits>& all, std::size_t fact, const Bits& guards) {
      insert(all.try_emplace(fact, guards.size()).first->second, guards);
    };
    for (std::size_t i = 0; i < own.size(); ++i) {
      for (const std::size_t fact : own[i].holds) know(hold, fact, knowing[i]);
      for (const std::size_t fact : own[i].fails) know(fail, fact, knowing[i]);
    }
    for (const auto& [guard, number] : number_) {
      Bits& excluded = excluded_[number];
      for (const ValueId implied : implied_at_once(guard)) {
        insert(excluded, excluded_[number_.at(implied)]);
      }
      const auto contradict = [&](const std::map<std::size_t, Bits>& all, std::size_t fact) {
        if (const auto found = all.find(fact); found != all.end()) insert(excluded, found->second);
      };
      for (const std::size_t fact : own[number].holds) contradict(fail, fact);
      for (const std::size_t fact : own[number].fails) contradict(hold, fact);
      if (says_.known(guard).contradicts) never_with_any(number);
    }
  }

  void never_with_any(std::int32_t number) {
    for (std::int32_t other = 0; other < static_cast<std::int32_t>(excluded_.size()); ++other) {
      insert(excluded_[number], other);
      insert(excluded_[other], number);
    }
  }

  /// Where more may follow than is known.
  void search(ValueId guard, std::int32_t number) {
    if (says_.known(guard).complete) return;
    for (const auto& [id, other] : number_) {
      if (other == number || exclude(number, other) || !says_.exclude(guard, id)) continue;
      insert(excluded_[number], other);
      insert(excluded_[other], number);
    }
  }

  const std::vector<Node>& nodes_;
  const Guards says_;
  std::map<ValueId, std::int32_t> number_;
  std::vector<Bits> excluded_;  // [guard]
};

}  // namespace

NumberedGuards number_guards(const std::vector<Node>& nodes, const Settings& settings) {
  NumberedGuards result{std::vector<std::int32_t>(nodes.size(), -1), {}};
  if (!settings.skips) return result;
  const Pairs pairs(nodes);
  // Of those that guard a node, those that exclude another such.
  std::map<ValueId, std::int32_t> number;
  for (const Node& node : nodes) {
    if (node.guard.present()) number[node.guard] = -1;
  }
  std::vector<std::int32_t> guarding;
  for (const auto& [guard, index] : number) guarding.push_back(pairs.guards().at(guard));
  std::vector<std::int32_t> asked;
  for (auto& [guard, index] : number) {
    const std::int32_t a = pairs.guards().at(guard);
    const auto excludes = [&](std::int32_t b) { return pairs.exclude(a, b); };
    if (std::ranges::none_of(guarding, excludes)) continue;
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
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const auto found = number.find(nodes[i].guard);
    if (found != number.end()) result.of_node[i] = found->second;
  }
  return result;
}

}  // namespace metronome::control
