// A choice is a split of the order and the roots that are not kept across it. Two ideas find
// choices for each split, and a third betters them:
//
//   cut       the order before the split falls into segments of about equal bytes, each bounded
//             where few bytes go on; only what crosses a bound is kept (Chen et al., 2016):
//             [ a b c | d e f | g h i ] split     keeps what crosses the two bounds
//   drop      from all kept on, the root whose excess over the limit is cheapest to avoid
//   keep      roots are kept again, the most seconds for their bytes first, as the limit allows
//
// The splits are the fullest moment and those behind the losses.
#include "graph/plan/choose_recomputed.h"

#include <algorithm>
#include <limits>
#include <set>
#include <utility>

namespace metronome::plan {
namespace {

using Sketch = RecomputeModel::Sketch;
using Dropped = RecomputeModel::Dropped;

constexpr std::int32_t kSegments[] = {1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128};

struct DroppedRoots {
  std::int32_t split = 0;
  Dropped dropped;
  Sketch sketch;
};

class RecomputationSearch {
 public:
  RecomputationSearch(RecomputeModel& model, std::size_t limit, std::size_t work)
      : model_(model), limit_(limit), work_(work) {}

  DroppedRoots run() {
    best_ = {0, Dropped(model_.roots()), sketch(Dropped(model_.roots()))};
    if (best_.sketch.peak_bytes <= limit_) return best_;
    std::set<std::int32_t> splits{best_.sketch.peak};
    splits.insert(model_.behind_losses().begin(), model_.behind_losses().end());
    work_ /= splits.size();  // for each
    for (const std::int32_t split : splits) choose_at(split);
    return best_;
  }

 private:
  void choose_at(std::int32_t split) {
    split_ = split;
    find_crossing();
    if (crossing_.empty()) return;
    offer(keep_again(make_choice(drop_one_by_one())));
    std::vector<DroppedRoots> cuts;
    std::size_t bounds = 0;
    for (const std::int32_t segments : kSegments) {
      const std::vector<std::int32_t> cut = bounds_of(segments);
      if (segments > 1 && cut.size() <= bounds) break;
      bounds = cut.size();
      cuts.push_back(make_choice(cut_at(cut)));
    }
    // The lowest peak leaves the most room to keep.
    std::ranges::stable_sort(cuts, {},
                             [](const DroppedRoots& cut) { return cut.sketch.peak_bytes; });
    if (cuts.size() > kCuts) cuts.resize(kCuts);
    for (DroppedRoots& cut : cuts) offer(keep_again(std::move(cut)));
  }

  DroppedRoots make_choice(Dropped dropped) {
    const Sketch made = sketch(dropped);
    return {split_, std::move(dropped), made};
  }

  Sketch sketch(const Dropped& dropped) {
    const std::size_t runs = static_cast<std::size_t>(model_.places()) + model_.clones();
    left_ -= std::min(left_, runs);
    return model_.sketch(split_, dropped, limit_);
  }

  bool fits(const Sketch& sketch) const { return sketch.peak_bytes <= limit_; }
  bool is_better(const Sketch& a, const Sketch& b) const {
    if (fits(a) != fits(b)) return fits(a);
    return fits(a) ? std::pair(a.seconds, a.peak_bytes) < std::pair(b.seconds, b.peak_bytes)
                   : std::pair(a.peak_bytes, a.excess) < std::pair(b.peak_bytes, b.excess);
  }
  void offer(DroppedRoots choice) {
    if (is_better(choice.sketch, best_.sketch)) best_ = std::move(choice);
  }

  /// Roots that are kept across the split, and may be dropped.
  void find_crossing() {
    crossing_.clear();
    for (std::int32_t root = 0; root < model_.roots(); ++root) {
      const auto readers = model_.readers(root);
      if (!readers.empty() && readers.back() >= split_ && model_.may_drop(root, split_)) {
        crossing_.push_back(root);
      }
    }
  }

  // ---- segments ----------------------------------------------------------------------------

  /// [place before the split] Bytes of the roots that are made up to it and read behind it, before
  /// the split.
  std::vector<std::size_t> bytes_going_on() const {
    std::vector<std::size_t> bytes(split_ + 1);
    for (std::int32_t root = 0; root < model_.roots(); ++root) {
      const std::int32_t last = last_early_reader(root);
      for (std::int32_t p = model_.made_at(root); p < last; ++p) bytes[p] += model_.bytes(root);
    }
    return bytes;
  }
  std::int32_t last_early_reader(std::int32_t root) const {
    const auto readers = model_.readers(root);
    const auto late = std::ranges::lower_bound(readers, split_);
    return late == readers.begin() ? -1 : *(late - 1);
  }

  /// Places behind which segments begin: where few bytes go on, near equal parts of what crosses.
  std::vector<std::int32_t> bounds_of(std::int32_t segments) {
    std::vector<std::size_t> made(split_);
    std::size_t all = 0;
    for (const std::int32_t root : crossing_) {
      made[model_.made_at(root)] += model_.bytes(root);
      all += model_.bytes(root);
    }
    if (going_on_of_ != split_) {
      going_on_ = bytes_going_on();
      going_on_of_ = split_;
    }
    std::vector<std::int32_t> bounds;
    const double part = static_cast<double>(all) / segments;
    std::size_t sum = 0;
    std::int32_t p = 0;
    for (std::int32_t k = 1; k < segments; ++k) {
      std::int32_t least = -1;
      for (; p < split_ && static_cast<double>(sum) < (k + 0.35) * part; ++p) {
        sum += made[p];
        if (static_cast<double>(sum) < (k - 0.35) * part) continue;
        if (least < 0 || going_on_[p] < going_on_[least]) least = p;
      }
      if (least >= 0) bounds.push_back(least);
    }
    return bounds;
  }

  /// All that may be dropped, but for what crosses a bound.
  Dropped cut_at(const std::vector<std::int32_t>& bounds) const {
    Dropped dropped(model_.roots());
    for (std::int32_t root = 0; root < model_.roots(); ++root) {
      if (!model_.may_drop(root, split_)) continue;
      const auto bound = std::ranges::lower_bound(bounds, model_.made_at(root));
      dropped[root] = bound == bounds.end() || last_early_reader(root) <= *bound;
    }
    return dropped;
  }

  // ---- one by one --------------------------------------------------------------------------

  Dropped drop_one_by_one() {
    Dropped dropped(model_.roots());
    // A root that no late node reads is made again for a clone that reads it, and not kept for it.
    for (std::int32_t root = 0; root < model_.roots(); ++root) {
      dropped[root] = model_.may_drop(root, split_);
    }
    for (const std::int32_t root : crossing_) dropped[root] = false;
    Sketch now = sketch(dropped);
    std::vector<std::int32_t> left = crossing_;
    left_ = work_ / kShares;
    while (!fits(now) && left_ > 0) {
      // The most bytes for a second come first; as they stand alone.
      std::ranges::stable_sort(left,
                               [&](std::int32_t a, std::int32_t b) { return worth(a) > worth(b); });
      const std::size_t tried = std::min<std::size_t>(left.size(), kTried);
      std::int32_t chosen = -1;
      double highest = 0;
      Sketch then;
      for (std::size_t i = 0; i < left.size() && (i < tried || chosen < 0) && left_ > 0; ++i) {
        dropped[left[i]] = true;
        const Sketch one = sketch(dropped);
        dropped[left[i]] = false;
        if (one.excess >= now.excess) continue;
        const double price = limit_ == 0 ? 1 : std::max(one.seconds - now.seconds, 0.0) + kInstant;
        const double gain = static_cast<double>(now.excess - one.excess) / price;
        if (chosen >= 0 && gain <= highest) continue;
        chosen = static_cast<std::int32_t>(i), highest = gain, then = one;
      }
      if (chosen < 0) break;
      dropped[left[chosen]] = true;
      left.erase(left.begin() + chosen);
      now = then;
    }
    return dropped;
  }
  /// Bytes for a second; for the lowest peak time does not matter, so that noise does not decide.
  double worth(std::int32_t root) {
    if (limit_ == 0) return static_cast<double>(model_.bytes(root));
    return static_cast<double>(model_.bytes(root)) / (model_.seconds_of(root) + kInstant);
  }

  // ---- kept again --------------------------------------------------------------------------

  DroppedRoots keep_again(DroppedRoots choice) {
    std::vector<std::int32_t> roots;
    for (std::int32_t root = 0; root < model_.roots(); ++root) {
      if (choice.dropped[root]) roots.push_back(root);
    }
    std::ranges::stable_sort(roots,
                             [&](std::int32_t a, std::int32_t b) { return worth(a) < worth(b); });
    left_ = work_ / kShares;
    for (int round = 0; round < kRounds && left_ > 0; ++round) {
      bool changed = false;
      for (const std::int32_t root : roots) {
        if (!choice.dropped[root] || left_ == 0) continue;
        choice.dropped[root] = false;
        const Sketch kept = sketch(choice.dropped);
        if (is_better(kept, choice.sketch)) {
          choice.sketch = kept;
          changed = true;
        } else {
          choice.dropped[root] = true;
        }
      }
      if (!changed) break;
    }
    return choice;
  }

  static constexpr std::size_t kCuts = 3;   // that are bettered, of each split
  static constexpr std::size_t kTried = 8;  // roots that are weighed before one is dropped
  static constexpr int kRounds = 3;         // in which roots are kept again
  /// The work is divided: dropping one by one, and keeping again what that and each cut drop.
  static constexpr std::size_t kShares = 2 + kCuts;
  static constexpr double kInstant = 1e-7;  // seconds of a kernel that takes none

  RecomputeModel& model_;
  const std::size_t limit_;
  std::size_t work_;      // of each split
  std::size_t left_ = 0;  // of the share that is used now
  std::int32_t split_ = 0;
  std::vector<std::int32_t> crossing_;
  std::vector<std::size_t> going_on_;  // of the split `going_on_of_`
  std::int32_t going_on_of_ = -1;
  DroppedRoots best_;
};

}  // namespace

ChosenRecomputation choose_recomputed(const ir::Graph& graph, const Schedule& schedule,
                                      const std::vector<std::size_t>& scratch_bytes,
                                      const SecondsOfNode& seconds, std::size_t limit,
                                      std::size_t work, const Settings& settings) {
  RecomputeModel model(graph, schedule, scratch_bytes, seconds, settings);
  const DroppedRoots choice = RecomputationSearch(model, limit, work).run();
  return {model.describe(choice.split, choice.dropped), choice.sketch.peak_bytes,
          choice.sketch.seconds};
}

Recomputation repeat_recomputation(const ir::Graph& graph, const Schedule& schedule,
                                   std::int32_t split, const std::vector<ValueId>& dropped,
                                   const Settings& settings) {
  RecomputeModel model(graph, schedule, {}, nullptr, settings);
  if (split < 0 || split > model.places()) return {};
  return model.describe(split, model.dropped_of(split, dropped));
}

}  // namespace metronome::plan
