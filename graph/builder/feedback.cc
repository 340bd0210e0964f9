// States, which one step leaves for the next, and back-propagation through several steps.
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

/// Excuses states that a mistake keeps from being fed: no second mistake says that they are not
/// fed.
void excuse(const Values& states) {
  for (const Value& state : states) {
    if (const auto id = read_by(state)) state.emitter()->excused.insert(*id);
  }
}

/// Returns the requirement for a state of this graph that may be fed, if `value` does not meet it.
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
  if (state.poisoned() || next.poisoned()) return excuse({state});
  const auto refuse = [&](const Requirement& requirement) {
    mistake(&emitter, line, "feed cannot take the value back", {{state, next}}, requirement);
    excuse({state});
  };
  if (const auto wrong = wrong_state(emitter, state)) return refuse(*wrong);
  if (next.emitter(line) != &emitter)
    return refuse({"a value of this graph as the second operand"});
  if (!always_computed(next)) return refuse(needs_always(next));
  if (const auto wrong = unless_forward(next)) return refuse(*wrong);
  if (next.type() != state.type()) {
    return refuse({fmt::format("the state's type {}, but {}", to_string(state.type()),
                               to_string(next.type()))});
  }
  emitter.graph.assign(*read_by(state), next.id(), emitter.effective_line(line));
}

namespace {

/// The requirement that is missed if `states` holds one state twice.
std::optional<Requirement> wrong_twice(const Values& states) {
  for (std::size_t i = 0; i < states.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      if (states[i].id() != states[j].id()) continue;
      return Requirement{fmt::format("each state once, but states {} and {} are one", j, i)};
    }
  }
  return std::nullopt;
}

/// Returns the requirement that one step's results do not meet, if any: a next state for each
/// carried one, and an output.
std::optional<Requirement> wrong_step(const Emitter* emitter, std::size_t states,
                                      const UnrolledStates& made, int step) {
  if (made.states.size() != states) {
    return Requirement{fmt::format("as many next states as the {} that the body takes, but {}",
                                   states, made.states.size())};
  }
  const auto wrong = [&](const Value& v) { return wrong_result(emitter, v, "body").has_value(); };
  if (!wrong(made.output) && std::ranges::none_of(made.states, wrong)) return std::nullopt;
  return Requirement{
      fmt::format("{} and an output, of this graph, at each step, but step {} misses one",
                  states == 1 ? "a next state" : "next states", step),
      states == 1 ? "where the state is all there is, give it twice: {next, next}" : ""};
}

}  // namespace

Values Graph::unroll(std::int64_t k, Value state,
                     const std::function<Unrolled(Value state, int step)>& body, Line line) {
  std::function<UnrolledStates(const Values&, int)> of_list;
  if (body != nullptr) {
    of_list = [&body](const Values& states, int step) {
      const auto [next, output] = body(states[0], step);
      return UnrolledStates{{next}, output};
    };
  }
  return unroll(k, Values{state}, of_list, line);
}

Values Graph::unroll(std::int64_t k, const Values& states,
                     const std::function<UnrolledStates(const Values& states, int step)>& body,
                     Line line) {
  Emitter* const emitter = &this->emitter(line);
  excuse(states);
  const auto poisoned = [&] {
    return Values(static_cast<std::size_t>(std::clamp<std::int64_t>(k, 1, kMostCopies)),
                  Value(emitter, ValueId{}));
  };
  const auto refuse = [&](std::string what, const Values& operands,
                          const Requirement& requirement) {
    mistake(emitter, line, std::move(what), operands, requirement);
    return poisoned();
  };
  if (std::ranges::any_of(states, &Value::poisoned)) return poisoned();
  if (k < 1 || k > kMostCopies) {
    return refuse(fmt::format("unroll cannot run {} steps", k), states,
                  {k < 1 ? fmt::format("1 step or more, but {}", k)
                         : fmt::format("{} steps or fewer, but {}", kMostCopies, k)});
  }
  if (body == nullptr) {
    return refuse("unroll cannot call its body", states,
                  {"a body that can be called, but it is a null pointer or an empty "
                   "std::function"});
  }
  if (states.empty()) return refuse("unroll cannot begin", {}, {"1 state or more, but none"});
  for (const Value& state : states) {
    if (const auto wrong = wrong_state(*emitter, state)) {
      return refuse("unroll cannot begin at the value", {state}, *wrong);
    }
  }
  if (const auto wrong = wrong_twice(states)) return refuse("unroll cannot begin", states, *wrong);
  const PathScope verb(emitter, "unroll", PathScope::Kind::verb);
  Values carried = states, outputs;
  for (int step = 0; step < k; ++step) {
    const PathScope copy(emitter, step, true);
    const UnrolledStates made = body(carried, step);
    Values results = made.states;
    results.push_back(made.output);
    if (const auto wrong = wrong_step(emitter, states.size(), made, step)) {
      Values operands = carried;
      operands.insert(operands.end(), results.begin(), results.end());
      return refuse("unroll cannot take what its body gives", operands, *wrong);
    }
    if (std::ranges::any_of(results, &Value::poisoned)) return poisoned();
    for (std::size_t i = 0; i < states.size(); ++i) {
      const Value &before = carried[i], &next = made.states[i];
      if (next.type() == before.type()) continue;
      return refuse("unroll cannot carry its body's state on", {before, next},
                    {fmt::format("a body that keeps the state's type, but {} becomes {}",
                                 to_string(before.type()), to_string(next.type()))});
    }
    carried = made.states;
    outputs.push_back(made.output);
  }
  for (std::size_t i = 0; i < states.size(); ++i) feed(states[i], carried[i], line);
  return outputs;
}

}  // namespace metronome
