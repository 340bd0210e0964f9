// The losses that training minimises, and what a step makes of them.
//
//   minimize          an objective over the parameters that it names, and the readable "loss" or
//                     "loss/<name>"
//   gradient          a stand-in node, which `differentiate` gives its operand, and a readable
//   learning_rate...  a stand-in node, which `update` replaces, and a readable
//
// A parameter that is read behind the `minimize` that trains it is the updated one (ReadUpdated); a
// value made before stays old. A loss is declared before its `minimize`, so it reads what earlier
// objectives update, and never its own. mistakes_of_objectives.cc has what only a whole declaration
// shows.
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "graph/builder/declaration.h"
#include "graph/builder/find_parameters.h"
#include "graph/emit/scope.h"
#include "graph/ir/error.h"
#include "graph/ir/structural.h"

namespace metronome {
namespace {

std::optional<Requirement> wrong_loss(const Value& loss, Emitter* emitter, Line line) {
  if (!loss.present() || loss.emitter(line) != emitter) return Requirement{"a value of this graph"};
  if (!always_computed(loss)) return needs_always(loss);
  if (auto wrong = unless_forward(loss)) return wrong;
  if (is_floating(loss.element()) && !is_half(loss.element()) && loss.rank() == 0) return {};
  return Requirement{
      fmt::format("a floating scalar f32[] or f64[], but {}", to_string(loss.type())),
      "reduce it with mt::mean or mt::sum"};
}

std::optional<Requirement> wrong_name(const ir::Graph& graph, const std::string& name,
                                      const std::string& readable) {
  if (name.find('/') != name.npos) {
    return Requirement{fmt::format("a name without '/', but \"{}\"", name)};
  }
  for (const ir::MinimizedLoss& other : graph.objectives()) {
    if (other.name != name) continue;
    return Requirement{
        fmt::format("a name of its own for each objective, but {} was given at {}",
                    name.empty() ? "one without a name" : fmt::format("\"{}\"", name),
                    to_string(other.line)),
        "give it one, and the parameters that it trains: {.name = \"critic\", .parameters = "
        "{\"critic\"}}; or minimize the sum of the losses"};
  }
  for (const Readable& r : graph.readables()) {
    if (r.name != readable) continue;
    return Requirement{
        fmt::format("the name \"{}\" for what is minimised, but it names another value", readable)};
  }
  return std::nullopt;
}

std::string readable_of(std::string_view what, std::string_view name) {
  return name.empty() ? std::string(what) : fmt::format("{}/{}", what, name);
}

/// Returns the stand-in for a number of the update, which is made when first asked for.
Value of_update(Emitter& emitter, OfUpdate op, const std::string& name, const Line& line) {
  for (const Readable& r : emitter.graph.readables()) {
    if (r.name != name) continue;
    const Value known(&emitter, r.declared);
    const auto* same = known.node().op->as<OfUpdate>();
    const bool is_same = same != nullptr && same->number == op.number &&
                         objective_of(*known.node().op) == std::max(op.objective, 0);
    if (is_same) return known;
    return mistake(&emitter, line, fmt::format("{} cannot be kept", name), {{known}},
                   {"a name of its own, but it names another value already"});
  }
  const Value value = emitter.source(make_op(op), name, line);
  emitter.graph.append_readable({name, value.id(), value.id()});
  return value;
}

Value gradient_of(Emitter& emitter, const Value& value, const GradientOf& op, const std::string& by,
                  Line line) {
  if (value.poisoned()) return value;
  const auto refuse = [&](const Requirement& requirement) {
    return mistake(&emitter, line, "gradient cannot be kept", {{value}}, requirement);
  };
  if (!value.present() || value.emitter(line) != &emitter) return refuse({"a value of this graph"});
  if (const auto* updated = value.node().op->as<ReadUpdated>()) {
    // The objective that trains a parameter has its gradient at the old value, wherever it is read.
    const std::int32_t objective = std::max(op.objective, 0);
    if (emitter.graph.storage(updated->storage).objective == objective) {
      return gradient_of(emitter, emitter.read(updated->storage), op, by, line);
    }
  }
  if (!is_floating(value.element())) {
    return refuse({fmt::format("a floating value of this graph, but {}", to_string(value.type()))});
  }
  if (!always_computed(value)) return refuse(needs_always(value));
  const Value result = metronome::apply(op, {value}, line);
  if (!result.poisoned()) {
    emitter.graph.append_readable(
        {fmt::format("gradient{} of {}", by.empty() ? "" : fmt::format("/{}", by),
                     value.node().path),
         result.id(), result.id()});
  }
  return result;
}

}  // namespace

namespace {

std::optional<Requirement> wrong_weight(const ObjectiveOptions& options, Emitter* emitter,
                                        Line line) {
  const Value& weight = options.weight;
  if (!weight.present() || weight.poisoned()) return std::nullopt;
  if (weight.emitter(line) != emitter) return Requirement{"a weight of this graph"};
  if (options.accumulate == 1) {
    return Requirement{"an accumulate above 1, where replays have weights, but 1",
                       "leave the weight out: one replay is its own mean"};
  }
  if (weight.type() != Type{f32, {}} && weight.type() != Type{f64, {}}) {
    return Requirement{fmt::format("a weight f32[] or f64[], but {}", to_string(weight.type())),
                       "cast it, or sum it: .weight = mt::sum(counts).cast(mt::f32)"};
  }
  if (!always_computed(weight)) return needs_always(weight);
  return unless_forward(weight);
}

std::optional<Requirement> wrong_pace(const ObjectiveOptions& options, Emitter* emitter,
                                      Line line) {
  if (options.every < 1) {
    return Requirement{fmt::format("an every of 1 or more, but {}", options.every)};
  }
  if (options.accumulate < 1) {
    return Requirement{fmt::format("an accumulate of 1 or more, but {}", options.accumulate)};
  }
  if (options.every > 1 && options.accumulate > 1) {
    return Requirement{fmt::format("an every or an accumulate above 1, but both are, {} and {}",
                                   options.every, options.accumulate)};
  }
  if (auto wrong = wrong_weight(options, emitter, line)) return wrong;
  const Value& when = options.when;
  if (!when.present() || when.poisoned()) return std::nullopt;
  if (when.emitter(line) != emitter) return Requirement{"a when of this graph"};
  if (when.type() != Type{bool_, {}}) {
    return Requirement{
        fmt::format("a boolean scalar bool[] for when, but {}", to_string(when.type())),
        "compare a number: .when = mt::mean(x) > 0.5"};
  }
  if (!always_computed(when)) return needs_always(when);
  return unless_forward(when);
}

/// A counter of an objective, which must be new.
StorageId make_counter(ir::Graph& graph, const std::string& path, const Line& line) {
  if (graph.find_storage(path)) {
    throw Requirement{fmt::format(
        "a name that leaves the path \"{}\" to its counter, but a storage has it", path)};
  }
  return graph.append_storage({path, Type{i64, {}}, StorageKind::counter, Init{}, line});
}

}  // namespace

Objective Graph::minimize(Value loss, Optimizer optimizer, ObjectiveOptions options, Line line) {
  Declaration& declaration = this->declaration(line);
  Emitter& to = declaration.emitter;
  const std::size_t index = to.graph.objectives().size();
  const Objective refused(Value(&to, ValueId{}), index, options.name);
  if (loss.poisoned() || options.when.poisoned() || options.weight.poisoned()) return refused;
  const auto refuse = [&](const Requirement& requirement) {
    mistake(&to, line, "minimize cannot take the loss", {{loss}}, requirement);
    return refused;
  };
  const std::string readable = ir::name_of_loss(options.name);
  if (const auto wrong = wrong_loss(loss, &to, line)) return refuse(*wrong);
  if (const auto wrong = wrong_name(to.graph, options.name, readable)) return refuse(*wrong);
  if (const auto wrong = wrong_pace(options, &to, line)) return refuse(*wrong);
  if (const auto wrong = optimizer->mistake()) {
    mistake(&to, line, fmt::format("{} cannot train the graph", optimizer->name()), {}, *wrong);
    return refused;
  }
  if (options.accumulate > 1 && optimizer->lazy()) {
    return refuse(
        {"an optimizer that is not lazy where gradients are accumulated, as their mean is "
         "of all rows of a table",
         "leave out .lazy, or .accumulate"});
  }
  if (options.parameters.empty()) {
    return refuse({"one path of parameters or more in ObjectiveOptions::parameters, but none",
                   "leave the member out, and the objective trains all parameters"});
  }
  const bool all = options.parameters == ObjectiveOptions().parameters;
  const auto is_parameter = [](const Storage& s) { return s.kind == StorageKind::parameter; };
  std::vector<StorageId> own, taken;
  for (const std::string& path : options.parameters) {
    if (all && std::ranges::none_of(to.graph.storages(), is_parameter)) break;
    const std::size_t apart = to.apart;
    const std::vector<StorageId> found =
        find_parameters(to, path, fmt::format("minimize over \"{}\"", path), line);
    if (found.empty()) {
      to.apart = apart;
      return refused;
    }
    for (const StorageId id : found) {
      if (std::ranges::find(own, id) != own.end()) continue;
      const Storage& s = to.graph.storage(id);
      if (s.objective >= 0 && s.trainable) taken.push_back(id);
      own.push_back(id);
    }
  }
  if (!taken.empty()) {
    const ir::MinimizedLoss& other = to.graph.objectives()[to.graph.storage(taken[0]).objective];
    return refuse({fmt::format("parameters that no other objective trains, but {} {} of the one at "
                               "{}",
                               list_paths(to.graph, taken), taken.size() == 1 ? "is" : "are",
                               to_string(other.line)),
                   "name those of each: {.parameters = {\"critic\"}}"});
  }
  StorageId counter = to.graph.counters().update, gathered;
  try {
    const Line where = to.effective_line(line);
    if (!options.name.empty()) {
      counter = make_counter(to.graph, readable_of("update", options.name), where);
    }
    if (options.accumulate > 1) {
      gathered = make_counter(to.graph, readable_of("gathered", options.name), where);
    }
  } catch (const Requirement& requirement) {
    return refuse(requirement);
  }
  for (const StorageId id : own) {
    to.graph.set_objective(id, static_cast<std::int32_t>(index));
  }
  declaration.minimized.push_back(
      {static_cast<std::int32_t>(to.graph.nodes().size()), all, std::move(own)});
  to.graph.append_objective({.loss = loss.id(),
                             .optimizer = std::move(optimizer),
                             .line = to.effective_line(line),
                             .name = options.name,
                             .counter = counter,
                             .every = options.every,
                             .when = options.when.present() ? options.when.id() : ValueId{},
                             .skips_not_finite = options.skip_not_finite,
                             .accumulate = options.accumulate,
                             .gathered = gathered,
                             .weight = options.weight.present() ? options.weight.id() : ValueId{}});
  to.graph.append_readable({readable, loss.id(), loss.id()});
  return {loss, index, std::move(options.name)};
}

Objective Graph::minimize(Value loss, Optimizer optimizer, Line line) {
  return minimize(std::move(loss), std::move(optimizer), ObjectiveOptions(), line);
}

Value Graph::gradient(Value value, Line line) {
  return gradient_of(emitter(line), value, GradientOf{}, "", line);
}

Value Graph::learning_rate(Line line) {
  return of_update(emitter(line), {UpdateNumber::learning_rate}, "learning_rate", line);
}
Value Graph::gradient_norm(Line line) {
  return of_update(emitter(line), {UpdateNumber::gradient_norm}, "gradient_norm", line);
}
Value Graph::clipped_gradient_norm(Line line) {
  return of_update(emitter(line), {UpdateNumber::clipped_gradient_norm}, "clipped_gradient_norm",
                   line);
}

Value Graph::loss() const {
  const std::vector<ir::MinimizedLoss>& objectives = data().objectives();
  return objectives.empty() ? Value() : declaration().emitter.value(objectives[0].loss);
}

Value Objective::gradient(Value value, Line line) const {
  if (!loss_.usable(line)) return loss_;
  return gradient_of(*loss_.emitter(line), value, GradientOf{static_cast<std::int32_t>(index_)},
                     name_, line);
}

namespace {

Value number_of(const Value& loss, std::size_t index, const std::string& name, UpdateNumber number,
                Line line) {
  if (!loss.usable(line)) return loss;
  return of_update(*loss.emitter(line), {number, static_cast<std::int32_t>(index)},
                   readable_of(name_of(number), name), line);
}

}  // namespace

Value Objective::learning_rate(Line line) const {
  return number_of(loss_, index_, name_, UpdateNumber::learning_rate, line);
}
Value Objective::gradient_norm(Line line) const {
  return number_of(loss_, index_, name_, UpdateNumber::gradient_norm, line);
}
Value Objective::clipped_gradient_norm(Line line) const {
  return number_of(loss_, index_, name_, UpdateNumber::clipped_gradient_norm, line);
}
Value Objective::updates(Line line) const {
  if (!loss_.usable(line)) return loss_;
  Emitter& emitter = *loss_.emitter(line);
  return emitter.read(emitter.graph.objectives()[index_].counter);
}

}  // namespace metronome
