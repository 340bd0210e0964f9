// Blocks that lie directly on each other, if each falls on those before it in an order:
//
//   order a c b           steps   0  1  2  3  4
//                                    +-----------+
//   above a: c at 0 and 1, b         |     b     |   b lies on c alone, but a is below it, too
//   below b: c at 1, a            +--+--+--------+
//                                 |  c  |
//                                 +-----+--------+
//                                 |      a       |
//                                 +--------------+
//
// The trick: of all pairs of blocks that meet few are in contact, about three for each block, as in
// a map of countries and their borders. A stack is as high as the way up from contact to contact.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "graph/placement/placement.h"

namespace metronome::plan {

/// The sides of a block.
enum StackSide : std::uint8_t { kBelow, kAbove };
constexpr StackSide opposite(StackSide side) { return side == kBelow ? kAbove : kBelow; }

/// Steps, both included, and the block that is next there; -1: none.
struct Contact {
  std::int32_t begin, end, block;
};

/// The contacts of blocks without spans that are in an order. None is in at first.
class Contacts {
 public:
  explicit Contacts(std::span<const HeldBlock> blocks);

  /// By steps, for all that the block has; where it was taken out, as they were then.
  const std::vector<Contact>& of(StackSide side, std::int32_t block) const {
    return contacts_[side][block];
  }
  /// Work so far: a billion take about a second.
  std::size_t work() const { return work_; }

  /// Puts a block in. `met` are those in the order that it meets, the first `below` of them before
  /// it.
  void put_in(std::int32_t block, std::span<const std::int32_t> met, std::size_t below);
  void take_out(std::int32_t block);

  /// Keeps what is there from here on, for `undo`.
  void mark();
  /// Returns to the last mark. To be called once for each mark, at most.
  void undo();

 private:
  using List = std::vector<Contact>;
  struct Saved {
    std::int32_t block = 0;
    std::array<List, 2> contacts = {};
  };

  void save(std::int32_t block);
  void find(StackSide side, std::int32_t block, std::span<const std::int32_t> met,
            std::size_t below);
  void replace(List& list, const Contact& at, std::span<const Contact> by);

  std::vector<std::int32_t> begin_, end_;      // [block] its steps
  std::array<std::vector<List>, 2> contacts_;  // [side][block]
  std::int64_t mark_ = 0;
  std::vector<std::int64_t> saved_at_;  // [block] the last mark
  std::vector<Saved> saved_;            // since the mark: the first `saves_`; others keep memory
  std::size_t saves_ = 0, work_ = 0;
  List made_, open_;
};

}  // namespace metronome::plan
