// Blocks of bytes, each held for some steps, laid out in as few bytes as greedy orders find.
//
//   bytes
//     |  +-----+
//     |  |  b  |   +-------+           a: steps 0 to 5, b: 0 to 1, c: 3 to 5:
//     |  +-----+---+   c   |           c may lie where b lay, above a
//     |  |       a         |
//     +--+-----------------+--- step
//
// Two blocks may also share bytes if each is held only under a guard, and the guards exclude each
// other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "graph/control/exclusions.h"

namespace metronome::plan {

/// Steps, both ends included, at which bytes are held if a guard is true.
struct Span {
  std::int32_t begin = 0;
  std::int32_t end = 0;
  std::int32_t guard = -1;  ///< its number; -1: in any case

  bool operator==(const Span&) const = default;
};

/// Bytes that are held from step `begin` to step `end`, both included.
struct HeldBlock {
  std::int32_t begin = 0;
  std::int32_t end = 0;
  std::size_t bytes = 0;  ///< a multiple of the alignment, so that every offset found is one
  /// The parts of its steps, each under a guard; parts that overlap exclude each other. Empty: held
  /// in any case.
  std::vector<Span> spans = {};

  bool operator==(const HeldBlock&) const = default;
};

/// True if a step and a setting of the guards exist in which both are held.
bool meet(const HeldBlock& a, const HeldBlock& b, const control::Exclusions& excludes);

/// Whether any of them is held under guards.
bool has_spans(std::span<const HeldBlock> blocks);

/// The largest number of bytes that divides all blocks; 1 where none has bytes.
std::size_t unit_of(std::span<const HeldBlock> blocks);
/// Whether the sum of all blocks, in these, is less.
bool has_fewer_units(std::span<const HeldBlock> blocks, std::size_t units);

struct Placement {
  std::vector<std::size_t> offsets;  ///< [block]
  std::size_t bytes = 0;             ///< end of the highest block
  /// No placement takes fewer bytes than these: the fullest step's, or what a search has proven.
  std::size_t least = 0;

  bool operator==(const Placement&) const = default;
};

/// The fullest step under the guards that fill it most: no placement of the blocks takes fewer
/// bytes.
struct Peak {
  std::size_t bytes = 0;
  std::int32_t step = 0;                  ///< the first at which that many bytes are held
  std::vector<std::int32_t> guards = {};  ///< under which; sorted

  bool operator==(const Peak&) const = default;
};
Peak peak_of(std::span<const HeldBlock> blocks, const control::Exclusions& excludes = {});

/// False if no search with a limit of work (SearchLimits) looks at these blocks: too many pairs are
/// held together, or they have too many units.
bool is_searched(std::span<const HeldBlock> blocks);

/// How long `place` looks.
enum class Effort : std::uint8_t {
  greedy,  ///< the best of several greedy orders; of so many blocks that comparing each with each
           ///< takes too long, the best of those that compare none
  search,  ///< then the best of bounded searches that begin there
};

/// True if a placement is good enough to stop looking: within 1 % of the peak.
constexpr bool near_peak(std::size_t bytes, std::size_t peak) { return bytes <= peak + peak / 100; }

/// When a search ends, beside at the peak.
struct SearchLimits {
  /// Blocks and sections that each search looks at, of up to three: a billion take about a second.
  std::size_t work = 500'000'000;
  /// A placement of so many bytes is good enough; absent: one near the peak.
  std::optional<std::size_t> enough = {};
};

/// Deterministic. Blocks share bytes if they do not meet. A complete search (exact_placement.h)
/// looks at blocks without spans, if they are not very many.
Placement place(std::span<const HeldBlock> blocks, const control::Exclusions& excludes = {},
                Effort effort = Effort::search, const SearchLimits& limits = {});

}  // namespace metronome::plan
