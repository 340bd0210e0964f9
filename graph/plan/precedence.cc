#include "graph/plan/precedence.h"

#include <algorithm>
#include <utility>

namespace metronome::plan {
namespace {

class PrecedenceBuilder {
 public:
  PrecedenceBuilder(const ir::Graph& graph, const Uses& uses) : graph_(graph), uses_(uses) {
    const std::size_t nodes = uses.runs.size();
    order_.before.resize(nodes);
    order_.after.resize(nodes);
    seen_.resize(nodes, -1);
    for (std::int32_t node = 0; node < uses.nodes(); ++node) {
      if (uses.runs[node]) add_makers(graph.nodes()[node], order_.before[node]);
      for (std::int32_t waited : graph.nodes()[node].waits_for) add_wait(node, waited);
      if (uses.runs[node] && graph.nodes()[node].op->effects()) {
        if (last_effect_ >= 0) order_.before[node].push_back(last_effect_);
        last_effect_ = node;
      }
      make_distinct(order_.before[node]);
      for (std::int32_t before : order_.before[node]) order_.after[before].push_back(node);
    }
    reads_of_.resize(graph.storages().size());
    for (std::int32_t value = 0; value < uses.values(); ++value) {
      if (uses.homes[value] == Uses::Home::storage) {
        reads_of_[uses.home_index[value]].push_back(value);
      }
    }
    taken_.resize(uses.ids.size());
  }

  Precedence build() {
    for (const Assignment& assignment : graph_.assignments()) {
      order_.in_place.push_back(make_in_place(assignment));
    }
    for (auto& nodes : order_.before) make_distinct(nodes);
    for (auto& nodes : order_.after) make_distinct(nodes);
    return std::move(order_);
  }

 private:
  void add_makers(const Node& node, std::vector<std::int32_t>& before) const {
    const auto add = [&](ValueId id) {
      const std::int32_t maker = uses_.makers[uses_.number(id)];
      if (uses_.runs[maker]) before.push_back(maker);
    };
    for (const ValueId id : node.inputs) add(id);
    if (node.guard.present()) add(node.guard);
  }

  static void make_distinct(std::vector<std::int32_t>& nodes) {
    std::sort(nodes.begin(), nodes.end());
    nodes.erase(std::unique(nodes.begin(), nodes.end()), nodes.end());
  }

  /// A node without a kernel waits for nothing, and to wait for it is to wait for the node that
  /// makes its bytes.
  void add_wait(std::int32_t node, std::int32_t waited) {
    const std::int32_t runs = uses_.runs[waited] ? waited : uses_.makers[uses_.first[waited]];
    if (uses_.runs[node] && uses_.runs[runs]) order_.before[node].push_back(runs);
  }

  bool make_in_place(const Assignment& assignment) {
    const std::int32_t value = uses_.number(assignment.value);
    const std::int32_t writer = assignment.value.node;
    const auto home = uses_.homes[value];
    if (uses_.views[value].root != value || home != Uses::Home::planned || taken_[value] ||
        !may_overwrite_storage(assignment)) {
      return false;
    }
    std::vector<std::int32_t> readers;
    for (std::int32_t old : reads_of_[assignment.storage.index]) {
      for (std::int32_t reader : uses_.readers[old]) {
        if (reader != writer) readers.push_back(reader);
      }
    }
    make_distinct(readers);
    if (reaches(writer, readers)) return false;
    for (std::int32_t reader : readers) {
      order_.before[writer].push_back(reader);
      order_.after[reader].push_back(writer);
      backward_edges_ |= reader > writer;
    }
    taken_[value] = true;
    return true;
  }

  /// The writer reads the storage's old value, and the op lets the output overwrite it.
  bool may_overwrite_storage(const Assignment& assignment) const {
    const Node& writer = graph_.node(assignment.value);
    bool found = false;
    for (const InPlace& right : uses_.rights[assignment.value.node]) {
      if (right.output != assignment.value.output) continue;
      const std::int32_t input = uses_.number(writer.inputs[right.input]);
      found |= uses_.homes[input] == Uses::Home::storage &&
               uses_.home_index[input] == assignment.storage.index &&
               may_overwrite(graph_, uses_, assignment.value.node, right);
    }
    return found;
  }

  /// True where one of `targets` (sorted) must run after `start`.
  bool reaches(std::int32_t start, const std::vector<std::int32_t>& targets) {
    // Every edge leads from a lower to a higher index until one is added that does not.
    if (targets.empty() || (!backward_edges_ && targets.back() < start)) return false;
    ++search_;
    std::vector<std::int32_t> open = {start};
    while (!open.empty()) {
      const std::int32_t node = open.back();
      open.pop_back();
      for (std::int32_t after : order_.after[node]) {
        if (seen_[after] == search_) continue;
        seen_[after] = search_;
        if (std::binary_search(targets.begin(), targets.end(), after)) return true;
        open.push_back(after);
      }
    }
    return false;
  }

  const ir::Graph& graph_;
  const Uses& uses_;
  Precedence order_;
  std::vector<std::vector<std::int32_t>> reads_of_;  // [storage] the values that read it
  std::vector<bool> taken_;                          // [value] lies in a storage already
  std::vector<std::int32_t> seen_;                   // [node] the last search that saw it
  std::int32_t search_ = -1;
  std::int32_t last_effect_ = -1;  // the last node so far that does something beside its results
  bool backward_edges_ = false;
};

}  // namespace

Precedence precedence_of(const ir::Graph& graph, const Uses& uses) {
  return PrecedenceBuilder(graph, uses).build();
}

}  // namespace metronome::plan
