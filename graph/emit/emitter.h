// The object at which values point: it holds where, and as what, expressions of them become nodes.
#pragma once

#include <any>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <typeindex>
#include <utility>
#include <vector>

#include "graph/control/regions.h"
#include "graph/ir/graph.h"
#include "graph/ir/ids.h"
#include "graph/ir/structural.h"
#include "graph/ir/value.h"

namespace metronome {

/// One open scope of the builder.
struct Scope {
  std::string nodes;                  ///< path of nodes made here, "" at the top
  std::string storages;               ///< path of storages made here
  std::map<std::string, int> counts;  ///< siblings made so far, by name
  bool reuse = false;                 ///< storages that exist are found again
  bool pass = false;                  ///< a pass works here, not the user
  bool user_named = false;            ///< the first verb inside adds only its indices
  std::string layer;                  ///< the layer whose op may take this scope's own path
};

/// Turns expressions of values into nodes: it holds a graph, and the path, line and guard of the
/// nodes that are made next. A user's graph has one for as long as it is declared, a pass has one
/// of its own on the graph that it makes. The emitter refers to the graph, which must stay where it
/// is.
struct Emitter {
  explicit Emitter(ir::Graph& on) : graph(on), identity(this, on.name()), regions(on.nodes()) {}

  ir::Graph& graph;
  OpenIdentity identity;
  std::map<StorageId, ValueId> current_buffer;  ///< what the last `assign` of the step left
  std::map<StorageId, ValueId> read_updated;    ///< parameters as their objective leaves them
  std::vector<std::string> mistakes;
  /// The number of mistakes that gave no poisoned value: nothing follows from them.
  std::size_t apart = 0;
  /// True if something may be missing because of a mistake.
  bool may_follow() const { return mistakes.size() > apart; }
  /// States that were to be fed with a poisoned value.
  std::set<StorageId> excused;

  std::vector<Scope> scopes = std::vector<Scope>(1);
  ValueId guard;                        ///< what new nodes run under
  std::vector<std::int32_t> waits_for;  ///< what new nodes that have a kernel wait for
  control::Regions regions;             ///< of the nodes' guards
  /// The iterations of a loop's result: how many always run, and the guards of the others.
  struct Iterations {
    int always = 0;
    std::vector<ValueId> guards;
  };
  std::map<ValueId, Iterations> iterations;
  /// Notes that verbs left with their results (`keep_note`).
  std::map<std::pair<ValueId, std::type_index>, std::any> notes;
  /// [node] As `ir::made_by_training`; those behind its end are not.
  std::vector<bool> by_training;
  bool made_by_training(ValueId id) const {
    return static_cast<std::size_t>(id.node) < by_training.size() && by_training[id.node];
  }
  void note_training(ValueId made) {
    by_training.resize(static_cast<std::size_t>(made.node) + 1);
    by_training.back() = true;
  }
  int line_scopes = 0;
  Line line;  ///< what LineScope set

  /// The line of what is made now by a call at line `given`.
  Line effective_line(Line given) const { return intern_line(line_scopes > 0 ? line : given); }
  Value value(ValueId id) { return Value(this, id); }
  /// The storage's old value.
  Value read(StorageId storage) { return value(graph.read(storage)); }
  /// The parameter as an expression made now sees it: its value after the update where an objective
  /// trains it already, else the old one.
  Value read_parameter(StorageId parameter);
  /// A node without operands.
  Value source(OpPtr op, std::string path, Line given) {
    const bool training = stands_for_training(*op);
    const ValueId made = graph.append({.op = std::move(op),
                                       .path = std::move(path),
                                       .line = effective_line(std::move(given)),
                                       .waits_for = waits_for});
    if (training) note_training(made);
    return value(made);
  }
};

/// "a/b"; "b" where a is empty.
std::string join_path(const std::string& a, std::string_view b);

/// Returns the requirement that a storage's path does not meet, if any: it must not be one of
/// Metronome's own. Moments lie under "optimizer/", averages under "average/", counters at the top,
/// and a checkpoint's file keeps one name for its metadata.
std::optional<Requirement> wrong_path(const std::string& path);

/// Returns the requirement that a value's type does not meet, if any.
std::optional<Requirement> wrong_type(const Type& type);

/// A name for a new sibling: "linear", then "linear_1", ...
std::string unique_name(Scope& scope, std::string_view name);

/// While it lives, nodes that a pass makes lie under `path`, carry `line`, run under `guard` and
/// wait for `waits_for`.
class PassScope {
 public:
  PassScope(Emitter& emitter, std::string path, Line line, ValueId guard = {},
            std::vector<std::int32_t> waits_for = {});
  ~PassScope();
  PassScope(const PassScope&) = delete;
  PassScope& operator=(const PassScope&) = delete;

 private:
  Emitter& emitter_;
  Line line_;
  int line_scopes_;
  ValueId guard_;
  std::vector<std::int32_t> waits_for_;
};

}  // namespace metronome
