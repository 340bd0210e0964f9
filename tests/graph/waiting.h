// Nodes that wait for others which they do not read, for tests of waits.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "graph/builder/graph.h"
#include "graph/ir/structural.h"
#include "graph/rules/fusion.h"
#include "tests/graph/after.h"
#include "tests/graph/test_ops.h"

namespace metronome::testing {

/// x, to every pass that has a rule for it: 2 x + x when lowered, evaluated or loosened; x when
/// folded; many at once in a batch or a group; and it takes in a sum.
struct Any {
  static constexpr std::string_view name = "any";
  static constexpr bool differentiable = false;
  static constexpr bool batches = true;
  bool adds = false;
  bool operator==(const Any&) const = default;
  std::string attributes() const { return adds ? "adds" : ""; }
  Types infer(std::span<const Type> in) const { return {in[0]}; }
  Values lower(std::span<const Value> in) const { return {plus(scale(in[0], 2), in[0])}; }
  Values evaluate(std::span<const Value> in) const { return lower(in); }
  Value loosen(std::span<const Value> in) const { return lower(in)[0]; }
  Value fold(std::span<const Value> in) const { return in[0]; }
  std::optional<Fusion> fusion(std::span<const Type>) const { return Fusion{}; }
  OpPtr absorb(const Op& consumer, std::size_t) const {
    return adds || consumer.as<Accumulate>() == nullptr ? nullptr : make_op(Any{true});
  }
};

/// Output 0 of a new node that waits for those that made `others`.
template <OpRules T>
Value waiting(Graph& graph, std::string path, T op, std::vector<Value> inputs,
              std::vector<Value> others) {
  return node(graph, std::move(path), std::move(op), std::move(inputs), {}, std::move(others));
}

// x - early - y0       each waits for the one before
//   - any --- y1
//   - late -- y2
struct Three {
  explicit Three(const Any& op = {}) {
    early = node(g, "early", Scale{3}, {x});
    any = waiting(g, "any", op, {x}, {early});
    late = waiting(g, "late", Scale{4}, {x}, {any});
    g.output("y0", early);
    g.output("y1", any);
    g.output("y2", late);
  }
  std::string after(Pass pass, const Settings& settings = {}) const {
    return testing::after(pass, g, settings);
  }

  Graph g{"g"};
  Value x = g.input("x", f32, {4});
  Value early, any, late;
};

}  // namespace metronome::testing
