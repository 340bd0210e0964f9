// What gradients read is computed once more, late: the printed graph after the pass.
#include "graph/passes/training/recompute.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "graph/check/verify.h"
#include "graph/passes/fold.h"
#include "graph/passes/prune.h"
#include "graph/passes/share.h"
#include "graph/passes/training/differentiate.h"
#include "tests/graph/planned.h"

namespace metronome {
namespace {

using namespace testing;

/// x y. Its gradient reads both.
struct Times {
  static constexpr std::string_view name = "times";
  bool operator==(const Times&) const = default;
  Types infer(std::span<const Type> in) const { return {in[0]}; }
  Values vjp(const Vjp& v) const {
    return {metronome::apply(Times{}, {v.grad(), v.in(1)}, {}),
            metronome::apply(Times{}, {v.grad(), v.in(0)}, {})};
  }
};

/// x and noise of a key of its own, which is x's gradient's too; and a saved value, which the
/// gradient reads.
struct Noise {
  static constexpr std::string_view name = "noise";
  static constexpr int saved = 1;
  std::uint64_t key = 0;
  bool operator==(const Noise&) const = default;
  Types infer(std::span<const Type> in) const { return {in[0], in[0]}; }
  Values vjp(const Vjp& v) const { return {metronome::apply(Times{}, {v.grad(), v.out(1)}, {})}; }
};

Value times(Value x, Value y) { return apply(Times{}, {x, y}, Line::here()); }
Value noise(Value x) { return apply(make_op(Noise{}), {&x, 1}, Line::here(), 2)[0]; }

// x - block: w x - noise - squared - loss
Graph model() {
  Graph g("g");
  const Type type{f32, {}};
  const Value x = g.input("x", f32, {});
  const Value y = x.scope("block", [&](Value h) {
    const Value made = noise(times(h, g.parameter("w", type, {})));
    return times(made, made);
  });
  g.minimize(scale(y, 2), Descent{});
  return g;
}

Settings recomputing(std::vector<std::string> paths) {
  Settings settings;
  settings.recomputed = std::move(paths);
  return settings;
}

ir::Graph after(const ir::Graph& g, const std::vector<std::string>& paths) {
  const ir::Graph result = passes::recompute(passes::differentiate(g, {}), recomputing(paths));
  check::verify(result, "recompute");
  return result;
}

TEST_CASE("gradients read clones, which wait for the gradients that come first") {
  const ir::Graph result = after(model(), {"block"});
  CHECK(result.print() == "?");
}

TEST_CASE("share and fold leave clones alone") {
  const ir::Graph result = after(model(), {"block"});
  const Settings settings;
  CHECK(passes::prune(passes::share(passes::fold(result, settings), settings), settings).print() ==
        "?");
}

TEST_CASE("without a path, or with one of nothing, or to evaluate: the same graph") {
  const ir::Graph g = passes::differentiate(model(), {});
  CHECK(passes::recompute(g, {}).print() == g.print());
  Settings settings = recomputing({"block"});
  settings.mode = Mode::evaluate;
  CHECK(passes::recompute(g, settings).print() == g.print());
  CHECK(after(model(), {"bloc", "block/nothing"}).print() == passes::prune(g, {}).print());
}

}  // namespace
}  // namespace metronome
