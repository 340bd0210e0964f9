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
// or makes fewer moments as full.
#include "graph/plan/orders.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

namespace metronome::plan {
namespace {

using Nodes = std::vector<std::int32_t>;

/// A part of an order, from a place on, with its nodes in another sequence. Bytes that are held
/// before it and behind it stay as they are.
struct OrderWindow {
  std::int32_t begin = 0;
  Nodes nodes = {};
};

class PeakLowerer {
 public:
  PeakLowerer(const OrderProblem& problem, const ir::Graph& graph)
      : uses_(problem.uses),
        before_(problem.precedence.before),
        after_(problem.precedence.after),
        touches_(problem.uses.runs.size()),
        takes_(problem.uses.runs.size()),
        chosen_(problem.uses.runs.size()),
        place_(problem.uses.runs.size()) {
    Nodes number(uses_.ids.size(), -1);
    for (std::int32_t value = 0; value < uses_.values(); ++value) {
      if (problem.held[value] == 0) continue;
      number[value] = static_cast<std::int32_t>(roots_.size());
      roots_.push_back({value, static_cast<std::int64_t>(problem.held[value]), uses_.kept[value]});
    }
    for (std::int32_t value = 0; value < uses_.values(); ++value) {
      const std::int32_t root = number[uses_.views[value].root], maker = uses_.makers[value];
      if (root >= 0 && uses_.runs[maker]) touches_[maker].push_back(root);
    }
    for (std::int32_t node = 0; node < uses_.nodes(); ++node) {
      for (const std::int32_t value : uses_.reads[node]) {
        if (number[value] >= 0) touches_[node].push_back(number[value]);
      }
      for (const InPlace& right : uses_.rights[node]) {
        const std::int32_t made = number[uses_.number({node, right.output})];
        const std::int32_t operand = number[uses_.root(graph.nodes()[node].inputs[right.input])];
        if (made < 0 || operand < 0 || roots_[operand].kept) continue;
        if (may_overwrite(graph, uses_, node, right)) takes_[node].emplace_back(made, operand);
      }
      std::ranges::stable_sort(takes_[node], {}, &std::pair<std::int32_t, std::int32_t>::first);
    }
  }

  Nodes run(Nodes order, std::size_t& work) {
    if (order.empty() || work / order.size() < kLeastMoves) return order;
    work_ = work;
    best_ = std::move(order);
    for (std::optional<OrderWindow> found; found = best_move();) {
      std::ranges::copy(found->nodes, best_.begin() + found->begin);
    }
    work = work_;
    return std::move(best_);
  }

 private:
  struct Root {
    std::int32_t value;
    std::int64_t bytes;
    bool kept;
    std::int32_t first = -1, last = -1;  // places in `best_` that touch it
    std::int32_t begin = -1, end = -1;   // of its life within a window
    std::int32_t seen = -1;              // the last window that touched it
  };

  struct Height {
    std::int64_t peak = 0;
    std::int64_t excess = 0;  // places that are as high as the best order's peak
    bool operator<(const Height& other) const {
      return std::pair(peak, excess) < std::pair(other.peak, other.excess);
    }
  };
  static constexpr std::int64_t kHighest = std::numeric_limits<std::int64_t>::max();

  /// To look at some nodes or roots, and at whose they are.
  void spend(const Nodes& list) { work_ -= std::min(work_, 1 + list.size()); }

  /// Fills `changes_`: by how many bytes more are held at each place of a window.
  void find_changes(const OrderWindow& window) {
    const auto begin = window.begin, size = static_cast<std::int32_t>(window.nodes.size());
    const std::int32_t end = begin + size;
    changes_.assign(window.nodes.size() + 1, 0);
    touched_.clear();
    ++windows_;
    for (std::int32_t i = begin; i < end; ++i) {
      spend(touches_[window.nodes[i - begin]]);
      for (const std::int32_t index : touches_[window.nodes[i - begin]]) {
        Root& root = roots_[index];
        if (std::exchange(root.seen, windows_) != windows_) {
          touched_.push_back(index);
          root.begin = root.first >= begin ? i : -1;
        }
        root.end = root.kept || root.last >= end ? end : i;
      }
    }
    for (std::int32_t i = begin; i < end; ++i) {
      std::int32_t placed = -1;
      for (const auto& [made, operand] : takes_[window.nodes[i - begin]]) {
        if (made == placed || roots_[operand].end != i || roots_[made].begin != i) continue;
        --roots_[operand].end;
        placed = made;
      }
    }
    for (const std::int32_t index : touched_) {
      const Root& root = roots_[index];
      if (root.begin >= 0) changes_[root.begin - begin] += root.bytes;
      if (root.end < end) changes_[root.end + 1 - begin] -= root.bytes;
    }
  }

  /// The height of `best_` with a window in it; `kHighest` if its peak is above `most`.
  Height height_of(const OrderWindow& window, std::int64_t most) {
    find_changes(window);
    const std::size_t begin = window.begin, end = begin + window.nodes.size();
    Height height{std::max(peak_before_[begin], peak_behind_[end]),
                  excess_[begin] + excess_.back() - excess_[end]};
    std::int64_t now = entering_[begin];
    for (std::size_t i = 0; i < window.nodes.size(); ++i) {
      now += changes_[i];
      if (now > most) return {kHighest, 0};
      height.peak = std::max(height.peak, now);
      height.excess += std::max<std::int64_t>(0, now - limit_);
    }
    return height;
  }

  /// Fills what is known of `best_`; returns its first fullest place.
  std::int32_t survey() {
    const std::size_t count = best_.size();
    for (Root& root : roots_) root.first = root.last = -1;
    for (std::size_t i = 0; i < count; ++i) {
      place_[best_[i]] = static_cast<std::int32_t>(i);
      for (const std::int32_t index : touches_[best_[i]]) {
        if (roots_[index].first < 0) roots_[index].first = static_cast<std::int32_t>(i);
        roots_[index].last = static_cast<std::int32_t>(i);
      }
    }
    entering_.assign(count + 1, 0);
    for (const Root& root : roots_) {
      if (root.first < 0) continue;
      entering_[root.first + 1] += root.bytes;
      if (!root.kept && root.last + 1 <= static_cast<std::int32_t>(count)) {
        entering_[root.last + 1] -= root.bytes;
      }
    }
    for (std::size_t i = 1; i <= count; ++i) entering_[i] += entering_[i - 1];

    find_changes({0, best_});
    std::vector<std::int64_t> held(count);
    std::int64_t now = 0;
    for (std::size_t i = 0; i < count; ++i) held[i] = now += changes_[i];
    const auto fullest = std::ranges::max_element(held);
    limit_ = *fullest - 1;
    peak_before_.assign(count + 1, 0);
    peak_behind_.assign(count + 1, 0);
    excess_.assign(count + 1, 0);
    for (std::size_t i = 0; i < count; ++i) {
      peak_before_[i + 1] = std::max(peak_before_[i], held[i]);
      excess_[i + 1] = excess_[i] + std::max<std::int64_t>(0, held[i] - limit_);
    }
    for (std::size_t i = count; i-- > 0;) {
      peak_behind_[i] = std::max(peak_behind_[i + 1], held[i]);
    }
    return static_cast<std::int32_t>(fullest - held.begin());
  }

  /// The best of all moves, if it betters the order.
  std::optional<OrderWindow> best_move() {
    const std::int32_t peak = survey();
    Height least{limit_ + 1, excess_.back()};
    std::vector<const Root*> holders;
    for (const Root& root : roots_) {
      const bool is_held =
          root.first >= 0 && root.first <= peak && (root.kept || root.last >= peak);
      if (is_held) holders.push_back(&root);
    }
    std::ranges::stable_sort(holders, std::ranges::greater(), &Root::bytes);
    std::optional<OrderWindow> found;
    const auto offer = [&](OrderWindow window) {
      if (window.nodes.empty() || work_ == 0) return;
      const Height height = height_of(window, least.peak);
      if (!(height < least)) return;
      least = height;
      found = std::move(window);
    };
    for (const Root* root : holders) {
      if (work_ == 0) break;
      const std::int32_t maker = uses_.ids[root->value].node;
      for (const bool with_needed : {false, true}) offer(delayed(maker, peak, with_needed));
      offer(branch_delayed(maker, peak));
      offer(hastened(root->value, peak));
    }
    offer(delayed(best_[peak], peak, false));
    return found;
  }

  /// The order with a node behind a place, if it can go there; else none.
  OrderWindow delayed(std::int32_t node, std::int32_t peak, bool with_needed) {
    if (place_[node] > peak) return {};
    Nodes moved{node};
    chosen_[node] = true;
    // Nodes that only this needs go with it.
    for (std::size_t i = 0; with_needed && i < moved.size() && moved.size() < kMostMoved; ++i) {
      spend(before_[moved[i]]);
      for (const std::int32_t needed : before_[moved[i]]) {
        const auto goes = [&](std::int32_t n) { return chosen_[n]; };
        spend(after_[needed]);
        if (chosen_[needed] || !std::ranges::all_of(after_[needed], goes)) continue;
        chosen_[needed] = true;
        moved.push_back(needed);
      }
    }
    std::int32_t to = count();
    for (const std::int32_t n : moved) {
      spend(after_[n]);
      for (const std::int32_t after : after_[n]) {
        if (!chosen_[after]) to = std::min(to, place_[after]);
      }
    }
    return to > peak + 1 ? moved_behind(moved, to) : none(moved);
  }

  /// The order with a node, and all up to a place that needs it, behind that place.
  OrderWindow branch_delayed(std::int32_t node, std::int32_t peak) {
    if (place_[node] > peak) return {};
    Nodes moved{node};
    chosen_[node] = true;
    std::int32_t to = count();
    for (std::size_t i = 0; i < moved.size() && moved.size() < kMostMoved; ++i) {
      spend(after_[moved[i]]);
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
    return whole ? moved_behind(moved, to) : none(moved);
  }

  /// The order with all later readers of a root before a place.
  OrderWindow hastened(std::int32_t root, std::int32_t peak) {
    if (uses_.kept[root]) return {};
    Nodes moved;
    spend(uses_.readers[root]);
    for (const std::int32_t reader : uses_.readers[root]) {
      if (place_[reader] >= peak) moved.push_back(reader);
    }
    for (const std::int32_t n : moved) chosen_[n] = true;
    for (std::size_t i = 0; i < moved.size() && moved.size() < kMostMoved; ++i) {
      spend(before_[moved[i]]);
      for (const std::int32_t needed : before_[moved[i]]) {
        if (chosen_[needed] || place_[needed] < peak) continue;
        chosen_[needed] = true;
        moved.push_back(needed);
      }
    }
    const bool whole = !moved.empty() && moved.size() < kMostMoved;
    return whole ? moved_before(moved, peak) : none(moved);
  }

  std::int32_t count() const { return static_cast<std::int32_t>(best_.size()); }

  OrderWindow none(const Nodes& moved) {
    for (const std::int32_t n : moved) chosen_[n] = false;
    return {};
  }
  /// The chosen nodes, in their order, just before the node at a later place.
  OrderWindow moved_behind(Nodes& moved, std::int32_t place) {
    sort_by_place(moved);
    OrderWindow window{place_[moved.front()]};
    for (std::int32_t i = window.begin; i < place; ++i) {
      if (!chosen_[best_[i]]) window.nodes.push_back(best_[i]);
    }
    window.nodes.insert(window.nodes.end(), moved.begin(), moved.end());
    none(moved);
    return window;
  }
  /// The chosen nodes, in their order, just before the node at an earlier place.
  OrderWindow moved_before(Nodes& moved, std::int32_t place) {
    sort_by_place(moved);
    OrderWindow window{place, moved};
    for (std::int32_t i = place; i < place_[moved.back()]; ++i) {
      if (!chosen_[best_[i]]) window.nodes.push_back(best_[i]);
    }
    none(moved);
    return window;
  }
  void sort_by_place(Nodes& moved) const {
    std::ranges::sort(moved, {}, [&](std::int32_t n) { return place_[n]; });
  }

  static constexpr std::size_t kMostMoved = 256;   // nodes at once
  static constexpr std::size_t kLeastMoves = 200;  // that the work must allow

  const Uses& uses_;
  const std::vector<Nodes>& before_;
  const std::vector<Nodes>& after_;
  std::vector<Root> roots_;     // that hold bytes
  std::vector<Nodes> touches_;  // [node] roots that it makes a part of, or reads
  std::vector<std::vector<std::pair<std::int32_t, std::int32_t>>> takes_;  // [node] made, operand
  std::vector<bool> chosen_;                                               // [node]
  Nodes best_;
  std::size_t work_ = 0;

  // `survey` fills these, of `best_`:
  Nodes place_;                                          // [node]
  std::vector<std::int64_t> entering_;                   // [place] bytes from before it
  std::vector<std::int64_t> peak_before_, peak_behind_;  // [place] behind: it included
  std::vector<std::int64_t> excess_;                     // [place] up to it, not included
  std::int64_t limit_ = 0;

  // `find_changes` fills these, of a window:
  std::vector<std::int64_t> changes_;
  Nodes touched_;  // roots
  std::int32_t windows_ = 0;
};

}  // namespace

std::vector<std::int32_t> lower_peak(const OrderProblem& problem, const ir::Graph& graph,
                                     std::vector<std::int32_t> order, std::size_t& work) {
  return PeakLowerer(problem, graph).run(std::move(order), work);
}

}  // namespace metronome::plan
