// What one step leaves for the next: states, and back-propagation through several of their steps.
#include <fmt/format.h>

#include <algorithm>

#include "graph/builder/graph.h"
#include "graph/emit/emitter.h"
#include "graph/emit/scope.h"
#include "graph/ir/guarded.h"
#include "graph/ir/structural.h"

namespace metronome {
namespace {

/// The state that `value` reads, if it does.
std::optional<StorageId> read_by(const Value& value) {
  if (!value.present() || value.poisoned()) return std::nullopt;
  const Read* read = value.node().op->as<Read>();
  return read == nullptr ? std::nullopt : std::optional(read->storage);
}

/// What `value` misses to be a state of this graph that may be fed, if anything.
std::optional<Requirement> wrong_state(const Emitter& emitter, const Value& value) {
  const auto id = read_by(value);
  if (!id || value.emitter() != &emitter || emitter.graph.storage(*id).kind != StorageKind::state) {
    return Requirement{"a state of this graph as the first operand", "make it with Graph::state"};
  }
  for (const Assignment& a : emitter.graph.assignments()) {
    if (a.storage != *id) continue;
    return Requirement{
        fmt::format("one feed for each state, but it was fed at {}", to_string(a.line))};
  }
  return std::nullopt;
}

}  // namespace

void Graph::feed(Value state, Value next, Line line) {
  Emitter& emitter = this->emitter(line);
  if (state.poisoned() || next.poisoned()) return;
  const auto refuse = [&](const Requirement& requirement) {
    mistake(&emitter, line, "feed cannot take the value back", {{state, next}}, requirement);
  };
  if (const auto wrong = wrong_state(emitter, state)) return refuse(*wrong);
  if (next.emitter(line) != &emitter)
    return refuse({"a value of this graph as the second operand"});
  if (!always_computed(next)) return refuse(needs_always(next));
  if (next.type() != state.type()) {
    return refuse({fmt::format("the state's type {}, but {}", to_string(state.type()),
                               to_string(next.type()))});
  }
  emitter.graph.assign(*read_by(state), next.id(), emitter.effective(line));
}

Values Graph::unroll(std::int64_t k, Value state,
                     const std::function<Unrolled(Value state, int step)>& body, Line line) {
  Emitter* const emitter = &this->emitter(line);
  const auto poisoned = [&] {
    return Values(static_cast<std::size_t>(std::clamp<std::int64_t>(k, 1, kMostCopies)),
                  Value(emitter, ValueId{}));
  };
  const auto refuse = [&](std::string what, std::initializer_list<Value> operands,
                          const Requirement& requirement) {
    mistake(emitter, line, std::move(what), std::span(operands.begin(), operands.size()),
            requirement);
    return poisoned();
  };
  if (state.poisoned()) return poisoned();
  if (k < 1 || k > kMostCopies) {
    return refuse(fmt::format("unroll cannot run {} steps", k), {state},
                  {k < 1 ? fmt::format("1 step or more, but {}", k)
                         : fmt::format("{} steps or fewer, but {}", kMostCopies, k)});
  }
  if (body == nullptr) {
    return refuse("unroll cannot call its body", {state},
                  {"a body that can be called, but it is a null pointer or an empty "
                   "std::function"});
  }
  if (const auto wrong = wrong_state(*emitter, state)) {
    return refuse("unroll cannot begin at the value", {state}, *wrong);
  }
  const PathScope verb(emitter, "unroll", PathScope::Kind::verb);
  Value carried = state;
  Values outputs;
  for (int step = 0; step < k; ++step) {
    const PathScope copy(emitter, step, true);
    const auto [next, output] = body(carried, step);
    const bool wrong = wrong_result(emitter, next, "body") || wrong_result(emitter, output, "body");
    if (!wrong && (next.poisoned() || output.poisoned())) return poisoned();
    if (wrong) {
      return refuse("unroll cannot take what its body gives", {carried, next, output},
                    {fmt::format("a next state and an output, of this graph, at each step, but "
                                 "step {} misses one",
                                 step),
                     "where the state is all there is, give it twice: {next, next}"});
    }
    if (next.type() != carried.type()) {
      return refuse("unroll cannot carry its body's state on", {carried, next},
                    {fmt::format("a body that keeps the state's type, but {} becomes {}",
                                 to_string(carried.type()), to_string(next.type()))});
    }
    carried = next;
    outputs.push_back(output);
  }
  feed(state, carried, line);
  return outputs;
}

}  // namespace metronome
