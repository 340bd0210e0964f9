#include "graph/ir/value.h"

#include <fmt/format.h>

#include "graph/emit/emitter.h"
#include "graph/emit/scope.h"
#include "graph/ir/error.h"
#include "graph/ir/structural.h"
#include "graph/rules/gradient.h"

namespace metronome {

Value::Value(Emitter* emitter, ValueId id)
    : identity_(emitter != nullptr ? emitter->identity.shared() : nullptr), id_(id) {}

void Value::refuse_closed(Line line) const {
  throw GraphError({fmt::format(
      "{}a value of graph \"{}\" is used, but that graph was destroyed\n"
      "  requires   a graph that lives as long as it is declared\n"
      "  way out    keep the Graph beside its values; without it they serve executables alone, to "
      "feed and to read",
      line.known() ? to_string(line) + ": " : "", identity_->name)});
}

const Type& Value::type() const {
  static const Type kPoisoned{f32, {}};
  return usable({}) ? node().types[id_.output] : kPoisoned;
}

std::int64_t Value::size(std::int64_t axis) const {
  const std::int64_t n = rank();
  if (axis < 0) axis += n;
  return axis >= 0 && axis < n ? shape()[axis] : 1;
}

const Node& Value::node() const {
  if (!usable({})) throw InternalError("a poisoned value has no node");
  return emitter()->graph.nodes()[id_.node];
}

const Value& Vjp::in(std::size_t i) const { return inputs[i]; }
const Value& Vjp::out(std::size_t i) const { return outputs[i]; }
const Value& Vjp::grad(std::size_t i) const { return gradients[i]; }

Value stop_gradient(Value x, Line line) { return apply(StopGradient{}, {x}, line); }

}  // namespace metronome
