// Ops that look up by index.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "graph/rules/rule.h"

namespace metronome {

/// An operand whose elements say where to read, counted from 0. One that is out of range stops no
/// step: the op says what it reads then, and executors report it (`Executable::fault`).
struct Indexing {
  int operand = 0;
  std::int64_t count = 0;                    ///< of what can be read: the last is count - 1
  std::string_view what = "index";           ///< how reports call an element
  std::optional<std::int64_t> ignored = {};  ///< stands for "none", and is no mistake
  std::string_view by = {};  ///< the verb that reports name; empty: the op's own name
};

}  // namespace metronome

/// The lookup by index that the op makes, of which indices out of range are reported; absent for
/// ops that look nothing up, and for gradients, as the op's own lookup reports the same elements in
/// the same step.
METRONOME_RULE(IndexingRule, indexing, std::optional<Indexing>, (std::span<const Type>))
