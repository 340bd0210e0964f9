// For authors of layers: paths, source lines, and adding nodes.
#pragma once

#include <any>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <typeindex>

#include "graph/ir/init.h"
#include "graph/ir/line.h"
#include "graph/ir/op_model.h"
#include "graph/ir/value.h"

namespace metronome {

/// While it lives, `line` is the line of every node and mistake made in the graph, whatever lines
/// the calls inside capture: a message never points into Metronome. The outermost one counts.
class LineScope {
 public:
  LineScope(Emitter* emitter, Line line);
  ~LineScope();
  LineScope(const LineScope&) = delete;
  LineScope& operator=(const LineScope&) = delete;

 private:
  Emitter* emitter_;
  bool outermost_ = false;
};

/// While it lives, nodes and storages are made under a longer path. Siblings of one name are
/// `linear`, `linear_1`, ... in order. The scope of a layer gives its own path to the first node
/// whose op has the layer's name: linear's value is "tower/0/linear", its weight
/// "tower/0/linear/weight".
class PathScope {
 public:
  enum class Kind { user, verb, layer };
  /// A named scope, a verb, or a library layer.
  PathScope(Emitter* emitter, std::string_view name, Kind kind);
  /// Copy `index` of the verb's scope that is open now: its own path for nodes, and for storages
  /// too unless `share_storage`, in which case the storages of copy 0 are found again.
  PathScope(Emitter* emitter, int index, bool share_storage);
  /// The place of a shared layer: nodes lie at the current path, storages at `storage_path`, and
  /// those that exist are found again.
  PathScope(Emitter* emitter, const std::string& storage_path);
  ~PathScope();
  PathScope(const PathScope&) = delete;
  PathScope& operator=(const PathScope&) = delete;

 private:
  Emitter* emitter_;
};

/// While it lives, nodes run under `guard`, a value of `make_guard`: a step in which it is false
/// skips them, and their values are not for others to read.
class GuardScope {
 public:
  GuardScope(Emitter* emitter, Value guard);
  /// Ends the region; buffers assigned in it keep what they held if it did not run.
  void close(Line line);
  ~GuardScope();
  GuardScope(const GuardScope&) = delete;
  GuardScope& operator=(const GuardScope&) = delete;

 private:
  Emitter* emitter_;
  ValueId outer_;
  std::map<StorageId, ValueId> before_;  // what buffers held when it began
};

/// The most copies that a verb may unroll: copies are nodes, and a graph holds some millions of
/// them.
inline constexpr std::int64_t kMostCopies = 1'000'000;

/// A user's function (`what`: "layer", "body") returned `result`. Returns why that is no value of
/// the graph, or nothing if it is one.
std::optional<Requirement> wrong_result(const Emitter* emitter, const Value& result,
                                        std::string_view what);

/// True if the decider's outcome is `when`, one of `cases`, and `parent`, if given, is true.
Value make_guard(Value decider, std::int64_t when, std::int64_t cases, Value parent, Line line);
/// True if `value` is computed in every step.
bool always_computed(const Value& value);
/// The requirement for the message on a value that must always be computed, and is not.
Requirement needs_always(const Value& value);
/// Returns the requirement that a value made of gradients or of the update does not meet: it cannot
/// be minimised, decide, or be left for the next step. Nothing for other values.
std::optional<Requirement> unless_forward(const Value& value);

/// A parameter, state or buffer of a layer under construction, at the current path; type errors as
/// in Graph::parameter.
Value make_parameter(Emitter* emitter, std::string name, Type type, Init init, Line line);
Value make_state(Emitter* emitter, std::string name, Type type, Init init, Line line);
Buffer make_buffer(Emitter* emitter, std::string name, Type type, Init init, Line line);
void assign(Emitter* emitter, const Buffer& buffer, Value next, Line line);
/// A value whose every element is the same number.
Value make_constant(Emitter* emitter, double number, Type type, Line line);
/// Row-major numbers as a value.
Value make_constant(Emitter* emitter, const std::vector<double>& numbers, Type type, Line line);
/// Reads of the counters that random ops take as their first operands.
Value read_seed(Emitter* emitter);
Value read_replay(Emitter* emitter);

/// Adds one node. Outputs: visible and saved ones. If an operand is poisoned, of another graph
/// or does not meet the op's shape rule, the mistake is recorded, and the result is `outputs`
/// poisoned values.
Values apply(OpPtr op, std::span<const Value> inputs, Line line, std::size_t outputs = 1);
/// Adds one node and returns its first output.
template <OpRules T>
Value apply(T op, std::initializer_list<Value> inputs, Line line) {
  return apply(make_op(std::move(op)), std::span(inputs.begin(), inputs.size()), line)[0];
}
/// Adds one node of `outputs` outputs and returns all of them.
template <OpRules T>
Values apply_all(T op, std::initializer_list<Value> inputs, std::size_t outputs, Line line) {
  return apply(make_op(std::move(op)), std::span(inputs.begin(), inputs.size()), line, outputs);
}

/// Throws GraphError: "<line>: <name> has no operand that belongs to a graph".
[[noreturn]] void refuse_without_graph(std::string_view name, Line line);

/// Records a mistake of the user: `what` ("repeat cannot run -1 times"), operands, requirement.
/// Returns a poisoned value of the graph.
Value mistake(Emitter* emitter, Line line, std::string what, std::span<const Value> operands,
              const Requirement& requirement);

/// Leaves a note with a verb's result, a struct of the verb's own, for functions that are asked of
/// that result later ("how many rows found no slot?"). A result has one note of each type. Passes
/// do not see it.
void keep_note(const Value& result, std::any note);
/// The note of that type; null if nobody left one.
const std::any* find_note(const Value& result, std::type_index type);
template <class Note>
const Note* note_of(const Value& result) {
  return std::any_cast<Note>(find_note(result, typeid(Note)));
}

/// Current scope's path for the error "cannot join the graph as".
std::string current_path(Emitter* emitter);

}  // namespace metronome
