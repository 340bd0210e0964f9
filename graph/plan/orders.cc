// Most orders are list schedules: a node is ready once all that `Precedence` puts before it has
// run, and a rule picks one ready node after another.
//
//   by_class           the lowest class, then the lowest index: declared, early updates
//   GreedyList         the least cost in bytes: greedy forward, greedy backward
//   regions_together   the guard of the node before while it has a ready one, else a given order
//   begin_prompt_early  a given order, but prompt nodes, in that order, as soon as they are ready
//
// Forward, a node costs the bytes of its results, less those that die with it. Behind h [8 bytes]
//
//   a = f(h) [2], b = g(h) [8]    a costs 2, b 8: a runs; then b is h's last reader: 8 - 8 = 0
//
// Costs only fall, so a lower cost is one entry more on the heap, and outdated entries are skipped.
// Backward, a node costs the operands that it brings to life, less its results. `depth_first_order`
// walks back from each last node and takes a node behind all that it needs.
#include "graph/plan/orders.h"

#include <algorithm>
#include <functional>
#include <queue>
#include <set>
#include <tuple>
#include <unordered_map>

#include "graph/rules/guards.h"
#include "graph/rules/prompt.h"

namespace metronome::plan {
namespace {

using Nodes = std::vector<std::int32_t>;
using Lists = std::vector<Nodes>;

/// The least of what was pushed comes first.
template <class T>
using Heap = std::priority_queue<T, std::vector<T>, std::greater<T>>;

/// Runs the ready node of the lowest class, among those the lowest index.
Nodes by_class(const OrderProblem& problem, const std::vector<int>& classes) {
  const Uses& uses = problem.uses;
  Nodes order;
  Nodes waits_for(uses.runs.size());
  Heap<std::pair<int, std::int32_t>> ready;
  for (std::int32_t node = 0; node < uses.nodes(); ++node) {
    waits_for[node] = static_cast<std::int32_t>(problem.precedence.before[node].size());
    if (uses.runs[node] && waits_for[node] == 0) ready.emplace(classes[node], node);
  }
  while (!ready.empty()) {
    const std::int32_t node = ready.top().second;
    ready.pop();
    order.push_back(node);
    for (std::int32_t after : problem.precedence.after[node]) {
      if (--waits_for[after] == 0) ready.emplace(classes[after], after);
    }
  }
  return order;
}

/// A list schedule whose costs change while it runs: a heap entry with an outdated cost is skipped,
/// as a heap cannot change an entry.
class GreedyList {
 public:
  using Entry = std::tuple<std::int64_t, std::int32_t>;  // cost, rank

  /// `rank_sign` is 1 where equal costs prefer the earlier node, -1 where they prefer the later.
  GreedyList(const Uses& uses, const Lists& before, const Lists& after, std::int32_t rank_sign)
      : uses_(uses),
        after_(after),
        rank_sign_(rank_sign),
        cost(uses.runs.size()),
        done(uses.runs.size()) {
    for (const Nodes& nodes : before) waits_for_.push_back(static_cast<std::int32_t>(nodes.size()));
  }

  void start() {
    for (std::int32_t node = 0; node < uses_.nodes(); ++node) {
      if (uses_.runs[node] && waits_for_[node] == 0) push(node);
    }
  }

  void lower_cost(std::int32_t node, std::size_t by) {
    if (done[node] || by == 0) return;
    cost[node] -= static_cast<std::int64_t>(by);
    if (waits_for_[node] == 0) push(node);
  }

  /// The cheapest ready node, or -1 at the end.
  std::int32_t take() {
    while (!heap_.empty()) {
      const auto [entry_cost, rank] = heap_.top();
      heap_.pop();
      const std::int32_t node = rank * rank_sign_;
      if (!done[node] && cost[node] == entry_cost) {
        done[node] = true;
        return node;
      }
    }
    return -1;
  }

  void release_after(std::int32_t node) {
    for (std::int32_t after : after_[node]) {
      if (--waits_for_[after] == 0) push(after);
    }
  }

 private:
  void push(std::int32_t node) { heap_.emplace(cost[node], node * rank_sign_); }

  const Uses& uses_;
  const Lists& after_;
  const std::int32_t rank_sign_;
  Nodes waits_for_;
  Heap<Entry> heap_;

 public:
  std::vector<std::int64_t> cost;  // [node]
  std::vector<bool> done;          // [node]
};

/// The guard under which a node will run: its own, or a stronger one without which it has nothing
/// to do.
ValueId likely_guard(const Node& node) {
  for (const InPlace& right : node.op->in_place()) {
    const int guard = idle_unless(*node.op, right);
    if (guard >= 0) return node.inputs[guard];
  }
  return node.guard;
}

}  // namespace

OrderProblem order_problem(const ir::Graph& graph, const Uses& uses, const Precedence& precedence,
                           std::size_t alignment) {
  OrderProblem problem{uses, precedence, std::vector<std::size_t>(uses.ids.size()),
                       std::vector<bool>(uses.runs.size())};
  for (std::int32_t value = 0; value < uses.values(); ++value) {
    if (uses.views[value].root != value || uses.homes[value] != Uses::Home::planned) continue;
    problem.held[value] = round_up(uses.bytes[value], alignment);
  }
  for (std::size_t i = 0; i < precedence.in_place.size(); ++i) {
    if (!precedence.in_place[i]) continue;
    const ValueId value = graph.assignments()[i].value;
    problem.held[uses.number(value)] = 0;
    problem.overwrites[value.node] = true;
  }
  return problem;
}

Nodes declared_order(const OrderProblem& problem) {
  return by_class(problem, std::vector<int>(problem.uses.runs.size(), 0));
}

Nodes early_updates_order(const OrderProblem& problem, std::size_t alignment) {
  const Uses& uses = problem.uses;
  std::vector<int> classes(uses.runs.size(), 1);
  for (std::int32_t node = 0; node < uses.nodes(); ++node) {
    std::size_t largest = 0;
    for (std::int32_t value = uses.first[node]; value < uses.first[node + 1]; ++value) {
      largest = std::max(largest, uses.bytes[value]);
    }
    if (problem.overwrites[node] || largest <= alignment) classes[node] = 0;
  }
  return by_class(problem, classes);
}

Nodes forward_greedy_order(const OrderProblem& problem) {
  const Uses& uses = problem.uses;
  const auto& [before, after, in_place] = problem.precedence;
  GreedyList list(uses, before, after, 1);
  Nodes readers_left(uses.ids.size());
  for (std::int32_t value = 0; value < uses.values(); ++value) {
    readers_left[value] = static_cast<std::int32_t>(uses.readers[value].size());
    const bool lives_on = readers_left[value] > 0 || uses.kept[value];
    if (lives_on) list.cost[uses.ids[value].node] += static_cast<std::int64_t>(problem.held[value]);
  }
  // A root dies with its last reader.
  const auto credit_last_reader = [&](std::int32_t root) {
    if (uses.kept[root] || readers_left[root] != 1) return;
    for (std::int32_t reader : uses.readers[root]) list.lower_cost(reader, problem.held[root]);
  };
  for (std::int32_t value = 0; value < uses.values(); ++value) {
    if (!uses.kept[value] && readers_left[value] == 1) {
      list.cost[uses.readers[value][0]] -= static_cast<std::int64_t>(problem.held[value]);
    }
  }
  Nodes order;
  list.start();
  for (std::int32_t node = list.take(); node >= 0; node = list.take()) {
    order.push_back(node);
    for (std::int32_t root : uses.reads[node]) {
      --readers_left[root];
      credit_last_reader(root);
    }
    list.release_after(node);
  }
  return order;
}

Nodes backward_greedy_order(const OrderProblem& problem) {
  const Uses& uses = problem.uses;
  const auto& [before, after, in_place] = problem.precedence;
  GreedyList list(uses, after, before, -1);
  std::vector<bool> live(uses.ids.size());
  for (std::int32_t value = 0; value < uses.values(); ++value) {
    const auto bytes = static_cast<std::int64_t>(problem.held[value]);
    live[value] = uses.kept[value];
    if (live[value] || !uses.readers[value].empty()) list.cost[uses.ids[value].node] -= bytes;
    if (live[value]) continue;
    for (std::int32_t reader : uses.readers[value]) list.cost[reader] += bytes;
  }
  Nodes order;
  list.start();
  for (std::int32_t node = list.take(); node >= 0; node = list.take()) {
    order.push_back(node);
    for (std::int32_t root : uses.reads[node]) {
      if (live[root]) continue;
      live[root] = true;
      for (std::int32_t reader : uses.readers[root]) list.lower_cost(reader, problem.held[root]);
    }
    list.release_after(node);
  }
  std::reverse(order.begin(), order.end());
  return order;
}

Nodes depth_first_order(const OrderProblem& problem, SinkOrder sinks) {
  const Uses& uses = problem.uses;
  const auto& [before, after, in_place] = problem.precedence;
  Nodes ends;
  for (std::int32_t node = 0; node < uses.nodes(); ++node) {
    if (uses.runs[node] && after[node].empty()) ends.push_back(node);
  }
  if (sinks == SinkOrder::reversed) std::reverse(ends.begin(), ends.end());

  Nodes order;
  std::vector<std::size_t> next(uses.runs.size());  // [node] of `before` to look at
  std::vector<bool> entered(uses.runs.size());
  Nodes path;
  for (std::int32_t end : ends) {
    entered[end] = true;
    path.push_back(end);
    while (!path.empty()) {
      const std::int32_t node = path.back();
      if (next[node] == before[node].size()) {
        order.push_back(node);
        path.pop_back();
        continue;
      }
      const std::int32_t needed = before[node][next[node]++];
      if (entered[needed]) continue;
      entered[needed] = true;
      path.push_back(needed);
    }
  }
  return order;
}

Nodes regions_together(const OrderProblem& problem, const ir::Graph& graph, const Nodes& order) {
  const Uses& uses = problem.uses;
  Nodes rank(uses.runs.size(), -1), waits_for(uses.runs.size());
  std::unordered_map<ValueId, std::set<std::int32_t>> ready;  // guard -> ranks
  std::set<std::int32_t> all_ready;                           // ranks
  std::vector<ValueId> guards(uses.runs.size());
  for (const std::int32_t node : order) guards[node] = likely_guard(graph.nodes()[node]);
  const auto add = [&](std::int32_t node) {
    ready[guards[node]].insert(rank[node]);
    all_ready.insert(rank[node]);
  };
  for (std::size_t i = 0; i < order.size(); ++i) rank[order[i]] = static_cast<std::int32_t>(i);
  for (const std::int32_t node : order) {
    waits_for[node] = static_cast<std::int32_t>(problem.precedence.before[node].size());
    if (waits_for[node] == 0) add(node);
  }
  Nodes result;
  ValueId region;
  while (result.size() < order.size()) {
    if (!region.present() || ready[region].empty()) {  // whoever is next in the order
      region = guards[order[*all_ready.begin()]];
    }
    std::set<std::int32_t>& ranks = ready[region];
    const std::int32_t node = order[*ranks.begin()];
    all_ready.erase(*ranks.begin());
    ranks.erase(ranks.begin());
    result.push_back(node);
    for (const std::int32_t after : problem.precedence.after[node]) {
      if (--waits_for[after] == 0) add(after);
    }
  }
  return result;
}

Nodes begin_prompt_early(const OrderProblem& problem, const ir::Graph& graph, const Nodes& order) {
  std::vector<bool> prompt(problem.uses.runs.size());
  const auto feeds_prompt = [&](std::int32_t node) {
    const Nodes& after = problem.precedence.after[node];
    return !after.empty() && std::ranges::all_of(after, [&](std::int32_t n) { return prompt[n]; });
  };
  bool any = false;
  for (auto node = order.rbegin(); node != order.rend(); ++node) {
    const Op& op = *graph.nodes()[*node].op;
    prompt[*node] = op.ask<PromptRule>() || (op.moves() && feeds_prompt(*node));
    any = any || prompt[*node];
  }
  if (!any) return order;
  Nodes waits_for(prompt.size()), result;
  Nodes late;  // prompt nodes whose operands are not there, in their order
  for (const std::int32_t node : order) {
    waits_for[node] = static_cast<std::int32_t>(problem.precedence.before[node].size());
    if (prompt[node]) late.push_back(node);
  }
  const auto run = [&](std::int32_t node) {
    result.push_back(node);
    for (const std::int32_t after : problem.precedence.after[node]) --waits_for[after];
  };
  std::size_t next = 0;
  for (const std::int32_t node : order) {
    if (!prompt[node]) run(node);
    while (next < late.size() && waits_for[late[next]] == 0) run(late[next++]);
  }
  return result;
}

Nodes with_still_nodes(const ir::Graph& graph, const Uses& uses, const Nodes& running) {
  Lists readers(uses.runs.size());
  Nodes waits_for(uses.runs.size());
  Heap<std::int32_t> ready;  // nodes that do not run
  for (std::int32_t index = 0; index < uses.nodes(); ++index) {
    if (uses.runs[index]) continue;
    const Node& node = graph.nodes()[index];
    Nodes needs;
    // Not its guard: a reader in another region may come before that.
    for (ValueId id : node.inputs) needs.push_back(id.node);
    waits_for[index] = static_cast<std::int32_t>(needs.size());
    for (std::int32_t needed : needs) readers[needed].push_back(index);
    if (needs.empty()) ready.push(index);
  }
  Nodes order;
  const auto put = [&](std::int32_t node) {
    order.push_back(node);
    for (std::int32_t reader : readers[node]) {
      if (--waits_for[reader] == 0) ready.push(reader);
    }
  };
  const auto put_ready = [&] {
    while (!ready.empty()) {
      const std::int32_t node = ready.top();
      ready.pop();
      put(node);
    }
  };
  put_ready();
  for (std::int32_t node : running) {
    put(node);
    put_ready();
  }
  return order;
}

}  // namespace metronome::plan
