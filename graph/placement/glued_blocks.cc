// Gluing undoes the cuts of a layout without gaps, the likeliest ones first:
//
//   bytes
//     |  +----+------+    beside  b begins where a ends, and has its size
//     |  | a  |  b   |    on top  then a and b, as one block, have the steps of c
//     |  +----+------+
//     |  |     c     |
//     +--+-----------+-- step
//
// A join may be wrong: blocks of equal sizes, or of equal steps, may meet by chance. So each join
// has a doubt. It is small if few blocks begin or end there, and if the blocks are large. Joins of
// the least doubt come first, since they may take away the doubt of others.
//
// A layout with slack has gaps, and they are glued like blocks. The slack of a section is what its
// blocks leave of the bytes: it rises by a gap's size where the gap begins, and falls by it where
// the gap ends. Gaps of which both ends are seen are there from the beginning. Others are guessed
// where they would allow a join.
#include "graph/placement/glued_blocks.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <utility>
#include <vector>

namespace metronome::plan {
namespace gluing {

/// A way to weigh joins: it says which are taken to be the likelier.
struct Style {
  double on_top;    ///< doubt of blocks of equal steps, compared with those of equal sizes
  double gaps;      ///< doubt of a gap, compared with that of a join
  double together;  ///< joins are made together up to so many times the least doubt
};
constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr std::array<Style, kGlueStyles> kStyles = {{{0.3, 3, 2},
                                                     {0.3, 3, 10},
                                                     {0.3, kNever, 2},
                                                     {1, 3, 10},
                                                     {0.1, 3, 2},
                                                     {0.3, 3, 1.2},
                                                     {0.1, 10, 2},
                                                     {1, 3, 2}}};

/// Each makes a result of its own, if half the blocks are gone: more doubt makes fewer blocks, but
/// more of them wrong.
constexpr std::array<double, 4> kDoubts = {0.1, 0.3, 1, std::numeric_limits<double>::max()};

/// Each level has so many times the blocks of the one before, at most.
constexpr double kLevel = 0.8;

/// Doubt of joins of more than two blocks of one size, for each of them, compared with that of two.
constexpr double kRivals = 10;
/// Doubt of gaps of which others end at the same section, compared with those that end alone.
constexpr double kNotAlone = 4;

/// Work to list all joins, for each piece and section: a billion take about a second.
constexpr std::size_t kWorkOfJoins = 50;
/// Gluing takes this share of the work that is left, at most: a sixteenth.
constexpr std::size_t kShareOfWork = 16;

/// A block, a gap, or two pieces that were joined.
struct Piece {
  std::int32_t begin, end;  ///< sections, the end not included
  std::int64_t size;
  std::int32_t block = -1;  ///< of the problem; -1: a gap, or joined
  bool is_gap = false;      ///< all its parts are
  bool on_top = false;      ///< the second part lies on the first, not beside it
  std::array<std::int32_t, 2> parts = {-1, -1};
};

struct PieceJoin {
  double doubt;
  std::int32_t first, second;
  bool on_top;  ///< else `second` begins where `first` ends
};

/// A gap that may be there.
struct Guess {
  double doubt;
  Piece gap;
};

class Gluer {
 public:
  /// Ends behind so much work.
  Gluer(std::span<const HeldBlock> blocks, std::size_t bytes, std::size_t unit, const Style& style,
        std::size_t most_work)
      : style_(style), unit_(unit), most_work_(most_work) {
    std::map<std::int32_t, std::int64_t> changes;  // of the slack, [step]
    for (const HeldBlock& block : blocks) {
      if (block.bytes == 0) continue;
      const auto size = static_cast<std::int64_t>(block.bytes / unit);
      changes[block.begin] -= size;
      changes[block.end + 1] += size;
    }
    for (auto slack = static_cast<std::int64_t>(bytes / unit); const auto& [step, size] : changes) {
      steps_.push_back(step);
      slack_.push_back(slack += size);
    }
    if (!slack_.empty()) slack_.back() = 0;  // behind the last section
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      if (blocks[i].bytes == 0) continue;
      add({.begin = section(blocks[i].begin),
           .end = section(blocks[i].end + 1),
           .size = static_cast<std::int64_t>(blocks[i].bytes / unit),
           .block = static_cast<std::int32_t>(i)});
    }
    add_paired_gaps();
  }

  std::size_t work() const { return work_; }

  /// Blocks that are left, glued or as they were.
  std::size_t blocks() const {
    return static_cast<std::size_t>(
        std::ranges::count_if(left_, [&](std::int32_t i) { return !pieces_[i].is_gap; }));
  }

  /// Joins pieces that may be joined with the least doubt, or adds gaps that allow joins. False if
  /// none are left of so little doubt, or no work.
  bool join(double most) {
    if (work_ >= most_work_) return false;
    find_neighbours();
    const std::vector<PieceJoin> joins = list_joins();
    const double least = joins.empty() ? std::numeric_limits<double>::max() : joins[0].doubt;
    if (add_gaps(std::min(least, most))) return true;
    if (joins.empty() || least > most) return false;
    std::vector<bool> joined(pieces_.size());
    for (const auto& [doubt, a, b, on_top] : joins) {
      if (doubt > least * style_.together) break;
      if (joined[a] || joined[b]) continue;
      joined[a] = joined[b] = true;
      add({.begin = pieces_[a].begin,
           .end = pieces_[b].end,
           .size = pieces_[a].size + (on_top ? pieces_[b].size : 0),
           .is_gap = pieces_[a].is_gap && pieces_[b].is_gap,
           .on_top = on_top,
           .parts = {a, b}});
    }
    joined.resize(pieces_.size());
    std::erase_if(left_, [&](std::int32_t i) { return joined[i]; });
    return true;
  }

  GluedBlocks glued(std::size_t blocks) const {
    GluedBlocks result;
    result.within.resize(blocks);
    std::vector<GluedBlocks::Within> within(pieces_.size());
    for (const std::int32_t i : left_) {
      const Piece& piece = pieces_[i];
      if (piece.is_gap) continue;
      within[i].glued = static_cast<std::int32_t>(result.blocks.size());
      result.blocks.push_back({steps_[piece.begin], steps_[piece.end] - 1,
                               static_cast<std::size_t>(piece.size) * unit_});
    }
    for (std::size_t i = pieces_.size(); i-- > 0;) {  // parts stand before what they make
      const Piece& piece = pieces_[i];
      if (piece.block >= 0) result.within[piece.block] = within[i];
      const auto [a, b] = piece.parts;
      if (a < 0) continue;
      within[a] = within[b] = within[i];
      if (piece.on_top) within[b].offset += static_cast<std::size_t>(pieces_[a].size) * unit_;
    }
    return result;
  }

 private:
  std::int32_t section(std::int32_t step) const {
    return static_cast<std::int32_t>(std::ranges::lower_bound(steps_, step) - steps_.begin());
  }
  /// By how much the slack rises at a section; negative where it falls.
  std::int64_t rise(std::int32_t section) const {
    return slack_[section] - (section > 0 ? slack_[section - 1] : 0);
  }
  std::int64_t least_slack(const Piece& gap) const {
    return *std::min_element(slack_.begin() + gap.begin, slack_.begin() + gap.end);
  }

  void add(const Piece& piece) {
    left_.push_back(static_cast<std::int32_t>(pieces_.size()));
    pieces_.push_back(piece);
  }
  /// False if the slack is too little by now.
  bool add_gap(const Piece& gap) {
    if (least_slack(gap) < gap.size) return false;
    for (std::int32_t s = gap.begin; s < gap.end; ++s) slack_[s] -= gap.size;
    add(gap);
    return true;
  }

  /// Gaps between a rise and the next fall of the same size, the shortest first.
  void add_paired_gaps() {
    std::vector<Piece> gaps;
    const auto sections = static_cast<std::int32_t>(slack_.size());
    for (std::int32_t begin = 0; begin < sections; ++begin) {
      const std::int64_t size = rise(begin);
      for (std::int32_t s = begin + 1; s < sections && size > 0 && slack_[s - 1] >= size; ++s) {
        if (rise(s) != -size) continue;
        gaps.push_back({.begin = begin, .end = s, .size = size, .is_gap = true});
        break;
      }
    }
    std::ranges::stable_sort(gaps, {}, [](const Piece& gap) { return gap.end - gap.begin; });
    for (const Piece& gap : gaps) {
      if (rise(gap.begin) == gap.size && rise(gap.end) == -gap.size) add_gap(gap);
    }
  }

  /// Lists what begins and ends at each section, by size.
  void find_neighbours() {
    std::ranges::stable_sort(left_, {}, [&](std::int32_t i) { return pieces_[i].size; });
    beginning_.resize(steps_.size());
    ending_.resize(steps_.size());
    for (auto* lists : {&beginning_, &ending_}) {
      for (std::vector<std::int32_t>& list : *lists) list.clear();
    }
    for (const std::int32_t i : left_) {
      beginning_[pieces_[i].begin].push_back(i);
      ending_[pieces_[i].end].push_back(i);
    }
    work_ += kWorkOfJoins * (left_.size() + steps_.size());
  }
  /// How many pieces begin at a section, times how many end at one.
  double pairs(std::int32_t begin, std::int32_t end) const {
    return static_cast<double>(beginning_[begin].size()) * static_cast<double>(ending_[end].size());
  }
  double doubt_beside(std::int32_t section, std::int64_t size) const {
    return pairs(section, section) / static_cast<double>(size);
  }
  double doubt_on_top(std::int32_t begin, std::int32_t end) const {
    return style_.on_top * pairs(begin, end) / (end - begin);
  }

  /// By doubt.
  std::vector<PieceJoin> list_joins() const {
    std::vector<PieceJoin> joins;
    for (std::size_t s = 0; s < steps_.size(); ++s) list_joins(static_cast<std::int32_t>(s), joins);
    std::ranges::stable_sort(joins, {}, &PieceJoin::doubt);
    return joins;
  }
  void list_joins(std::int32_t section, std::vector<PieceJoin>& joins) const {
    const auto size = [&](std::int32_t i) { return pieces_[i].size; };
    std::vector<std::int32_t> here = beginning_[section];
    const std::vector<std::int32_t>& before = ending_[section];
    for (std::size_t i = 0; i < before.size();) {
      const std::int64_t bytes = size(before[i]);
      const auto a = std::ranges::equal_range(before, bytes, {}, size);
      const auto b = std::ranges::equal_range(here, bytes, {}, size);
      i += a.size();
      if (b.empty()) continue;
      const auto equal = static_cast<double>(a.size() + b.size());
      const double rivals = equal == 2 ? 1 : kRivals * equal;
      const bool certain = here.size() == 1 && before.size() == 1;
      joins.push_back(
          {certain ? 0 : rivals * doubt_beside(section, bytes), a.front(), b.front(), false});
    }
    const auto end = [&](std::int32_t i) { return pieces_[i].end; };
    std::ranges::stable_sort(here, {}, end);
    for (std::size_t i = 0; i + 1 < here.size(); ++i) {
      if (end(here[i]) != end(here[i + 1])) continue;
      joins.push_back({doubt_on_top(section, end(here[i])), here[i], here[i + 1], true});
    }
  }

  /// Adds guessed gaps of at most so much doubt. False if there are none.
  bool add_gaps(double most) {
    std::vector<Guess> guesses;
    guess_beside(guesses);
    guess_on_top(guesses);
    std::ranges::stable_sort(guesses, {}, &Guess::doubt);
    bool any = false;
    for (const Guess& guess : guesses) {
      if (guess.doubt > std::min(most, guesses[0].doubt * style_.together)) break;
      any |= add_gap(guess.gap);
    }
    return any;
  }
  /// Adds those of them that the slack allows; each is in doubt by the others, too.
  void add_guesses(std::vector<Guess> found, std::vector<Guess>& guesses) {
    for (const auto& [doubt, gap] : found) work_ += static_cast<std::size_t>(gap.end - gap.begin);
    std::erase_if(found, [&](const Guess& g) { return least_slack(g.gap) < g.gap.size; });
    for (Guess& guess : found) {
      guess.doubt *= style_.gaps * static_cast<double>(found.size());
      guesses.push_back(guess);
    }
  }
  /// A gap of a piece's size, beside it, makes it as long as one that has the same other end.
  void guess_beside(std::vector<Guess>& guesses) {
    for (const std::int32_t index : left_) {
      if (work_ >= most_work_) return;
      const Piece& piece = pieces_[index];
      for (const bool before : {true, false}) {
        const std::int32_t inner = before ? piece.begin : piece.end;
        const std::int64_t seen = before ? -rise(inner) : rise(inner);
        if (piece.is_gap || seen < piece.size) continue;
        const auto& others = before ? ending_[piece.end] : beginning_[piece.begin];
        work_ += 4 * others.size();
        std::vector<Guess> found;
        for (const std::int32_t other : others) {
          const std::int32_t outer = before ? pieces_[other].begin : pieces_[other].end;
          const Piece gap{.begin = before ? outer : inner,
                          .end = before ? inner : outer,
                          .size = piece.size,
                          .is_gap = true};
          const bool is_outside = gap.begin < gap.end && (before ? rise(outer) : -rise(outer)) > 0;
          if (pieces_[other].is_gap || !is_outside) continue;
          const double doubt =
              doubt_on_top(std::min(outer, piece.begin), std::max(outer, piece.end));
          found.push_back({seen == piece.size ? doubt : kNotAlone * doubt, gap});
        }
        add_guesses(std::move(found), guesses);
      }
    }
  }
  /// A gap on top of one of two pieces beside each other makes it as large as the other.
  void guess_on_top(std::vector<Guess>& guesses) {
    const auto size = [&](std::int32_t i) { return pieces_[i].size; };
    for (std::int32_t s = 0; s < static_cast<std::int32_t>(steps_.size()); ++s) {
      if (work_ >= most_work_) return;
      const std::int64_t seen = rise(s);
      std::vector<Guess> found;
      for (const std::int32_t a : ending_[s]) {
        const auto bs = std::ranges::equal_range(beginning_[s], size(a) - seen, {}, size);
        if (seen == 0 || bs.empty() || pieces_[a].is_gap || pieces_[bs.front()].is_gap) continue;
        const Piece& smaller = pieces_[seen < 0 ? a : bs.front()];
        if ((seen < 0 ? rise(smaller.begin) : -rise(smaller.end)) <= 0) continue;
        found.push_back(
            {doubt_beside(s, smaller.size + std::abs(seen)),
             {.begin = smaller.begin, .end = smaller.end, .size = std::abs(seen), .is_gap = true}});
      }
      add_guesses(std::move(found), guesses);
    }
  }

  const Style style_;
  const std::size_t unit_, most_work_;
  std::vector<std::int32_t> steps_;  // [section] its first one; last, the step behind all
  std::vector<std::int64_t> slack_;  // [section]
  std::vector<Piece> pieces_;
  std::vector<std::int32_t> left_;                             // pieces that are part of no other
  std::vector<std::vector<std::int32_t>> beginning_, ending_;  // [section] which of them
  std::size_t work_ = 0;
};

}  // namespace gluing

Placement GluedBlocks::placement(const Placement& of_glued) const {
  Placement result{{}, of_glued.bytes, of_glued.least};
  for (const auto& [index, offset] : within) {
    result.offsets.push_back(index < 0 ? 0 : of_glued.offsets[index] + offset);
  }
  return result;
}

std::vector<GluedBlocks> glue_blocks(std::span<const HeldBlock> blocks, std::size_t bytes,
                                     int style, std::size_t& work) {
  std::vector<GluedBlocks> result;
  gluing::Gluer gluer(blocks, bytes, unit_of(blocks), gluing::kStyles[style],
                      work / gluing::kShareOfWork);
  for (const double doubt : gluing::kDoubts) {
    while (gluer.join(doubt)) {
    }
    const std::size_t most = result.empty() ? blocks.size() / 2 : result.back().blocks.size() - 1;
    if (gluer.blocks() > 0 && gluer.blocks() <= most) result.push_back(gluer.glued(blocks.size()));
  }
  work -= std::min(work, gluer.work());
  return result;
}

std::vector<GluedBlocks> glue_levels(std::span<const HeldBlock> blocks, std::size_t bytes,
                                     int style, std::size_t& work) {
  std::vector<GluedBlocks> levels;
  gluing::Gluer gluer(blocks, bytes, unit_of(blocks), gluing::kStyles[style],
                      work / gluing::kShareOfWork);
  auto most = static_cast<double>(gluer.blocks());
  while (gluer.join(std::numeric_limits<double>::max())) {
    const auto left = static_cast<double>(gluer.blocks());
    if (left > most * gluing::kLevel) continue;
    levels.push_back(gluer.glued(blocks.size()));
    most = left;
  }
  work -= std::min(work, gluer.work());
  return levels;
}

}  // namespace metronome::plan
