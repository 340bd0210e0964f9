// How a CPU walks over a group of maps: steps over strips of its domain. Each member is the row
// function that it has alone, so its bits are those it has alone:
//
//   c = add(mul(f, before), mul(i, g))     f, i, g: columns of x [32, 128]; before, c [32, 32]
//
//   for each strip, all 32 rows of 32 elements:
//     strip 0 <- f                      rows that do not lie side by side are copied
//     strip 1 <- mul(strip 0, before)   before is read where it lies
//     strip 0 <- i ...                  a strip serves again when nothing reads it any more
//     c       <- add(strip 1, strip 2)  written where it belongs
//
// The loops are those of the domain, joined where all that lies in memory allows it (`Nest`). A
// long innermost loop is cut into strips; of a short one a strip takes several runs.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "graph/ir/type.h"
#include "ops/cpu/launch.h"
#include "ops/cpu/rows.h"
#include "ops/group/strip_program.h"

namespace metronome::METRONOME_ISA {

/// Elements of a strip: 4 KiB of f32. Shorter ones call more functions, longer ones leave the
/// first-level cache; 512 and 2048 gained nothing over this (AMD EPYC, AVX-512).
inline constexpr std::int64_t kStrip = 1024;
/// A map's operands at most: `where` has three.
inline constexpr std::size_t kMostOperands = 3;

/// The place of a step's elements of a strip.
struct RowData {
  enum class Kind : std::uint8_t {
    strip,     ///< in strip `index`
    dense,     ///< in memory, as the domain lies
    spread,    ///< in memory, moved by `StripPlan::strides[index]`
    constant,  ///< one number, `number`
  };
  Kind kind = Kind::strip;
  int index = 0;
  char* base = nullptr;                       ///< of memory
  std::int64_t step = 1;                      ///< elements from one to the next: 0 or 1
  std::int64_t bytes = 0;                     ///< of an element
  std::array<char, sizeof(double)> number{};  ///< its bytes
};

/// One row function over a strip, or a copy of rows to a strip or from one.
struct StripStep {
  enum class Kind : std::uint8_t { row, load, store };
  Kind kind = Kind::row;
  RowFunction row = nullptr;
  RowAttributes numbers = {};
  std::size_t operands = 0;
  std::array<RowData, kMostOperands> from = {};
  RowData to = {};
};

struct StripPlan {
  std::vector<StripStep> steps;
  int strips = 0;               ///< of a thread
  std::size_t strip_bytes = 0;  ///< from one to the next
  std::int64_t run = 0;         ///< elements of the innermost loop
  std::int64_t runs = 0;        ///< of a strip
  Shape sizes;                  ///< of the loops around the innermost one
  std::vector<Shape> strides;   ///< [what lies in memory][loop], in elements

  std::size_t bytes() const { return static_cast<std::size_t>(strips) * strip_bytes; }
};

/// Without a launch all that the group writes is taken to lie over what it reads: the plan then
/// counts the strips that any memory needs.
StripPlan plan_strips(const StripProgram& group, const CpuLaunch* launch);

}  // namespace metronome::METRONOME_ISA
