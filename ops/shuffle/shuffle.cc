#include "ops/shuffle/shuffle.h"

#include <fmt/format.h>

#include "graph/ir/error.h"
#include "graph/ir/op_model.h"
#include "ops/rules/require.h"

namespace metronome {

std::string Shuffle::attributes() const { return fmt::format("rows={}", rows); }

Types Shuffle::infer(std::span<const Type> in) const {
  if (in[0] != Type{i64, {}}) {
    throw Requirement{fmt::format("a seed of i64[], but {}", to_string(in[0])), "g.seed()"};
  }
  if (in[1].element != i64) {
    throw Requirement{fmt::format("positions of i64, but {}", to_string(in[1])),
                      "cast them: x.cast(mt::i64)"};
  }
  constexpr std::int64_t kMost = std::int64_t{1} << 62;
  if (rows < 1 || rows > kMost) {
    throw Requirement{fmt::format("1 row or more, but {}", rows)};
  }
  return {in[1]};
}

std::vector<Case> Shuffle::cases() {
  std::vector<Case> cases;
  const auto add = [&](std::string name, std::int64_t rows, Shape positions, std::int64_t below) {
    CaseInput at = indices(std::move(positions), below);
    cases.push_back({.name = std::move(name),
                     .op = make_op(Shuffle{rows, 7}),
                     .inputs = {indices({}, 1000), std::move(at)},
                     .gradient = false});
  };
  add("several epochs", 10, {64}, 50);
  add("one row", 1, {3}, 9);
  add("a power of four", 64, {64}, 64);
  add("a batch of many", 60000, {7, 37}, 600000);
  add("one position", 5, {}, 5);
  add("none", 5, {0}, 5);
  return cases;
}

}  // namespace metronome
