// Replays the order and keeps account of who owns which bytes, so that nobody writes over what is
// still to be read.
#include "graph/check/check_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <iterator>
#include <map>
#include <utility>

#include "graph/check/check_facts.h"
#include "graph/check/check_guards.h"
#include "graph/check/check_insides.h"
#include "graph/check/check_waits.h"
#include "graph/ir/structural.h"

namespace metronome::check {
namespace {

using Fault = std::optional<std::string>;
using Sizes = std::vector<std::size_t>;

/// The plan has one entry for each thing of the graph.
Fault check_form(const ir::Graph& graph, const plan::Schedule& schedule, const Sizes& scratch,
                 const plan::MemoryPlan& plan) {
  const std::size_t nodes = graph.nodes().size();
  struct Count {
    std::string what;
    std::size_t has;
    std::size_t must;
  };
  std::vector<Count> counts = {
      {"nodes in the order", schedule.order.size(), nodes},
      {"assignments in the schedule", schedule.in_place.size(), graph.assignments().size()},
      {"scratch sizes", scratch.empty() ? nodes : scratch.size(), nodes},
      {"scratch offsets", plan.scratch_offsets.size(), nodes},
      {"readable blocks", plan.readable_bytes.size(), graph.readables().size()},
      {"nodes in the plan", plan.places.size(), nodes},
  };
  for (std::size_t i = 0; i < std::min(nodes, plan.places.size()); ++i) {
    const Node& node = graph.nodes()[i];
    counts.push_back(
        {fmt::format("places of \"{}\"", node.path), plan.places[i].size(), node.types.size()});
  }
  for (const auto& [what, has, must] : counts) {
    if (has != must) return fmt::format("{}: {}, but must be {}", what, has, must);
  }
  return std::nullopt;
}

bool is_view(const ir::Graph& graph, const Node& node) {
  Types types;
  for (ValueId input : node.inputs) types.push_back(graph.type(input));
  return node.op->alias(types).has_value();
}

/// Each node runs once, after those whose values it reads and those that it waits for; those with
/// effects as they were declared.
Fault check_order(const ir::Graph& graph, const plan::Schedule& schedule) {
  const auto nodes = static_cast<std::int32_t>(graph.nodes().size());
  std::vector<std::int32_t> step_of(graph.nodes().size(), -1);
  for (std::int32_t step = 0; step < nodes; ++step) {
    const std::int32_t index = schedule.order[step];
    if (index < 0 || index >= nodes) return fmt::format("step {} runs no node: {}", step, index);
    if (step_of[index] >= 0) {
      return fmt::format("\"{}\" runs at step {} and again at step {}", graph.nodes()[index].path,
                         step_of[index], step);
    }
    step_of[index] = step;
  }
  for (std::int32_t index : schedule.order) {
    const Node& node = graph.nodes()[index];
    // A view asks no guard: it is there with what it views.
    for (ValueId operand : is_view(graph, node) ? node.inputs : PlanFacts::operands(node)) {
      if (step_of[operand.node] < step_of[index]) continue;
      return fmt::format("\"{}\" runs at step {}, but {}, which it reads, is made at step {}",
                         node.path, step_of[index], PlanFacts::name(graph, operand),
                         step_of[operand.node]);
    }
  }
  std::int32_t last = -1;
  for (std::int32_t index = 0; index < nodes; ++index) {
    if (!graph.nodes()[index].op->effects()) continue;
    if (last >= 0 && step_of[last] > step_of[index]) {
      return fmt::format("\"{}\" runs at step {}, before \"{}\" at step {}, but both have effects",
                         graph.nodes()[index].path, step_of[index], graph.nodes()[last].path,
                         step_of[last]);
    }
    last = index;
  }
  return check_waits(graph, step_of);
}

class Checker {
 public:
  Checker(const ir::Graph& graph, const plan::Schedule& schedule, const Sizes& scratch,
          const plan::MemoryPlan& plan, const Settings& settings)
      : graph_(graph),
        schedule_(schedule),
        scratch_(scratch),
        plan_(plan),
        alignment_(settings.alignment),
        facts_(graph, schedule),
        guards_(graph, settings.skips) {}

  Fault run() {
    if (Fault fault = check_readables()) return fault;
    if (Fault fault = check_assignments()) return fault;
    insides_ = Insides(graph_, facts_, plan_, [this](ValueId id) { return fixed_.contains(id); });
    if (Fault fault = check_places()) return fault;
    if (Fault fault = check_writes()) return fault;
    return check_bound();
  }

 private:
  struct Owner {
    std::size_t end = 0;  // one past its last byte
    ValueId value;
    int last = 0;  // step that reads it
  };
  using Region = std::pair<plan::Place::In, std::int32_t>;
  /// Those whose bytes overlap exclude each other.
  class Owners {
   public:
    void add(std::size_t begin, Owner owner) {
      by_digits_[std::bit_width(owner.end - begin)].emplace(begin, owner);
    }
    /// Calls keep(first byte, owner) for each owner that may hold bytes of [begin, end), and
    /// removes those for which it returns false.
    template <class Keep>
    void among(std::size_t begin, std::size_t end, const Keep& keep) {
      for (auto& [digits, owners] : by_digits_) {
        const std::size_t longest = (std::size_t{1} << digits) - 1;
        auto it = owners.lower_bound(begin > longest ? begin - longest : 0);
        while (it != owners.end() && it->first < end) {
          it = keep(it->first, it->second) ? std::next(it) : owners.erase(it);
        }
      }
    }

   private:
    // By the binary digits of their length, then by first byte: ranges of similar length that hold
    // one byte begin near each other, so a look-up visits few.
    std::map<int, std::multimap<std::size_t, Owner>> by_digits_;
  };

  // ---- memory beside the arena
  // -------------------------------------------------------------------
  Fault check_readables() {
    for (std::size_t i = 0; i < graph_.readables().size(); ++i) {
      const Readable& readable = graph_.readables()[i];
      std::size_t bytes = 0;
      if (readable.value.present()) {
        const ValueId root = facts_[readable.value].root;
        if (!facts_[root].written) {
          return fmt::format("readable \"{}\" is {} itself, not a copy", readable.name, name(root));
        }
        const plan::Place block{plan::Place::In::readable, static_cast<std::int32_t>(i), 0};
        if (fixed_.try_emplace(root, block).second) bytes = graph_.type(root).bytes();
      }
      if (bytes == plan_.readable_bytes[i]) continue;
      return fmt::format("readable \"{}\" has {} bytes beside the arena, but needs {}",
                         readable.name, plan_.readable_bytes[i], bytes);
    }
    return std::nullopt;
  }

  Fault check_assignments() {
    for (std::size_t i = 0; i < graph_.assignments().size(); ++i) {
      const auto& [storage, value, line] = graph_.assignments()[i];
      const std::string& path = graph_.storage(storage).path;
      const ValueId root = facts_[value].root;
      if (!facts_[root].written) {
        return fmt::format("storage \"{}\" is assigned {} itself, not a copy", path, name(root));
      }
      if (!schedule_.in_place[i]) continue;
      if (root != value) {
        return fmt::format("storage \"{}\" is assigned in place, but {} is a view", path,
                           name(value));
      }
      const auto [found, is_new] =
          fixed_.try_emplace(root, plan::Place{plan::Place::In::storage, storage.index, 0});
      if (is_new) continue;
      return fmt::format("storage \"{}\" is assigned in place, but {} must lie at {}", path,
                         name(value), name(found->second));
    }
    return std::nullopt;
  }

  // ---- places
  // ------------------------------------------------------------------------------------
  Fault check_places() const {
    for (const auto& [id, fact] : facts_.all()) {
      const plan::Place& place = place_of(id);
      const std::optional<plan::Place> fixed = fixed_place(id, fact);
      if (fixed && place != *fixed) {
        const bool view = fact.root != id;
        return fmt::format("{} lies at {}, but must lie at {}{}", name(id), name(place),
                           name(*fixed), view ? ", as a view of " + name(fact.root) : "");
      }
      const std::size_t bytes = graph_.type(id).bytes();
      if (fact.offset + bytes > graph_.type(fact.root).bytes()) {
        return fmt::format("{} reaches past the end of {}", name(id), name(fact.root));
      }
      const bool unread = is_saved(id) && !fact.read && place == plan::Place{};
      if (fixed || unread || insides_.contains(id)) continue;
      if (place.in != plan::Place::In::arena || place.index != -1) {
        return fmt::format("{} lies at {}, but must lie in the arena", name(id), name(place));
      }
      if (auto fault = check_in_arena(name(id), place.offset, bytes)) return fault;
    }
    for (std::size_t i = 0; i < scratch_.size(); ++i) {
      if (scratch_[i] == 0) continue;
      const std::string what = scratch_name(static_cast<std::int32_t>(i));
      if (auto fault = check_in_arena(what, plan_.scratch_offsets[i], scratch_[i])) return fault;
    }
    return std::nullopt;
  }

  std::optional<plan::Place> fixed_place(ValueId id, const PlanFact& fact) const {
    if (graph_.node(id).op->as<Input>() != nullptr)
      return plan::Place{plan::Place::In::input, id.node, 0};
    if (const Read* read = graph_.node(id).op->as<Read>()) {
      return plan::Place{plan::Place::In::storage, read->storage.index, 0};
    }
    if (fact.root != id) {
      plan::Place place = place_of(fact.root);
      place.offset += fact.offset;
      return place;
    }
    const auto found = fixed_.find(id);
    return found == fixed_.end() ? std::nullopt : std::optional(found->second);
  }

  Fault check_in_arena(const std::string& what, std::size_t offset, std::size_t bytes) const {
    if (offset % alignment_ != 0) {
      return fmt::format("{} lies at arena byte {}, which is no multiple of {}", what, offset,
                         alignment_);
    }
    if (bytes > plan_.arena_bytes || offset > plan_.arena_bytes - bytes) {
      return fmt::format("{} lies at arena bytes [{}, {}), but the arena ends at {}", what, offset,
                         offset + bytes, plan_.arena_bytes);
    }
    return std::nullopt;
  }

  // ---- writes
  // ------------------------------------------------------------------------------------
  Fault check_writes() {
    for (const auto& [storage, value] : facts_.old_values()) {
      const std::size_t bytes = graph_.type(value).bytes();
      if (bytes > 0)
        owners_[{plan::Place::In::storage, storage.index}].add(
            0, Owner{bytes, value, facts_[value].last});
    }
    for (int step = 0; step < steps(); ++step) {
      const std::int32_t index = schedule_.order[step];
      if (auto fault = check_scratch(index, step)) return fault;
      for (std::int32_t output = 0; output < outputs(index); ++output) {
        if (auto fault = check_write({index, output}, step)) return fault;
      }
    }
    return std::nullopt;
  }

  /// Scratch touches neither what lives on, nor what the node reads, nor what it writes.
  Fault check_scratch(std::int32_t index, int step) {
    if (scratch_.empty() || scratch_[index] == 0) return std::nullopt;
    const std::size_t begin = plan_.scratch_offsets[index];
    const std::size_t end = begin + scratch_[index];
    std::vector<std::pair<std::size_t, Owner>> owners;
    owners_[{plan::Place::In::arena, -1}].among(begin, end,
                                                [&](std::size_t first, const Owner& owner) {
                                                  owners.emplace_back(first, owner);
                                                  return true;
                                                });
    for (std::int32_t output = 0; output < outputs(index); ++output) {
      const ValueId id{index, output};
      const plan::Place& place = place_of(id);
      const std::size_t bytes = graph_.type(id).bytes();
      if (place.in != plan::Place::In::arena || !facts_[id].written || bytes == 0) continue;
      owners.push_back({place.offset, {place.offset + bytes, id, insides_.held(id).last}});
    }
    for (const auto& [first, owner] : owners) {
      if (first >= end || owner.end <= begin || owner.last < step ||
          exclude(index, owner.value.node)) {
        continue;
      }
      return fmt::format("{} (step {}) and {} both hold arena bytes [{}, {})", scratch_name(index),
                         step, facts_.life(owner.value), std::max(first, begin),
                         std::min(owner.end, end));
    }
    return std::nullopt;
  }

  Fault check_write(ValueId id, int step) {
    const plan::Place& place = place_of(id);
    const std::size_t begin = place.offset;
    const std::size_t end = begin + graph_.type(id).bytes();
    if (!facts_[id].written || place.in == plan::Place::In::none || begin == end)
      return std::nullopt;
    Owners& owners = owners_[{place.in, place.index}];
    Fault fault;
    owners.among(begin, end, [&](std::size_t first, const Owner& owner) {
      const bool dead = owner.last < step;
      const bool apart = owner.end <= begin || exclude(id.node, owner.value.node);
      if (!dead && !apart && !fault && !insides_.contains(owner.value, id)) {
        fault = check_overwrite(id, owner.value, step, std::max(first, begin),
                                std::min(owner.end, end));
      }
      return !dead && apart;
    });
    if (fault) return fault;
    owners.add(begin, Owner{end, id, insides_.held(id).last});
    return std::nullopt;
  }

  /// At `step` value `id` is written over bytes [first, last) of `old`.
  Fault check_overwrite(ValueId id, ValueId old, int step, std::size_t first, std::size_t last) {
    const PlanFact& fact = insides_.held(old);
    const bool read_now = fact.last == step && facts_[old].made != step;
    const plan::Place& place = place_of(old);
    if (!read_now && place.in == plan::Place::In::storage) {
      return fmt::format("{} is written over {} at step {}, but its old value is read at step {}",
                         name(id), region_name({place.in, place.index}), step, fact.last);
    }
    if (!read_now) {
      return fmt::format("{} and {} both hold {} bytes [{}, {})", facts_.life(old), facts_.life(id),
                         region_name({place.in, place.index}), first, last);
    }
    if (!may_overwrite(id, old)) {
      return fmt::format("{} is written over {} at step {}, which reads it and has no right to",
                         name(id), name(old), step);
    }
    taken_over_[old] = step;
    return std::nullopt;
  }

  /// The node of `id` reads `old` only where its op lets it write `id` at the same place.
  bool may_overwrite(ValueId id, ValueId old) const {
    const Node& node = graph_.node(id);
    const std::vector<InPlace> rights = node.op->in_place();
    if (node.guard.present() && facts_[node.guard].root == old) return false;
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      if (facts_[node.inputs[i]].root != old) continue;
      const bool right = std::any_of(rights.begin(), rights.end(), [&](const InPlace& r) {
        return r.output == id.output && r.input == static_cast<int>(i);
      });
      const bool same_bytes = graph_.type(node.inputs[i]).bytes() == graph_.type(id).bytes() &&
                              place_of(node.inputs[i]) == place_of(id);
      if (!right || !same_bytes) return false;
    }
    return true;
  }

  // ---- the bound
  // ---------------------------------------------------------------------------------
  /// Bytes that are held from a step on, under a guard or (-1) in any case. Unsigned: a release
  /// is added as a number that wraps.
  struct Change {
    int step;
    int guard;
    std::size_t bytes;
  };

  std::vector<Change> changes() const {
    std::vector<Change> changes;
    const auto hold = [&](std::size_t bytes, int guard, int first, int last) {
      const std::size_t rounded = (bytes + alignment_ - 1) / alignment_ * alignment_;
      if (last < first || rounded == 0) return;
      changes.push_back({first, guard, rounded});
      changes.push_back({last + 1, guard, 0 - rounded});
    };
    for (const auto& [id, fact] : facts_.all()) {
      const bool apart = fact.root == id && !insides_.contains(id);
      if (!apart || place_of(id).in != plan::Place::In::arena) continue;
      const auto taken = taken_over_.find(id);
      const PlanFact& life = insides_.held(id);
      hold(graph_.type(id).bytes(), guards_.of(id.node), life.made,
           taken == taken_over_.end() ? life.last : taken->second - 1);
    }
    for (int step = 0; step < steps() && !scratch_.empty(); ++step) {
      const std::int32_t index = schedule_.order[step];
      hold(scratch_[index], guards_.of(index), step, step);
    }
    std::stable_sort(changes.begin(), changes.end(),
                     [](const Change& x, const Change& y) { return x.step < y.step; });
    return changes;
  }

  /// The most that is held at any step. Exclusions cost time, so they are counted only for steps
  /// that without them would hold more than the most so far, the fullest such step first.
  std::size_t most_held() const {
    const std::vector<Change> all = changes();
    const auto walk = [&](const auto& visit) {  // visit(step, sum, what is held by guard)
      std::map<int, std::size_t> held;
      std::size_t sum = 0;
      for (auto change = all.begin(); change != all.end();) {
        const int step = change->step;
        for (; change != all.end() && change->step == step; ++change) {
          sum += change->bytes;
          const auto of_guard = held.try_emplace(change->guard, 0).first;
          of_guard->second += change->bytes;
          if (of_guard->second == 0) held.erase(of_guard);
        }
        visit(step, sum, held);
      }
    };
    const auto exact = [&](const std::map<int, std::size_t>& held) {
      GuardFacts::Held guarded;
      std::size_t always = 0;
      for (const auto& [guard, bytes] : held) {
        if (guard < 0) {
          always = bytes;
        } else {
          guarded.emplace_back(guard, bytes);
        }
      }
      return always + guards_.heaviest(std::move(guarded));
    };
    std::size_t fullest = 0, most = 0;
    int at = -1;
    walk([&](int step, std::size_t sum, const auto&) {
      if (sum > fullest) fullest = sum, at = step;
    });
    walk([&](int step, std::size_t, const auto& held) {
      if (step == at) most = exact(held);
    });
    walk([&](int, std::size_t sum, const auto& held) {
      if (sum > most) most = std::max(most, exact(held));
    });
    return most;
  }

  Fault check_bound() const {
    const std::size_t bound = most_held();
    if (bound != plan_.held_bytes) {
      return fmt::format("the plan says that its values hold {} bytes, but they hold {}",
                         plan_.held_bytes, bound);
    }
    if (plan_.lower_bound <= bound) return std::nullopt;
    return fmt::format("the plan's lower bound is {} bytes, but its values hold {}",
                       plan_.lower_bound, bound);
  }

  // ---- small things
  // ------------------------------------------------------------------------------
  int steps() const { return static_cast<int>(schedule_.order.size()); }
  std::int32_t outputs(std::int32_t index) const {
    return static_cast<std::int32_t>(graph_.nodes()[index].types.size());
  }
  bool is_saved(ValueId id) const {
    return id.output >= outputs(id.node) - graph_.node(id).op->saved();
  }
  /// True where no step runs both nodes.
  bool exclude(std::int32_t a, std::int32_t b) const {
    return guards_.exclude(guards_.of(a), guards_.of(b));
  }
  const plan::Place& place_of(ValueId id) const { return plan_.places[id.node][id.output]; }

  std::string name(ValueId id) const { return PlanFacts::name(graph_, id); }
  std::string scratch_name(std::int32_t index) const {
    return fmt::format("scratch of \"{}\"", graph_.nodes()[index].path);
  }
  std::string region_name(const Region& region) const {
    const std::int32_t index = region.second;
    switch (region.first) {
      case plan::Place::In::none:
        break;
      case plan::Place::In::arena:
        return "arena";
      case plan::Place::In::input:
        return fmt::format("input %{}", index);
      case plan::Place::In::storage:
        return fmt::format("storage \"{}\"", graph_.storage({index}).path);
      case plan::Place::In::readable:
        return fmt::format("readable \"{}\"", graph_.readables()[index].name);
    }
    return "no";
  }
  std::string name(const plan::Place& place) const {
    if (place.in == plan::Place::In::none) return "no place";
    return fmt::format("{} byte {}", region_name({place.in, place.index}), place.offset);
  }

  const ir::Graph& graph_;
  const plan::Schedule& schedule_;
  const Sizes& scratch_;
  const plan::MemoryPlan& plan_;
  const std::size_t alignment_;
  const PlanFacts facts_;
  const GuardFacts guards_;
  std::map<ValueId, plan::Place> fixed_;  // of roots that must lie beside the arena
  Insides insides_;
  std::map<Region, Owners> owners_;
  std::map<ValueId, int> taken_over_;  // value, and the step that overwrote it in place
};

}  // namespace

std::optional<std::string> check_plan(const ir::Graph& graph, const plan::Schedule& schedule,
                                      const std::vector<std::size_t>& scratch_bytes,
                                      const plan::MemoryPlan& plan, const Settings& settings) {
  if (Fault fault = check_form(graph, schedule, scratch_bytes, plan)) return fault;
  if (Fault fault = check_order(graph, schedule)) return fault;
  return Checker(graph, schedule, scratch_bytes, plan, settings).run();
}

}  // namespace metronome::check
