// A sketch is four walks:
//
//   find_clones   from the late readers back: which nodes run again, and before which place. A
//                 clone runs before the first that reads it, so its own operands do, too
//   find_runs     the order with clones put in
//   lives         a root is held from the run that makes it to the last that reads it
//   sweep         bytes over the runs
//
// A node that reads a storage runs again only before the storage is overwritten in place.
#include "graph/plan/recompute_model.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "graph/ir/guarded.h"
#include "graph/rules/guards.h"

namespace metronome::plan {
namespace {

/// The nodes of an order that run. Those that only overwrite a small storage, as counters, run
/// last: what runs again may read the old value.
std::vector<std::int32_t> running_order(const ir::Graph& graph, const Uses& uses,
                                        const Schedule& schedule, std::size_t alignment) {
  std::vector<bool> overwrites(uses.runs.size());
  for (std::size_t i = 0; i < schedule.in_place.size(); ++i) {
    if (schedule.in_place[i]) overwrites[graph.assignments()[i].value.node] = true;
  }
  const auto is_late = [&](std::int32_t node) {
    if (!overwrites[node] || graph.nodes()[node].op->effects()) return false;
    for (std::int32_t v = uses.first[node]; v < uses.first[node + 1]; ++v) {
      if (!uses.readers[v].empty() || uses.bytes[v] > alignment) return false;
    }
    return true;
  };
  std::vector<bool> waited(uses.runs.size());
  for (const Node& node : graph.nodes()) {
    for (const std::int32_t before : node.waits_for) waited[before] = true;
  }
  std::vector<std::int32_t> order, late;
  for (const std::int32_t node : schedule.order) {
    if (!uses.runs[node]) continue;
    (is_late(node) && !waited[node] ? late : order).push_back(node);
  }
  order.insert(order.end(), late.begin(), late.end());
  return order;
}

bool is_saved(const ir::Graph& graph, ValueId value) {
  const Node& node = graph.node(value);
  return value.output >= static_cast<std::int32_t>(node.types.size()) - node.op->saved();
}

}  // namespace

RecomputeModel::RecomputeModel(const ir::Graph& graph, const Schedule& schedule,
                               const std::vector<std::size_t>& scratch_bytes, SecondsOfNode seconds,
                               const Settings& settings)
    : seconds_(std::move(seconds)) {
  // Operands of a concat have bytes of their own here: each may then be dropped by itself.
  const Uses uses = uses_apart(graph, settings.alignment);
  const std::vector<std::int32_t> order = running_order(graph, uses, schedule, settings.alignment);
  add_nodes(graph, uses, order, schedule, settings.alignment, scratch_bytes);
}

void RecomputeModel::add_nodes(const ir::Graph& graph, const Uses& uses,
                               const std::vector<std::int32_t>& order, const Schedule& schedule,
                               std::size_t alignment,
                               const std::vector<std::size_t>& scratch_bytes) {
  const auto count = static_cast<std::int32_t>(order.size());
  std::vector<std::int32_t> place_of(uses.runs.size(), -1), number(uses.ids.size(), -1);
  for (std::int32_t p = 0; p < count; ++p) place_of[order[p]] = p;

  std::map<std::int32_t, std::int32_t> written_at;  // storage -> place
  std::set<std::int32_t> in_storage;                // values
  for (std::size_t i = 0; i < schedule.in_place.size(); ++i) {
    if (!schedule.in_place[i]) continue;
    const Assignment& assignment = graph.assignments()[i];
    written_at[assignment.storage.index] = place_of[assignment.value.node];
    in_storage.insert(uses.number(assignment.value));
  }
  for (std::int32_t v = 0; v < uses.values(); ++v) {
    if (uses.views[v].root != v || uses.homes[v] != Uses::Home::planned || uses.bytes[v] == 0 ||
        in_storage.contains(v)) {
      continue;
    }
    number[v] = roots();
    const std::int32_t maker = place_of[uses.ids[v].node];
    Root root{.value = uses.ids[v],
              .bytes = round_up(uses.bytes[v], alignment),
              .first = maker,
              .maker = maker,
              .stays = uses.kept[v],
              .saved = is_saved(graph, uses.ids[v])};
    for (const std::int32_t reader : uses.readers[v]) root.readers.push_back(place_of[reader]);
    std::ranges::sort(root.readers);
    roots_.push_back(std::move(root));
  }
  for (std::int32_t v = 0; v < uses.values(); ++v) {
    const std::int32_t root = number[uses.views[v].root];
    if (root < 0) continue;
    const std::int32_t made = uses.ids[v].node;
    if (uses.makers[v] != roots_[root].value.node) {  // a part
      roots_[root].whole = false;
      roots_[root].first = std::min(roots_[root].first, place_of[uses.makers[v]]);
    } else if (made != uses.makers[v] &&
               uses.runs[made]) {  // a view that a node makes beside others
      roots_[root].whole = false;
    }
  }
  // Guards exclude each other by the values that they read: those are kept as they are.
  const auto mark = [&](ValueId value) {
    const std::int32_t root = value.present() ? number[uses.root(value)] : -1;
    if (root >= 0) roots_[root].decides = true;
  };
  for (const Node& node : graph.nodes()) {
    mark(node.guard);
    const bool reads_some = node.op->has_rule<ReadIfRule>();
    for (std::size_t k = 0; k < node.inputs.size() && reads_some; ++k) {
      for (const Condition& condition : node.op->ask<ReadIfRule>(k)) {
        mark(node.inputs[static_cast<std::size_t>(condition.operand)]);
      }
    }
    if (node.op->as<Guard>() != nullptr) std::ranges::for_each(node.inputs, mark);
  }

  for (const std::int32_t index : order) {
    const Node& node = graph.nodes()[index];
    ModelNode made{.node = index, .latest = count};
    if (!scratch_bytes.empty()) made.scratch = round_up(scratch_bytes[index], alignment);
    made.again = !node.op->effects() && node.op->as<Guard>() == nullptr;
    for (const std::int32_t root : uses.reads[index]) {
      if (number[root] >= 0) made.reads.push_back(number[root]);
      if (uses.homes[root] != Uses::Home::storage) continue;
      const auto written = written_at.find(uses.home_index[root]);
      if (written != written_at.end()) made.latest = std::min(made.latest, written->second);
    }
    for (std::int32_t v = uses.first[index]; v < uses.first[index + 1]; ++v) {
      if (uses.views[v].root != v) continue;
      if (number[v] >= 0) made.makes.push_back(number[v]);
      // A clone's would take bytes of the arena, which the node's own does not.
      if (in_storage.contains(v) || uses.homes[v] == Uses::Home::readable) made.again = false;
    }
    for (const InPlace& right : uses.rights[index]) {
      const std::int32_t result = number[uses.number({index, right.output})];
      const std::int32_t operand = number[uses.root(node.inputs[right.input])];
      if (result < 0 || operand < 0 || !may_overwrite(graph, uses, index, right)) continue;
      made.takes.emplace_back(result, operand);
    }
    std::ranges::stable_sort(made.takes, {}, &std::pair<std::int32_t, std::int32_t>::first);
    nodes_.push_back(std::move(made));
  }
  for (const ir::MinimizedLoss& objective : graph.objectives()) {
    const std::int32_t maker = place_of[uses.makers[uses.number(objective.loss)]];
    if (maker >= 0) behind_losses_.push_back(maker + 1);
  }
}

double RecomputeModel::seconds_at(std::int32_t place) {
  ModelNode& node = nodes_[place];
  if (node.seconds < 0) node.seconds = seconds_(node.node);
  return node.seconds;
}

bool RecomputeModel::may_drop(std::int32_t index, std::int32_t split) const {
  const Root& root = roots_[index];
  return root.maker < split && root.whole && !root.stays && !root.decides &&
         nodes_[root.maker].again && nodes_[root.maker].latest >= split;
}

void RecomputeModel::find_clones(std::int32_t split, const Dropped& dropped) {
  split_ = split, dropped_ = &dropped;
  const std::int32_t never = places();
  clone_before_.assign(nodes_.size(), -1);
  needed_before_.assign(roots_.size(), never);
  first_clone_.assign(nodes_.size(), -1);
  next_clone_.resize(nodes_.size());
  clone_count_ = 0;
  for (std::int32_t p = places() - 1; p >= split; --p) {
    for (const std::int32_t root : nodes_[p].reads) {
      if (roots_[root].maker < split && dropped[root]) needed_before_[root] = p;
    }
  }
  for (std::int32_t p = split - 1; p >= 0; --p) {
    const ModelNode& node = nodes_[p];
    std::int32_t before = never;
    for (const std::int32_t root : node.makes) before = std::min(before, needed_before_[root]);
    if (before == never) continue;
    before = std::min(before, node.latest);
    clone_before_[p] = before;
    next_clone_[p] = std::exchange(first_clone_[before], p);
    ++clone_count_;
    for (const std::int32_t root : node.reads) {
      if (roots_[root].maker < split && dropped[root]) {
        needed_before_[root] = std::min(needed_before_[root], before);
      }
    }
  }
}

void RecomputeModel::find_runs() {
  runs_.clear();
  run_of_.resize(nodes_.size());
  for (std::int32_t p = 0; p < places(); ++p) {
    for (std::int32_t clone = first_clone_[p]; clone >= 0; clone = next_clone_[clone]) {
      runs_.push_back({clone, true});
    }
    run_of_[p] = static_cast<std::int32_t>(runs_.size());
    runs_.push_back({p, false});
  }
}

RecomputeModel::Sketch RecomputeModel::sketch(std::int32_t split, const Dropped& dropped,
                                              std::size_t limit) {
  find_clones(split, dropped);
  find_runs();
  first_.assign(roots_.size(), {});
  again_.assign(roots_.size(), {});
  const auto count = static_cast<std::int32_t>(runs_.size());
  Sketch result;
  for (std::int32_t i = 0; i < count; ++i) {
    const auto [place, clone] = runs_[i];
    const ModelNode& node = nodes_[place];
    if (clone) result.seconds += seconds_at(place);
    for (const std::int32_t root : node.reads) {
      interval(reads_clone(runs_[i], root), root).end = i;
    }
    for (const std::int32_t root : node.makes) interval(clone, root) = {i, i};
  }
  for (std::int32_t i = 0; i < count; ++i) {
    if (runs_[i].clone) continue;
    for (const std::int32_t root : nodes_[runs_[i].place].makes) {
      if (roots_[root].stays) first_[root].end = count;
    }
  }
  for (std::int32_t i = 0; i < count; ++i) {
    // An output takes the bytes of one operand.
    std::int32_t placed = -1;
    for (const auto& [made, operand] : nodes_[runs_[i].place].takes) {
      Interval& taken = interval(reads_clone(runs_[i], operand), operand);
      if (made == placed || taken.end != i || interval(runs_[i].clone, made).begin != i) continue;
      --taken.end;
      placed = made;
    }
  }
  change_.assign(runs_.size() + 2, 0);
  const auto hold = [&](const Interval& held, std::size_t bytes) {
    if (held.begin < 0 || held.end < held.begin) return;
    change_[held.begin] += static_cast<std::int64_t>(bytes);
    change_[held.end + 1] -= static_cast<std::int64_t>(bytes);
  };
  for (std::int32_t root = 0; root < roots(); ++root) {
    const Root& r = roots_[root];
    // The first part of a whole may be made long before the rest.
    if (r.first < r.maker) first_[root].begin = run_of_[r.first];
    for (const Interval& held : {first_[root], again_[root]}) {
      if (!r.saved || held.end > held.begin) hold(held, r.bytes);
    }
  }
  std::int64_t held = 0;
  for (std::int32_t i = 0; i < count; ++i) {
    held += change_[i];
    const std::size_t now = static_cast<std::size_t>(held) + nodes_[runs_[i].place].scratch;
    if (now > limit) result.excess += now - limit;
    if (now <= result.peak_bytes) continue;
    result.peak_bytes = now;
    result.peak = runs_[i].clone ? clone_before_[runs_[i].place] : runs_[i].place;
  }
  return result;
}

Recomputation RecomputeModel::describe(std::int32_t split, const Dropped& dropped) {
  find_clones(split, dropped);
  Recomputation result;
  result.split = split;
  for (const ModelNode& node : nodes_) result.order.push_back(node.node);
  for (std::int32_t p = 0; p < places(); ++p) {
    for (std::int32_t clone = first_clone_[p]; clone >= 0; clone = next_clone_[clone]) {
      result.clones.push_back({nodes_[clone].node, p});
    }
  }
  for (std::int32_t root = 0; root < roots(); ++root) {
    if (dropped[root] && needed_before_[root] < places()) {
      result.dropped.push_back(roots_[root].value);
    }
  }
  std::ranges::sort(result.dropped);
  return result;
}

RecomputeModel::Dropped RecomputeModel::dropped_of(std::int32_t split,
                                                   const std::vector<ValueId>& values) const {
  Dropped dropped(roots_.size());
  for (std::int32_t root = 0; root < roots(); ++root) {
    dropped[root] =
        std::ranges::find(values, roots_[root].value) != values.end() && may_drop(root, split);
  }
  return dropped;
}

}  // namespace metronome::plan
