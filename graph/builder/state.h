// What a Graph holds. Internal to graph/.
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

#include "graph/builder/graph.h"
#include "graph/control/consequences.h"
#include "graph/ir/identity.h"

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

struct GraphState {
  explicit GraphState(std::string graph_name) : name(graph_name), identity(this, graph_name) {}

  std::string name;
  OpenIdentity identity;
  std::vector<Node> nodes;
  std::vector<Storage> storages;
  std::map<std::string, StorageId, std::less<>> storage_by_path;
  std::map<StorageId, ValueId> read_nodes;      ///< the one Read of each storage
  std::map<StorageId, ValueId> current_buffer;  ///< what the last `assign` of the step left
  std::vector<Assignment> assignments;
  std::vector<Readable> readables;
  std::vector<ParameterGradient> parameter_gradients;
  ValueId loss;
  Line loss_line;
  std::optional<Optimizer> optimizer;
  std::vector<std::string> mistakes;

  std::vector<Scope> scopes = std::vector<Scope>(1);
  ValueId guard;                       ///< what new nodes run under
  control::Consequences consequences;  ///< of the nodes' guards, as far as they were asked for
  /// Of a loop's result: the iterations that always run, and the guards of the others.
  struct Iterations {
    int always = 0;
    std::vector<ValueId> guards;
  };
  std::map<ValueId, Iterations> iterations;
  /// What verbs left with their results (`keep_note`).
  std::map<std::pair<ValueId, std::type_index>, std::any> notes;
  int line_scopes = 0;
  Line line;  ///< what LineScope set

  Line effective(Line given) const { return line_scopes > 0 ? line : given; }
};

/// "a/b"; "b" where a is empty.
std::string join_path(const std::string& a, std::string_view b);

/// What a storage's path misses, which must not be one of Metronome's own: moments lie under
/// "optimizer/", counters at the top, and a checkpoint's file keeps one name for its metadata.
std::optional<Requirement> wrong_path(const std::string& path);

/// A name for a new sibling: "linear", then "linear_1", ...
std::string unique_name(Scope& scope, std::string_view name);

/// While it lives, nodes that a pass makes lie under `path`, carry `line` and run under `guard`.
class PassScope {
 public:
  PassScope(Graph& graph, std::string path, Line line, ValueId guard = {});
  ~PassScope();
  PassScope(const PassScope&) = delete;
  PassScope& operator=(const PassScope&) = delete;

 private:
  GraphState& state_;
  Line line_;
  int line_scopes_;
  ValueId guard_;
};

}  // namespace metronome
