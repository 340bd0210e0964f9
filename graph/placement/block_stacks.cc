#include "graph/placement/block_stacks.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <limits>
#include <numeric>

namespace metronome::plan {
namespace {

/// Work for each contact that is followed, and for each block that is looked at beside another.
constexpr std::size_t kWorkOfContact = 8, kWorkOfNeighbour = 2;
/// Work for each block that is listed beside another.
constexpr std::size_t kWorkOfPair = 8;

}  // namespace

void RankQueue::push(std::int32_t rank) {
  const auto word = static_cast<std::size_t>(rank) / 64;
  const std::uint64_t bit = std::uint64_t{1} << (rank % 64);
  if ((words_[word] & bit) != 0) return;
  words_[word] |= bit;
  first_ = waiting_++ == 0 ? word : std::min(first_, word);
}

std::int32_t RankQueue::pop() {
  for (; words_[first_] == 0; ++first_) ++skipped_;
  std::uint64_t& word = words_[first_];
  const auto rank = static_cast<std::int32_t>(first_ * 64) + std::countr_zero(word);
  word &= word - 1;
  --waiting_;
  return rank;
}

/// Calls `visit(other)` for blocks on that side, among them all in contact with the block.
template <class Visit>
void BlockStacks::each_contact(StackSide side, std::int32_t block, Visit visit) {
  if (contacts_) {
    for (const Contact& contact : contacts_->of(side, block)) {
      if (contact.block >= 0) visit(contact.block);
    }
    work_ += kWorkOfContact * contacts_->of(side, block).size();
    return;
  }
  const std::int32_t rank = nodes_[block].rank;
  for (const std::int32_t other : neighbours_[block]) {
    const Node& node = nodes_[other];
    if (!node.is_out && (side == kBelow ? node.rank < rank : node.rank > rank)) visit(other);
  }
  work_ += kWorkOfNeighbour * neighbours_[block].size();
}

BlockStacks::BlockStacks(std::span<const HeldBlock> blocks, const control::Exclusions& excludes,
                         std::size_t unit, std::span<const std::size_t> offsets)
    : neighbours_(list_neighbours(blocks, excludes)),
      order_(blocks.size()),
      changed_at_(blocks.size()),
      waiting_{RankQueue(blocks.size()), RankQueue(blocks.size())},
      met_ranks_(blocks.size()) {
  if (!has_spans(blocks)) contacts_.emplace(blocks);
  std::iota(order_.begin(), order_.end(), 0);
  std::ranges::stable_sort(order_, {}, [&](std::int32_t block) { return offsets[block]; });
  nodes_.resize(blocks.size());
  for (std::size_t rank = 0; rank < order_.size(); ++rank) {
    const std::int32_t block = order_[rank];
    nodes_[block] = {
        static_cast<Units>(blocks[block].bytes / unit), {}, static_cast<std::int32_t>(rank), true};
  }
  for (const auto& met : neighbours_) work_ += kWorkOfPair * met.size();
  for (const std::int32_t block : order_) {
    list_met(block);
    Node& node = nodes_[block];
    for (const std::int32_t other : met_) {
      node.stack[kBelow] = std::max(node.stack[kBelow], end(kBelow, nodes_[other]));
    }
    if (contacts_) contacts_->put_in(block, met_, met_.size());
    node.is_out = false;
  }
  for (std::size_t rank = order_.size(); rank-- > 0;) {
    Node& node = nodes_[order_[rank]];
    each_contact(kAbove, order_[rank], [&](std::int32_t other) {
      node.stack[kAbove] = std::max(node.stack[kAbove], end(kAbove, nodes_[other]));
    });
  }
  find_highest();
  mark();
}

std::size_t BlockStacks::work() const {
  return work_ + (contacts_ ? contacts_->work() : 0) + waiting_[kBelow].skipped() +
         waiting_[kAbove].skipped() + met_ranks_.skipped();
}

std::int32_t BlockStacks::near(std::int32_t block, Random& random) const {
  if (contacts_ && random() % 2 == 0) {
    const auto& contacts = contacts_->of(random() % 2 == 0 ? kBelow : kAbove, block);
    return contacts[random() % contacts.size()].block;
  }
  const std::vector<std::int32_t>& met = neighbours_[block];
  return met.empty() ? -1 : met[random() % met.size()];
}

void BlockStacks::take_out(std::int32_t block) {
  note(block);
  for (const StackSide side : {kBelow, kAbove}) {
    const Units ends = end(side, nodes_[block]);
    each_contact(opposite(side), block, [&](std::int32_t other) {
      if (nodes_[other].stack[side] == ends) push(side, other);
    });
  }
  if (contacts_) contacts_->take_out(block);
  nodes_[block].is_out = true;
  out_.push_back(block);
}

void BlockStacks::settle() {
  for (const StackSide side : {kBelow, kAbove}) lower(side);
}

bool BlockStacks::put_in(std::int32_t block, Random& random) {
  list_met(block);
  above_.assign(met_.size() + 1, 0);  // [place] the highest stack above it
  for (std::size_t i = met_.size(); i-- > 0;) {
    above_[i] = std::max(above_[i + 1], end(kAbove, nodes_[met_[i]]));
  }
  Units below = 0, least = std::numeric_limits<Units>::max();
  std::size_t place = 0;
  std::uint32_t equals = 0;
  Node& node = nodes_[block];
  for (std::size_t i = 0; i <= met_.size(); ++i) {
    if (i > 0) below = std::max(below, end(kBelow, nodes_[met_[i - 1]]));
    const Units bytes = below + above_[i];
    if (bytes > least) continue;
    equals = bytes < least ? 1 : equals + 1;
    least = bytes;
    if (random() % equals != 0) continue;
    place = i;
    node.stack = {below, above_[i]};
  }
  if (least + node.size > height_) return false;
  moves_.push_back({block, node.rank});
  // Any rank between those of the blocks at both sides will do: the nearest moves fewest others.
  if (place > 0 && nodes_[met_[place - 1]].rank > node.rank) {
    move(block, nodes_[met_[place - 1]].rank);
  } else if (place < met_.size() && nodes_[met_[place]].rank < node.rank) {
    move(block, nodes_[met_[place]].rank);
  }
  if (contacts_) contacts_->put_in(block, met_, place);
  node.is_out = false;
  return raise(kBelow, block) && raise(kAbove, block);
}

bool BlockStacks::keep() {
  const auto is_unchanged = [&](std::int32_t block) { return changed_at_[block] != mark_; };
  const auto is_highest = [&](const Change& change) {
    return through(nodes_[change.block]) == height_;
  };
  const auto blocks =
      std::ranges::count_if(highest_, is_unchanged) + std::ranges::count_if(changes_, is_highest);
  if (blocks > std::ssize(highest_)) return false;
  std::erase_if(highest_, [&](std::int32_t block) { return !is_unchanged(block); });
  for (const Change& change : changes_) {
    if (is_highest(change)) highest_.push_back(change.block);
  }
  if (highest_.empty()) find_highest();
  mark();
  return true;
}

void BlockStacks::undo() {
  for (const Change& change : changes_) nodes_[change.block].stack = change.stack;
  for (const std::int32_t block : out_) nodes_[block].is_out = false;
  for (std::size_t i = moves_.size(); i-- > 0;) move(moves_[i].block, moves_[i].from);
  if (contacts_) contacts_->undo();
  mark();
}

void BlockStacks::mark() {
  ++mark_;
  changes_.clear();
  moves_.clear();
  out_.clear();
  if (contacts_) contacts_->mark();
}

void BlockStacks::find_highest() {
  height_ = 0;
  for (const Node& node : nodes_) height_ = std::max(height_, through(node));
  for (std::size_t block = 0; block < nodes_.size(); ++block) {
    if (through(nodes_[block]) == height_) highest_.push_back(static_cast<std::int32_t>(block));
  }
  work_ += nodes_.size();
}

/// Lists those that a block meets and that are in, by rank.
void BlockStacks::list_met(std::int32_t block) {
  met_.clear();
  for (const std::int32_t other : neighbours_[block]) {
    if (!nodes_[other].is_out) met_ranks_.push(nodes_[other].rank);
  }
  while (!met_ranks_.empty()) met_.push_back(order_[met_ranks_.pop()]);
  work_ += kWorkOfNeighbour * neighbours_[block].size();
}

/// Gives a block another rank; those between move up or down by one.
void BlockStacks::move(std::int32_t block, std::int32_t to) {
  const std::int32_t from = nodes_[block].rank, step = from < to ? 1 : -1;
  work_ += static_cast<std::size_t>(std::abs(to - from));
  for (std::int32_t rank = from; rank != to; rank += step) {
    order_[rank] = order_[rank + step];
    nodes_[order_[rank]].rank = rank;
  }
  order_[to] = block;
  nodes_[block].rank = to;
}

void BlockStacks::note(std::int32_t block) {
  if (std::exchange(changed_at_[block], mark_) == mark_) return;
  changes_.push_back({block, nodes_[block].stack});
}

/// Blocks wait by rank, above a block from the end: those come first on which others lie.
void BlockStacks::push(StackSide side, std::int32_t block) {
  const std::int32_t rank = nodes_[block].rank;
  waiting_[side].push(side == kBelow ? rank : static_cast<std::int32_t>(order_.size()) - 1 - rank);
}
std::int32_t BlockStacks::pop(StackSide side) {
  const std::int32_t rank = waiting_[side].pop();
  return order_[side == kBelow ? rank : static_cast<std::int32_t>(order_.size()) - 1 - rank];
}

/// Stacks get lower that blocks were in which went.
void BlockStacks::lower(StackSide side) {
  while (!waiting_[side].empty()) {
    const std::int32_t block = pop(side);
    Node& node = nodes_[block];
    if (node.is_out) continue;
    Units bytes = 0;
    each_contact(side, block,
                 [&](std::int32_t other) { bytes = std::max(bytes, end(side, nodes_[other])); });
    if (bytes == node.stack[side]) continue;
    const Units ended = end(side, node);
    note(block);
    node.stack[side] = bytes;
    each_contact(opposite(side), block, [&](std::int32_t other) {
      if (nodes_[other].stack[side] == ended) push(side, other);
    });
  }
}

/// Stacks get higher that a block is in now. False if one is higher than `height_`.
bool BlockStacks::raise(StackSide side, std::int32_t come) {
  push(side, come);
  bool is_low = true;
  while (!waiting_[side].empty()) {
    const std::int32_t block = pop(side);
    if (!is_low) continue;
    const Units ends = end(side, nodes_[block]);
    each_contact(opposite(side), block, [&](std::int32_t other) {
      Node& node = nodes_[other];
      if (node.stack[side] >= ends) return;
      note(other);
      node.stack[side] = ends;
      is_low = is_low && through(node) <= height_;
      push(side, other);
    });
  }
  return is_low;
}

}  // namespace metronome::plan
