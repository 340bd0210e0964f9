#include "graph/lifetimes.h"

#include <algorithm>

namespace metronome {
namespace {

std::size_t round_up(std::size_t bytes, std::size_t alignment) {
  return (bytes + alignment - 1) / alignment * alignment;
}

class Walk {
 public:
  Walk(const Graph& graph, const Uses& uses, const std::vector<std::int32_t>& order,
       std::size_t alignment)
      : graph_(graph), uses_(uses), order_(order), alignment_(alignment) {
    result_.places.resize(uses.ids.size());
    result_.lives.resize(uses.ids.size());
    step_of_.resize(uses.runs.size());
    for (std::size_t step = 0; step < order.size(); ++step) {
      step_of_[order[step]] = static_cast<std::int32_t>(step);
    }
  }

  Lifetimes run(const std::vector<bool>& in_place) {
    place_outside_arena(in_place);
    for (std::int32_t node : order_) {
      if (uses_.runs[node]) place_outputs(node);
    }
    place_views();
    return std::move(result_);
  }

 private:
  void place_outside_arena(const std::vector<bool>& in_place) {
    for (std::int32_t value = 0; value < uses_.values(); ++value) {
      const std::int32_t index = uses_.home_index[value];
      switch (uses_.homes[value]) {
        case Uses::Home::input:
          result_.places[value] = {Place::In::input, index, 0};
          break;
        case Uses::Home::storage:
          result_.places[value] = {Place::In::storage, index, 0};
          break;
        case Uses::Home::readable:
          result_.places[value] = {Place::In::readable, index, 0};
          break;
        case Uses::Home::planned:
        case Uses::Home::nowhere:
          break;
      }
    }
    for (std::size_t i = 0; i < in_place.size(); ++i) {
      if (!in_place[i]) continue;
      const Assignment& assignment = graph_.assignments()[i];
      result_.places[uses_.number(assignment.value)] = {Place::In::storage,
                                                        assignment.storage.index, 0};
    }
  }

  void place_outputs(std::int32_t node) {
    for (std::int32_t value = uses_.first[node]; value < uses_.first[node + 1]; ++value) {
      const bool is_root = uses_.views[value].root == value;
      if (!is_root || uses_.homes[value] == Uses::Home::nowhere ||
          result_.places[value].in != Place::In::none) {
        continue;
      }
      const Life life = {step_of_[node], last_step(value)};
      result_.lives[value] = life;
      std::int32_t block = block_to_take_over(node, value);
      if (block < 0) {
        block = static_cast<std::int32_t>(result_.blocks.size());
        result_.blocks.push_back({life.begin, life.end, round_up(uses_.bytes[value], alignment_)});
      }
      result_.blocks[block].end = life.end;
      result_.places[value] = {Place::In::arena, block, 0};
    }
  }

  std::int32_t block_to_take_over(std::int32_t node, std::int32_t value) {
    for (const InPlace& right : uses_.rights[node]) {
      if (uses_.ids[value].output != right.output) continue;
      const std::int32_t root = uses_.root(graph_.nodes()[node].inputs[right.input]);
      Life& life = result_.lives[root];
      // An input that another output of the node took over ends before this step already.
      if (result_.places[root].in != Place::In::arena || life.end != step_of_[node] ||
          !may_overwrite(graph_, uses_, node, right)) {
        continue;
      }
      --life.end;
      return result_.places[root].index;
    }
    return -1;
  }

  std::int32_t last_step(std::int32_t root) const {
    if (uses_.kept[root]) return static_cast<std::int32_t>(order_.size());
    std::int32_t last = step_of_[uses_.ids[root].node];
    for (std::int32_t reader : uses_.readers[root]) last = std::max(last, step_of_[reader]);
    return last;
  }

  void place_views() {
    for (std::int32_t value = 0; value < uses_.values(); ++value) {
      const Uses::View& view = uses_.views[value];
      if (view.root == value) continue;
      result_.places[value] = result_.places[view.root];
      result_.places[value].offset += view.offset;
    }
  }

  const Graph& graph_;
  const Uses& uses_;
  const std::vector<std::int32_t>& order_;
  const std::size_t alignment_;
  std::vector<std::int32_t> step_of_;  // [node]
  Lifetimes result_;
};

}  // namespace

Lifetimes lifetimes_of(const Graph& graph, const Uses& uses, const std::vector<std::int32_t>& order,
                       const std::vector<bool>& in_place, std::size_t alignment) {
  return Walk(graph, uses, order, alignment).run(in_place);
}

}  // namespace metronome
