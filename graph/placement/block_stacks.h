// Blocks in an order, of which each falls on those before it that it meets:
//
//   bytes
//     |  +---+ +---+        order a b c, and a meets both others:
//     |  | b | | c |          below(c) = a, above(a) = the larger of b and c
//     |  +---+-+---+          through(c) = a + c, the highest stack that c is in
//     |  |    a    |
//     +--+---------+------- step
//
// Blocks may be taken out, and put in at another place of the order; the last changes can be
// undone. The trick: for each place the highest stack through the block is known before anything
// moves. It is the highest below the place, the block and the highest above.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include "graph/placement/contacts.h"
#include "graph/placement/neighbours.h"
#include "graph/placement/placement.h"

namespace metronome::plan {

/// Ranks that wait, each once; the lowest comes first.
class RankQueue {
 public:
  explicit RankQueue(std::size_t ranks) : words_(ranks / 64 + 1) {}
  bool empty() const { return waiting_ == 0; }
  void push(std::int32_t rank);
  std::int32_t pop();
  /// Words of 64 ranks in which none waited, so far.
  std::size_t skipped() const { return skipped_; }

 private:
  std::vector<std::uint64_t> words_;
  std::size_t first_ = 0;  // no word before it has any
  std::size_t waiting_ = 0, skipped_ = 0;
};

class BlockStacks {
 public:
  using Units = std::int32_t;  ///< of bytes, as the sum of all blocks is
  using Random = std::minstd_rand;

  /// All blocks, in the order of some offsets; blocks at equal ones, of their index.
  BlockStacks(std::span<const HeldBlock> blocks, const control::Exclusions& excludes,
              std::size_t unit, std::span<const std::size_t> offsets);

  /// The highest stack, and the blocks in one of that height, as they were when they were last
  /// kept.
  Units height() const { return height_; }
  std::span<const std::int32_t> highest() const { return highest_; }
  Units size(std::int32_t block) const { return nodes_[block].size; }
  Units below(std::int32_t block) const { return nodes_[block].stack[kBelow]; }
  /// Work so far: a billion take about a second.
  std::size_t work() const;

  bool is_out(std::int32_t block) const { return nodes_[block].is_out; }
  /// Some block that this one meets, or was in contact with when it went; -1: none was drawn.
  std::int32_t near(std::int32_t block, Random& random) const;

  /// Takes blocks out one by one; `settle` then lowers what lay on them, once for all.
  void take_out(std::int32_t block);
  void settle();
  /// Puts a block where the stack through it is least: of equal places at one at random. False if
  /// some stack would be higher than `height()`; then only `undo` may follow.
  bool put_in(std::int32_t block, Random& random);

  /// Makes the blocks, all of which are in, what `undo` returns to.
  /// False, and nothing is done, if more blocks than before are in a stack of the same height.
  bool keep();
  void undo();

 private:
  /// A block, and the stacks that it is in.
  struct Node {
    Units size;
    std::array<Units, 2> stack;
    std::int32_t rank;  ///< in the order
    bool is_out;
  };
  struct Change {
    std::int32_t block;
    std::array<Units, 2> stack;
  };
  struct Move {
    std::int32_t block, from;
  };

  Units end(StackSide side, const Node& node) const { return node.stack[side] + node.size; }
  Units through(const Node& node) const {
    return node.stack[kBelow] + node.size + node.stack[kAbove];
  }
  void mark();
  template <class Visit>
  void each_contact(StackSide side, std::int32_t block, Visit visit);
  void push(StackSide side, std::int32_t block);
  std::int32_t pop(StackSide side);
  void note(std::int32_t block);
  void list_met(std::int32_t block);
  void move(std::int32_t block, std::int32_t to);
  void lower(StackSide side);
  bool raise(StackSide side, std::int32_t come);
  void find_highest();

  const Neighbours neighbours_;
  std::optional<Contacts> contacts_;  // absent: of blocks with spans, all that they meet
  std::vector<Node> nodes_;           // [block]
  std::vector<std::int32_t> order_;   // [rank] those that are out keep some rank
  Units height_ = 0;
  std::vector<std::int32_t> highest_;
  std::int64_t mark_ = 0;
  std::vector<std::int64_t> changed_at_;  // [block] the last mark
  std::vector<Change> changes_;           // since the mark
  std::vector<Move> moves_;
  std::vector<std::int32_t> out_;
  std::array<RankQueue, 2> waiting_;  // [side]
  RankQueue met_ranks_;
  std::vector<std::int32_t> met_;
  std::vector<Units> above_;
  std::size_t work_ = 0;
};

}  // namespace metronome::plan
