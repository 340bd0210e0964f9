// Placement by a complete search: it finds offsets within a limit of bytes, or proves that there
// are none, if it is given the work.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "graph/placement/glued_blocks.h"
#include "graph/placement/placement.h"

namespace metronome::plan {

struct ExactAnswer {
  std::optional<Placement> placement = {};  ///< absent: none was found
  bool proves_none = false;                 ///< no placement takes so few bytes
};

class ExactPlacer {
 public:
  /// Blocks without spans, at most `kMostBlocks`; they outlive it. `work` is what all calls of
  /// `find` together may do: blocks and sections that are looked at.
  ExactPlacer(std::span<const HeldBlock> blocks, std::size_t work);
  ~ExactPlacer();
  ExactPlacer(const ExactPlacer&) = delete;
  ExactPlacer& operator=(const ExactPlacer&) = delete;

  static constexpr std::size_t kMostBlocks = 4096;
  /// Whether it can place such blocks: not too many, and none with spans.
  static bool takes(std::span<const HeldBlock> blocks);

  bool exhausted() const { return left_ == 0; }
  /// Work that `find` may still do.
  std::size_t left() const { return left_; }
  /// The largest number of bytes that divides all blocks: offsets are multiples of it.
  std::size_t unit() const;

  /// Looks for a placement of at most so many bytes, in several orders in turn, each for longer
  /// from turn to turn; `most` is what it may do at most.
  ExactAnswer find(std::size_t bytes, std::size_t most);

 private:
  class Search;

  std::span<const HeldBlock> blocks_;
  std::size_t left_;
  std::unique_ptr<Search> search_;
};

/// Complete searches of the blocks as they are, and glued, each for longer from turn to turn.
class ExactSearches {
 public:
  /// Blocks without spans, which outlive it.
  explicit ExactSearches(std::span<const HeldBlock> blocks) : blocks_(blocks) {}

  /// The best placement that is found, between the bound that `best` is told of, its `least`, and
  /// `best` itself; `least` goes up where lower heights are proven to be too few. Ends at `enough`
  /// bytes, at a proof, or behind so much work; called again, it goes on.
  Placement improve(Placement best, std::size_t enough, std::size_t work);

 private:
  std::span<const HeldBlock> blocks_;
  std::size_t turns_ = 0;
  std::vector<GluedBlocks> glued_;
  int styles_ = 0;  // that are glued so far
};

}  // namespace metronome::plan
