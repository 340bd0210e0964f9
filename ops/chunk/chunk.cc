#include "ops/chunk/chunk.h"

#include <fmt/format.h>

#include "graph/emit/scope.h"
#include "graph/ir/error.h"

namespace metronome {

std::string Chunk::attributes() const { return fmt::format("{} along {}", count, axis); }

Types Chunk::infer(std::span<const Type> in) const {
  const std::int64_t size = in[0].shape[normalized_axis(axis, in[0].rank())];
  if (count < 1) throw Requirement{fmt::format("1 part or more, but {}", count)};
  if (count > kMostCopies) {
    throw Requirement{fmt::format("{} parts or fewer, but {}", kMostCopies, count)};
  }
  if (size % count != 0) {
    throw Requirement{fmt::format("a size of dimension {} that {} divides, but {}", axis, count,
                                  to_string(in[0].shape))};
  }
  Type part = in[0];
  part.shape[axis] = size / count;
  return Types(static_cast<std::size_t>(count), part);
}

Values Chunk::lower(std::span<const Value> in) const {
  const std::int64_t width = in[0].size(axis) / count;
  Values parts;
  for (std::int64_t i = 0; i < count; ++i) {
    parts.push_back(in[0].slice(axis, i * width, (i + 1) * width));
  }
  return parts;
}

std::vector<Case> Chunk::cases() {
  std::vector<Case> cases;
  const auto add = [&](std::string name, Chunk op, Shape shape) {
    cases.push_back({.name = std::move(name), .op = make_op(op), .inputs = {{{f32, shape}}}});
  };
  add("rows", {0, 3}, {6, 5});
  add("columns", {1, 4}, {5, 12});
  add("single columns", {1, 7}, {9, 7});
  add("middle axis", {1, 2}, {3, 4, 5});
  add("one", {0, 1}, {3, 2});
  add("empty parts", {0, 2}, {0, 3});
  return cases;
}

}  // namespace metronome
