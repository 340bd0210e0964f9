// A walk downhill. At the fullest moment some values are held only because they were made early, or
// are read late. Each gives moves:
//
//   delay    what makes a value that is first read behind the moment, and, if that helps, what only
//            this needs, goes to just before the first that needs it
//   branch   the same with all up to the moment that needs it
//   hasten   all that still reads a value, and what these need, goes to just before the moment
//
//   order    a b c | d e        | the fullest moment: a is read by e alone
//   delayed  b c | d a e
//
// Moves keep the precedence by construction. The best one is made, as long as one lowers the peak,
// or the bytes at that height, summed over all moments.
#include "graph/plan/orders.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace metronome::plan {
namespace {

using Nodes = std::vector<std::int32_t>;

class PeakLowerer {
 public:
  PeakLowerer(const OrderProblem& problem, const ir::Graph& graph)
      : uses_(problem.uses),
        before_(problem.precedence.before),
        after_(problem.precedence.after),
        held_(problem.held),
        takes_(problem.uses.runs.size()),
        parts_(problem.uses.runs.size()),
        chosen_(problem.uses.runs.size()),
        place_(problem.uses.runs.size()) {
    for (std::int32_t node = 0; node < uses_.nodes(); ++node) {
      for (const InPlace& right : uses_.rights[node]) {
        const std::int32_t made = uses_.number({node, right.output});
        const std::int32_t operand = uses_.root(graph.nodes()[node].inputs[right.input]);
        if (held_[made] == 0 || held_[operand] == 0) continue;
        if (may_overwrite(graph, uses_, node, right)) takes_[node].emplace_back(made, operand);
      }
      std::ranges::stable_sort(takes_[node], {}, &std::pair<std::int32_t, std::int32_t>::first);
    }
    for (std::int32_t value = 0; value < uses_.values(); ++value) {
      const std::int32_t root = uses_.views[value].root;
      if (held_[root] > 0 && uses_.runs[uses_.makers[value]]) {
        parts_[uses_.makers[value]].push_back(root);
      }
    }
  }

  Nodes run(Nodes order, std::size_t& work) {
    if (order.empty() || work / order.size() < kLeastMoves) return order;
    work_ = work;
    best_ = std::move(order);
    for (std::optional<Nodes> found; found = best_move(); best_ = std::move(*found)) {
    }
    work = work_;
    return std::move(best_);
  }

 private:
  struct OrderSketch {
    std::size_t peak = 0;
    std::int32_t at = 0;
    std::size_t excess = 0;  // above the limit, over all places
    bool operator<(const OrderSketch& other) const {
      return std::pair(peak, excess) < std::pair(other.peak, other.excess);
    }
  };

  OrderSketch sketch(const Nodes& order) {
    const auto count = static_cast<std::int32_t>(order.size());
    work_ -= std::min<std::size_t>(work_, order.size());
    first_.assign(uses_.ids.size(), -1);
    last_.assign(uses_.ids.size(), -1);
    for (std::int32_t i = 0; i < count; ++i) {
      for (const std::int32_t root : parts_[order[i]]) {
        if (first_[root] < 0) first_[root] = i;
        last_[root] = i;
      }
      for (const std::int32_t root : uses_.reads[order[i]]) last_[root] = i;
    }
    for (std::int32_t i = 0; i < count; ++i) {
      std::int32_t placed = -1;
      for (const auto& [made, operand] : takes_[order[i]]) {
        if (made == placed || last_[operand] != i || first_[made] != i || uses_.kept[operand]) {
          continue;
        }
        --last_[operand];
        placed = made;
      }
    }
    change_.assign(order.size() + 2, 0);
    for (std::int32_t root = 0; root < uses_.values(); ++root) {
      if (held_[root] == 0 || first_[root] < 0) continue;
      const auto bytes = static_cast<std::int64_t>(held_[root]);
      change_[first_[root]] += bytes;
      change_[uses_.kept[root] ? count : last_[root] + 1] -= bytes;
    }
    OrderSketch result;
    std::int64_t now = 0;
    for (std::int32_t i = 0; i < count; ++i) {
      now += change_[i];
      const auto bytes = static_cast<std::size_t>(now);
      if (bytes > limit_) result.excess += bytes - limit_;
      if (bytes > result.peak) result.peak = bytes, result.at = i;
    }
    return result;
  }

  /// The best of all moves, if it betters the order.
  std::optional<Nodes> best_move() {
    limit_ = SIZE_MAX;
    limit_ = sketch(best_).peak - 1;
    OrderSketch least = sketch(best_);
    const std::int32_t peak = least.at;
    std::vector<std::int32_t> holders;
    for (std::int32_t root = 0; root < uses_.values(); ++root) {
      const bool is_held = held_[root] > 0 && first_[root] >= 0 && first_[root] <= peak &&
                           (uses_.kept[root] || last_[root] >= peak);
      if (is_held) holders.push_back(root);
    }
    std::ranges::stable_sort(holders, std::ranges::greater(),
                             [&](std::int32_t root) { return held_[root]; });
    for (std::size_t i = 0; i < best_.size(); ++i) place_[best_[i]] = static_cast<std::int32_t>(i);
    std::optional<Nodes> found;
    const auto offer = [&](Nodes order) {
      if (order.empty() || work_ == 0) return;
      const OrderSketch made = sketch(order);
      if (!(made < least)) return;
      least = made;
      found = std::move(order);
    };
    for (const std::int32_t root : holders) {
      const std::int32_t maker = uses_.ids[root].node;
      for (const bool with_needed : {false, true}) offer(delayed(maker, peak, with_needed));
      offer(branch_delayed(maker, peak));
      offer(hastened(root, peak));
    }
    offer(delayed(best_[peak], peak, false));
    return found;
  }

  /// The order with a node behind a place, if it can go there; else none.
  Nodes delayed(std::int32_t node, std::int32_t peak, bool with_needed) {
    if (place_[node] > peak) return {};
    Nodes moved{node};
    chosen_[node] = true;
    // Nodes that only this needs go with it.
    for (std::size_t i = 0; with_needed && i < moved.size() && moved.size() < kMostMoved; ++i) {
      for (const std::int32_t needed : before_[moved[i]]) {
        const auto goes = [&](std::int32_t n) { return chosen_[n]; };
        if (chosen_[needed] || !std::ranges::all_of(after_[needed], goes)) continue;
        chosen_[needed] = true;
        moved.push_back(needed);
      }
    }
    auto to = static_cast<std::int32_t>(best_.size());
    for (const std::int32_t n : moved) {
      for (const std::int32_t after : after_[n]) {
        if (!chosen_[after]) to = std::min(to, place_[after]);
      }
    }
    Nodes order = to > peak + 1 ? moved_to(to, moved) : Nodes();
    for (const std::int32_t n : moved) chosen_[n] = false;
    return order;
  }

  /// The order with a node, and all up to a place that needs it, behind that place.
  Nodes branch_delayed(std::int32_t node, std::int32_t peak) {
    if (place_[node] > peak) return {};
    Nodes moved{node};
    chosen_[node] = true;
    auto to = static_cast<std::int32_t>(best_.size());
    for (std::size_t i = 0; i < moved.size() && moved.size() < kMostMoved; ++i) {
      for (const std::int32_t after : after_[moved[i]]) {
        if (chosen_[after]) continue;
        if (place_[after] > peak) {
          to = std::min(to, place_[after]);
          continue;
        }
        chosen_[after] = true;
        moved.push_back(after);
      }
    }
    const bool whole = moved.size() > 1 && moved.size() < kMostMoved && to > peak + 1;
    Nodes order = whole ? moved_to(to, moved) : Nodes();
    for (const std::int32_t n : moved) chosen_[n] = false;
    return order;
  }

  /// The order with all later readers of a root before a place.
  Nodes hastened(std::int32_t root, std::int32_t peak) {
    if (uses_.kept[root]) return {};
    Nodes moved;
    for (const std::int32_t reader : uses_.readers[root]) {
      if (place_[reader] >= peak) moved.push_back(reader);
    }
    for (const std::int32_t n : moved) chosen_[n] = true;
    for (std::size_t i = 0; i < moved.size() && moved.size() < kMostMoved; ++i) {
      for (const std::int32_t needed : before_[moved[i]]) {
        if (chosen_[needed] || place_[needed] < peak) continue;
        chosen_[needed] = true;
        moved.push_back(needed);
      }
    }
    const bool whole = !moved.empty() && moved.size() < kMostMoved;
    Nodes order = whole ? moved_to(peak, moved) : Nodes();
    for (const std::int32_t n : moved) chosen_[n] = false;
    return order;
  }

  /// `best_` with the chosen nodes, in their order, before the node at a place.
  Nodes moved_to(std::int32_t place, const Nodes& moved) const {
    Nodes order;
    order.reserve(best_.size());
    const auto add_moved = [&] {
      Nodes sorted = moved;
      std::ranges::sort(sorted, {}, [&](std::int32_t n) { return place_[n]; });
      order.insert(order.end(), sorted.begin(), sorted.end());
    };
    for (std::int32_t i = 0; i < static_cast<std::int32_t>(best_.size()); ++i) {
      if (i == place) add_moved();
      if (!chosen_[best_[i]]) order.push_back(best_[i]);
    }
    if (place == static_cast<std::int32_t>(best_.size())) add_moved();
    return order;
  }

  static constexpr std::size_t kMostMoved = 256;   // nodes at once
  static constexpr std::size_t kLeastMoves = 200;  // that the work must allow

  const Uses& uses_;
  const std::vector<Nodes>& before_;
  const std::vector<Nodes>& after_;
  const std::vector<std::size_t>& held_;
  std::vector<std::vector<std::pair<std::int32_t, std::int32_t>>> takes_;  // [node] made, operand
  std::vector<Nodes> parts_;                                               // [node] roots it writes
  std::vector<bool> chosen_;                                               // [node]
  Nodes place_;                                                            // [node] in `best_`
  Nodes best_;
  std::size_t limit_ = 0, work_ = 0;
  Nodes first_, last_;  // [root] places
  std::vector<std::int64_t> change_;
};

}  // namespace

std::vector<std::int32_t> lower_peak(const OrderProblem& problem, const ir::Graph& graph,
                                     std::vector<std::int32_t> order, std::size_t& work) {
  return PeakLowerer(problem, graph).run(std::move(order), work);
}

}  // namespace metronome::plan
