// How a layer begins: its operands and options are checked together, before it makes anything.
#pragma once

#include <fmt/format.h>

#include <string_view>

#include "graph/emit/scope.h"
#include "graph/ir/error.h"
#include "graph/ir/line.h"
#include "graph/ir/value.h"

namespace metronome {

/// build() if check() throws no Requirement, else a poisoned value and the mistake recorded with
/// all operands. The first operand is the stream; where one is poisoned the result is, too. Throws
/// GraphError where the stream is absent.
template <class Check, class Build>
Value build_checked(std::string_view name, const Values& operands, Line line, const Check& check,
                    const Build& build) {
  const Value& x = operands.front();
  if (!x.present()) refuse_without_graph(name, line);
  Emitter* const graph = x.emitter(line);
  for (const Value& operand : operands) {
    if (operand.poisoned()) return Value(graph, ValueId{});
  }
  const LineScope line_scope(graph, line);
  try {
    for (const Value& operand : operands) {
      if (!operand.present()) throw Requirement{"operands that belong to a graph"};
    }
    check();
  } catch (const Requirement& requirement) {
    return mistake(graph, line, fmt::format("{} cannot be applied", name), operands, requirement);
  }
  return build();
}

}  // namespace metronome
