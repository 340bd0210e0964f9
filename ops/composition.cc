// The verbs of a Value that join streams: they make ops, so they are defined here.
#include <fmt/format.h>

#include "graph/scope.h"
#include "graph/value.h"
#include "ops/functions.h"

namespace metronome {
namespace {

Value joined(const Value& skip, const Value& main, Line line) {
  LineScope scope(skip.graph(), line);
  return skip + main;
}

}  // namespace

Value Value::also(const Layer& layer, Line line) const {
  if (!*this || poisoned()) return *this;
  return joined(*this, layer(*this, line), line);
}

Value Value::also(const Layer& main, const Layer& skip, Line line) const {
  if (!*this || poisoned()) return *this;
  const Value through_main = main(*this, line);
  return joined(skip(*this, line), through_main, line);
}

Layer residual(Layer layer) {
  return [layer = std::move(layer)](Value x, Line line) { return x.also(layer, line); };
}

Value Value::gate(const Layer& router, const Layers& experts, Line line) const {
  if (!*this || poisoned()) return *this;
  PathScope verb(graph(), "gate", PathScope::Kind::verb);
  Value weights;
  {
    PathScope scope(graph(), "router", PathScope::Kind::user);
    weights = router(*this, line);
  }
  if (!weights || weights.poisoned()) return weights;
  const std::int64_t count = weights.size(-1);
  const auto refuse = [&](const Requirement& requirement) {
    return mistake(graph(), line, "gate cannot weigh its experts", {{*this, weights}}, requirement);
  };
  if (weights.rank() != rank() || rank() < 1 ||
      !std::equal(shape().begin(), shape().end() - 1, weights.shape().begin())) {
    return refuse(
        {fmt::format("one weight per row and expert: a router from {} to [..., experts], "
                     "but it gives {}",
                     to_string(shape()), to_string(weights.shape()))});
  }
  if (experts.count() >= 0 && experts.count() != count) {
    return refuse({fmt::format("as many experts as the router has columns, but {} and {}",
                               experts.count(), count)});
  }
  Value sum;
  for (int i = 0; i < count; ++i) {
    PathScope scope(graph(), i, false);
    const Value result = experts.at(i).at(*this, i, line);
    LineScope ours(graph(), line);
    const Value weighted = result * weights.slice(-1, i, i + 1);
    sum = sum ? sum + weighted : weighted;
  }
  return sum;
}

}  // namespace metronome
