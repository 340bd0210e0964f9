// One walk over the order. Each step places what its node makes: in a block that dies there, or in
// a new one. A block is a chain of values, and its last span is that of the value that lives in it.
//
//   step      0    1    2    3
//   a if g   [=======]              y = merge(g, a, b) takes over both: a and b end at step 1,
//   b else        [==]              a's block joins b's if the two never meet, and y goes on in it
//   y                  [=======]    one block: spans 0-1 if g, 1-1 else, 2-3 in any case
//
// A takeover shortens the life that it ends, so no other output of the node finds it ending there.
// During the walk a place in the arena names a block as it was made, and `joined_` says of which
// other one that became a part. `number_blocks` numbers those that are left; views come last.
#include "graph/plan/lifetimes.h"

#include <algorithm>

#include "graph/rules/guards.h"

namespace metronome::plan {
namespace {

class LifetimeWalk {
 public:
  LifetimeWalk(const ir::Graph& graph, const Uses& uses, const std::vector<std::int32_t>& order,
               const control::NumberedGuards& guards, std::size_t alignment, Takeover takeover)
      : graph_(graph),
        uses_(uses),
        order_(order),
        guards_(guards),
        alignment_(alignment),
        takeover_(takeover) {
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
    number_blocks();
    place_views();
    return std::move(result_);
  }

 private:
  void place_outside_arena(const std::vector<bool>& in_place) {
    for (std::int32_t value = 0; value < uses_.values(); ++value) {
      const std::int32_t index = uses_.home_index[value];
      switch (uses_.homes[value]) {
        case Uses::Home::input:
          result_.places[value] = {Place::Kind::input, index, 0};
          break;
        case Uses::Home::storage:
          result_.places[value] = {Place::Kind::storage, index, 0};
          break;
        case Uses::Home::readable:
          result_.places[value] = {Place::Kind::readable, index, 0};
          break;
        case Uses::Home::planned:
        case Uses::Home::nowhere:
          break;
      }
    }
    for (std::size_t i = 0; i < in_place.size(); ++i) {
      if (!in_place[i]) continue;
      const Assignment& assignment = graph_.assignments()[i];
      result_.places[uses_.number(assignment.value)] = {Place::Kind::storage,
                                                        assignment.storage.index, 0};
    }
  }

  void place_outputs(std::int32_t node) {
    for (std::int32_t value = uses_.first[node]; value < uses_.first[node + 1]; ++value) {
      // The bytes of a value inside another begin to be held when the first of its parts is made.
      const std::int32_t root = uses_.views[value].root;
      if (uses_.makers[value] != node || uses_.homes[root] == Uses::Home::nowhere ||
          result_.places[root].in != Place::Kind::none) {
        continue;
      }
      const Life life = {step_of_[node], last_step(root)};
      result_.lives[root] = life;
      std::int32_t block = root == value ? block_to_take_over(node, value) : -1;
      if (block < 0) {
        block = static_cast<std::int32_t>(result_.blocks.size());
        result_.blocks.push_back({life.begin, life.end, round_up(uses_.bytes[root], alignment_)});
        joined_.push_back(block);
      }
      hold(result_.blocks[block], life, guards_.of_node[node]);
      result_.places[root] = {Place::Kind::arena, block, 0};
    }
  }

  /// The last span of a block is that of the value that lives in it.
  static void hold(HeldBlock& block, const Life& life, std::int32_t guard) {
    block.end = life.end;
    if (!block.spans.empty() && block.spans.back().guard == guard) {
      block.spans.back().end = life.end;
    } else {
      block.spans.push_back({life.begin, life.end, guard});
    }
  }

  /// Ends the lives of inputs that an output can take over and returns their block, or -1.
  std::int32_t block_to_take_over(std::int32_t node, std::int32_t value) {
    std::int32_t taken = -1;
    for (const InPlace& right : uses_.rights[node]) {
      if (uses_.ids[value].output != right.output) continue;
      const std::int32_t root = uses_.root(graph_.nodes()[node].inputs[right.input]);
      Life& life = result_.lives[root];
      // An input that another output of the node took over ends before this step already.
      if (result_.places[root].in != Place::Kind::arena || life.end != step_of_[node] ||
          !may_overwrite(graph_, uses_, node, right)) {
        continue;
      }
      const std::int32_t block = result_.places[root].index;
      if (!may_take_over(node, right, result_.blocks[block])) continue;
      if (taken >= 0 && !join(taken, block, step_of_[node])) continue;
      --life.end;
      if (taken < 0) {
        taken = block;
        --result_.blocks[block].end;
        --result_.blocks[block].spans.back().end;
      }
    }
    return taken;
  }

  bool may_take_over(std::int32_t node, const InPlace& right, const HeldBlock& block) const {
    const std::int32_t guard = guards_.of_node[node];
    return takeover_ == Takeover::any || guard < 0 || guard == block.spans.back().guard ||
           idle_unless(*graph_.nodes()[node].op, right) >= 0;
  }

  /// Makes `other`, which is held to `step`, a part of `block`, if the two never meet before.
  bool join(std::int32_t block, std::int32_t other, std::int32_t step) {
    HeldBlock part = result_.blocks[other];
    part.end = part.spans.back().end = step - 1;
    HeldBlock& whole = result_.blocks[block];
    if (meet(whole, part, guards_.excludes)) return false;
    whole.begin = std::min(whole.begin, part.begin);
    whole.spans.insert(whole.spans.begin(), part.spans.begin(), part.spans.end());
    joined_[other] = block;
    return true;
  }

  std::int32_t last_step(std::int32_t root) const {
    if (uses_.kept[root]) return static_cast<std::int32_t>(order_.size());
    std::int32_t last = step_of_[uses_.ids[root].node];
    for (std::int32_t reader : uses_.readers[root]) last = std::max(last, step_of_[reader]);
    return last;
  }

  /// Leaves out blocks that became parts of others.
  void number_blocks() {
    std::vector<std::int32_t> number(joined_.size());
    std::vector<HeldBlock> blocks;
    for (std::size_t i = 0; i < joined_.size(); ++i) {
      HeldBlock& block = result_.blocks[i];
      if (joined_[i] != static_cast<std::int32_t>(i)) continue;
      if (std::all_of(block.spans.begin(), block.spans.end(),
                      [](const Span& span) { return span.guard < 0; })) {
        block.spans.clear();
      }
      number[i] = static_cast<std::int32_t>(blocks.size());
      blocks.push_back(std::move(block));
    }
    for (std::int32_t value = 0; value < uses_.values(); ++value) {
      Place& place = result_.places[value];
      if (place.in != Place::Kind::arena) continue;
      while (joined_[place.index] != place.index) place.index = joined_[place.index];
      place.index = number[place.index];
    }
    result_.blocks = std::move(blocks);
  }

  void place_views() {
    for (std::int32_t value = 0; value < uses_.values(); ++value) {
      const Uses::View& view = uses_.views[value];
      if (view.root == value) continue;
      result_.places[value] = result_.places[view.root];
      result_.places[value].offset += view.offset;
    }
  }

  const ir::Graph& graph_;
  const Uses& uses_;
  const std::vector<std::int32_t>& order_;
  const control::NumberedGuards& guards_;
  const std::size_t alignment_;
  const Takeover takeover_;
  std::vector<std::int32_t> step_of_;  // [node]
  std::vector<std::int32_t> joined_;   // [block] the block that it became a part of, or itself
  Lifetimes result_;
};

}  // namespace

Lifetimes lifetimes_of(const ir::Graph& graph, const Uses& uses,
                       const std::vector<std::int32_t>& order, const std::vector<bool>& in_place,
                       const control::NumberedGuards& guards, std::size_t alignment,
                       Takeover takeover) {
  return LifetimeWalk(graph, uses, order, guards, alignment, takeover).run(in_place);
}

}  // namespace metronome::plan
