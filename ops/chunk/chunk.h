// A value in equal parts along an axis: a composite of slices.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/ir/op.h"
#include "graph/ir/type.h"
#include "ops/rules/rules.h"

namespace metronome {

/// `count` parts of one type, in order.
struct Chunk {
  static constexpr std::string_view name = "chunk";
  std::int64_t axis = 0;
  std::int64_t count = 1;

  bool operator==(const Chunk&) const = default;
  bool moves() const { return true; }
  std::string attributes() const;
  Types infer(std::span<const Type> in) const;
  Values lower(std::span<const Value> in) const;
  static std::vector<Case> cases();
};

METRONOME_COMPOSITE(Chunk);

}  // namespace metronome
