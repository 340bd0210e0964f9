#include "ops/language/composed.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "graph/emit/emitter.h"
#include "graph/emit/scope.h"
#include "graph/ir/error.h"
#include "graph/ir/structural.h"
#include "ops/expr/functions.h"
#include "ops/rules/require.h"

namespace metronome {
namespace {

void require_one_graph(std::span<const Value> operands, const Emitter* graph) {
  for (const Value& v : operands) {
    if (!v.present()) {
      throw Requirement{"every operand, but one is absent (a default-made Value)"};
    }
    if (v.emitter() == graph) continue;
    throw Requirement{fmt::format("operands of one graph, but of \"{}\" and \"{}\"",
                                  graph->graph.name(), v.emitter()->graph.name())};
  }
}

}  // namespace

Value compose(std::string_view name, std::initializer_list<Value> operands, Line line,
              const std::function<void()>& check, const std::function<Value()>& build) {
  Emitter* graph = nullptr;
  for (const Value& v : operands) {
    Emitter* const own = v.emitter(line);
    if (graph == nullptr) graph = own;
  }
  if (graph == nullptr) refuse_without_graph(name, line);
  for (const Value& v : operands) {
    if (v.poisoned() && v.emitter() == graph) return v;
  }
  const LineScope line_scope(graph, line);
  try {
    require_one_graph(operands, graph);
    check();
  } catch (const Requirement& requirement) {
    return mistake(graph, line, fmt::format("{} cannot be computed", name), operands, requirement);
  }
  const PathScope path(graph, name, PathScope::Kind::layer);
  return build();
}

void require_alike(std::initializer_list<Value> operands) {
  std::vector<Type> types;
  for (const Value& v : operands) types.push_back(v.type());
  require_equal_elements(types);
  require_floating(types[0]);
  for (const Type& type : types) require_equal_shapes(types[0], type, "x");
}

void require_axis(const Value& x, std::int64_t axis) {
  if (axis >= -x.rank() && axis < x.rank()) return;
  throw Requirement{
      x.rank() == 0 ? fmt::format("an operand of one or more dimensions, but a scalar")
                    : fmt::format("an axis from {} to {}, but {}", -x.rank(), x.rank() - 1, axis)};
}

Value above_0(Value x) { return where(x < 0.0, 0.0, x); }

Value at_least(Value x, double least) {
  return where(x < least, (x - stop_gradient(x)) + least, x);
}

}  // namespace metronome
