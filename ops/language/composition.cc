// The verbs of a Value that join streams: they make ops, so they are defined here.
#include <fmt/format.h>

#include "graph/emit/emitter.h"
#include "graph/emit/scope.h"
#include "graph/ir/value.h"
#include "ops/expr/functions.h"

namespace metronome {
namespace {

Value joined(const Value& skip, const Value& main, Line line) {
  LineScope scope(skip.emitter(), line);
  return skip + main;
}

}  // namespace

Value Value::also(const Layer& layer, Line line) const {
  if (!usable(line)) return *this;
  const Value made = layer(*this, line);
  return made.poisoned() ? made : joined(*this, made, line);
}

Value Value::also(const Layer& main, const Layer& skip, Line line) const {
  if (!usable(line)) return *this;
  const Value through_main = main(*this, line);
  return joined(skip(*this, line), through_main, line);
}

Value iterations(Value result, Line line) {
  if (!result.usable(line)) return result;
  Emitter* graph = result.emitter();
  const auto found = graph->iterations.find(result.id());
  if (found == graph->iterations.end()) {
    return mistake(graph, line, "iterations cannot be counted", {{result}},
                   {"what loop(...).until or .while_true gave"});
  }
  LineScope scope(graph, line);
  const auto [always, guards] = found->second;
  Value count = make_constant(graph, always, Type{i32, {}}, line);
  for (const ValueId guard : guards) count = count + Value(graph, guard).cast(i32);
  return count;
}

Layer residual(Layer layer) {
  const bool is_rowwise = layer.is_rowwise();
  Layer sum = [layer = std::move(layer)](Value x, Line line) { return x.also(layer, line); };
  return is_rowwise ? rowwise(std::move(sum)) : sum;
}

Value Value::gate(const Layer& router, const Layers& experts, Line line) const {
  if (!usable(line)) return *this;
  PathScope verb(emitter(), "gate", PathScope::Kind::verb);
  Value weights;
  {
    PathScope scope(emitter(), "router", PathScope::Kind::user);
    weights = router(*this, line);
  }
  if (weights.poisoned()) return weights;
  const std::int64_t count = weights.size(-1);
  const auto refuse = [&](const Requirement& requirement) {
    return mistake(emitter(), line, "gate cannot weigh its experts", {{*this, weights}},
                   requirement);
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
  const Values columns = chunk(weights, count, -1, line);
  if (columns[0].poisoned()) return columns[0];
  Value sum;
  for (int i = 0; i < count; ++i) {
    PathScope scope(emitter(), i, false);
    const Value result = experts.at(i).at(*this, i, line);
    // The other experts of a factory would tell its mistake again.
    if (experts.from_factory() && result.poisoned()) return result;
    LineScope ours(emitter(), line);
    const Value weighted = result * columns[i];
    sum = sum.present() ? sum + weighted : weighted;
  }
  return sum;
}

}  // namespace metronome
