// A graph as passes, the planner and executors see it: nodes, storages, what is read and assigned.
// Plain data. Nodes are only appended, and none is changed; setters change the rest, as paths of
// storages and assignments.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/ir/node.h"
#include "graph/ir/optimizer.h"
#include "graph/rules/alias.h"
#include "graph/rules/inside.h"

namespace metronome::ir {

/// A loss that a training step minimises, and the optimizer that does it for the parameters whose
/// `Storage::objective` it is.
struct MinimizedLoss {
  ValueId loss;  ///< a floating scalar
  Optimizer optimizer;
  Line line;                      ///< where it was asked for
  std::string name = {};          ///< "critic"; empty for the only one of most graphs
  StorageId counter = {};         ///< the updates that it made
  std::int64_t every = 1;         ///< it trains in the replays that this divides
  ValueId when = {};              ///< bool[]: and only where this is true; absent: always
  bool skips_not_finite = false;  ///< and only where the norm of its gradients is finite
  std::int64_t accumulate = 1;    ///< gradients of so many replays are one update's
  StorageId gathered = {};        ///< counts those replays, where there are several
  ValueId weight = {};            ///< of this one among them; absent: equal weights
  /// True if a step may leave out the loss itself.
  bool may_rest() const { return every > 1 || when.present(); }
  /// Gradients of the trainable parameters that the loss reaches, as `differentiate` found them;
  /// `update` uses them up.
  std::vector<ParameterGradient> gradients = {};
};

/// The name of the readable "loss" or "loss/critic", and the path of the storage that keeps it for
/// an objective that may rest.
std::string name_of_loss(const std::string& objective);
std::string path_of_kept_loss(const std::string& objective);
/// The paths of the storages that gather gradients of several replays: of a parameter, and the sum
/// of the replays' weights.
std::string path_of_gathered(const std::string& parameter);
std::string path_of_gathered_weight(const std::string& objective);
/// The path of a parameter's moment.
std::string path_of_moment(const Moment& moment, std::string_view parameter);
/// The path of the storage of an optimizer's state: "optimizer/learning_rate/critic".
std::string path_of_state(std::string_view state, std::string_view objective);

/// The i64 scalars that every graph keeps.
struct Counters {
  StorageId seed;
  StorageId replay;  ///< steps run: keys randomness
  StorageId update;  ///< updates made
};

/// Static and acyclic by construction: nodes are appended, and read and wait for only earlier
/// nodes.
class Graph {
 public:
  /// With the counters' storages and nothing else.
  explicit Graph(std::string name);
  /// A graph with the same name and storages, objectives without a loss and readables without a
  /// value, to be set, and no nodes.
  static Graph like(const Graph& source);

  // ---- reading -------------------------------------------------------------------------------
  const std::string& name() const { return name_; }
  const std::vector<Node>& nodes() const { return nodes_; }
  const Node& node(ValueId id) const { return nodes_[id.node]; }
  const Type& type(ValueId id) const { return node(id).types[id.output]; }
  /// The types of a node's operands.
  Types operands(const Node& node) const;
  /// The answers of the op's rules for the node: how it views an operand, and which operands may be
  /// made in the places where they are to lie.
  std::optional<Alias> alias(const Node& node) const;
  std::vector<Inside> insides(const Node& node) const;
  const std::vector<Storage>& storages() const { return storages_; }
  const Storage& storage(StorageId id) const { return storages_[id.index]; }
  std::optional<StorageId> find_storage(std::string_view path) const;
  const Counters& counters() const { return counters_; }
  /// The node that reads the storage's old value, where there is one.
  std::optional<ValueId> find_read(StorageId storage) const;
  const std::vector<Assignment>& assignments() const { return assignments_; }
  const std::vector<Readable>& readables() const { return readables_; }
  const std::vector<MinimizedLoss>& objectives() const { return objectives_; }
  /// Another number after each write, the same in copies: graphs of one version are equal.
  std::uint64_t version() const { return version_; }

  /// As text, one line a node; the tests' language.
  std::string print() const;
  /// For graphviz.
  std::string dot() const;

  // ---- writing -------------------------------------------------------------------------------
  /// Appends a node as it is, but for its types, which the op's shape rule gives. Returns its first
  /// output. Throws InternalError where it reads or waits for what is not there, or the rule
  /// refuses.
  ValueId append(Node node);
  /// Appends a node that has its types, as a copy does: the rule is not asked.
  ValueId append_typed(Node node);
  /// Appends a storage; its path must be new.
  StorageId append_storage(Storage storage);
  /// The storage's old value: one node for each storage, made when first asked for.
  ValueId read(StorageId storage);
  /// How plans keep a storage. Before its first read.
  void set_layout(StorageId storage, Layout layout);
  /// Its new path must be no other storage's.
  void set_path(StorageId storage, std::string path);
  void set_trainable(StorageId parameter, bool trainable);
  void set_rate(StorageId parameter, double rate);
  void set_decay(StorageId parameter, double decay);
  void set_objective(StorageId parameter, std::int32_t objective);
  /// It begins with the initial value of `as`, which has the same type.
  void set_beginning(StorageId storage, StorageId as);
  void append_readable(Readable readable);
  void set_readable(std::size_t index, ValueId value);
  void append_objective(MinimizedLoss objective);
  void erase_objective(std::size_t objective);
  void set_loss(std::size_t objective, ValueId loss);
  void set_when(std::size_t objective, ValueId when);
  void set_weight(std::size_t objective, ValueId weight);
  void set_gradients(std::size_t objective, std::vector<ParameterGradient> gradients);
  /// Sets the value that the storage holds after a step. A further call for the same storage
  /// changes the value and keeps the first `line`.
  void assign(StorageId storage, ValueId value, Line line);
  void set_assignments(std::vector<Assignment> assignments);

 private:
  Graph() = default;
  void require_earlier(const Node& node) const;
  void bump_version();

  std::uint64_t version_ = 0;
  std::string name_;
  std::vector<Node> nodes_;
  std::vector<Storage> storages_;
  std::map<std::string, StorageId, std::less<>> storage_by_path_;
  std::map<StorageId, ValueId> reads_;
  Counters counters_;
  std::vector<Assignment> assignments_;
  std::vector<Readable> readables_;
  std::vector<MinimizedLoss> objectives_;
};

/// [node] Whether it is made of what training makes (`stands_for_training`): of gradients or of the
/// update, so after the forward pass.
std::vector<bool> made_by_training(const Graph& graph);

/// [node] How many objectives have made their update before it is computed: 0 for what reads no
/// updated parameter, k + 1 for what reads one that objective k trains and none of a later one.
std::vector<std::size_t> updates_before(const Graph& graph);

}  // namespace metronome::ir
