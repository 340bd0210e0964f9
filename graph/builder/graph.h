// The declared computation: inputs, parameters, states, nodes, outputs, assignments.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/ir/identity.h"
#include "graph/ir/node.h"
#include "graph/ir/optimizer.h"
#include "graph/ir/value.h"

namespace metronome {

/// A buffer's handle and its value at this place of the step: the value that the previous `assign`
/// of the step left, or the storage's old value.
struct Buffer {
  StorageId storage;
  Value value;
};

/// What one step of `Graph::unroll` makes.
struct Unrolled {
  Value state;
  Value output;
};

/// Static and acyclic by construction: nodes are appended and read only earlier nodes.
///
/// A user declares with the first half; the second half is what passes and executors read.
/// Mistakes are collected; `validate` throws all of them. Values stay valid when a graph is moved:
/// they are then of the graph that it was moved to, and every call on the one that was moved from
/// throws GraphError. When a graph is destroyed, values of it serve its executables alone.
class Graph {
 public:
  explicit Graph(std::string name);
  ~Graph();
  Graph(Graph&&) noexcept;
  Graph& operator=(Graph&&) noexcept;

  // ---- declaring -----------------------------------------------------------------------------
  /// A tensor that is fed for each step. Names are unique.
  Value input(std::string name, Element element, Shape shape, Line line = Line::here());
  /// A trained storage at the current scope's path + name.
  Value parameter(std::string name, Type type, Init init, Line line = Line::here());
  /// A storage fed back across steps: its value is what the previous step fed. Give it to `feed`.
  Value state(std::string name, Type type, Init init = {}, Line line = Line::here());
  void feed(Value state, Value next, Line line = Line::here());
  /// Back-propagation through k steps: runs `body` k times from the state's old value with one set
  /// of weights, as `loop` does, and feeds what the last one left. Returns the k outputs. k >= 1.
  /// Storages lie under `unroll/`, nodes under `unroll/<k>/`.
  Values unroll(std::int64_t k, Value state,
                const std::function<Unrolled(Value state, int step)>& body,
                Line line = Line::here());
  /// Statistics that a layer keeps; `assign` sets what later readers of this step and the next
  /// step see.
  Buffer buffer(std::string name, Type type, Init init, Line line = Line::here());
  void assign(const Buffer& buffer, Value next, Line line = Line::here());
  /// A number as a value of one element type.
  Value constant(double number, Element element, Line line = Line::here());
  /// Row-major numbers as a value.
  Value constant(const std::vector<double>& numbers, Type type, Line line = Line::here());

  /// The scalar that training minimises, and how. Once.
  void minimize(Value loss, Optimizer optimizer, Line line = Line::here());
  /// A value that is read by name after a step.
  void output(std::string name, Value value, Line line = Line::here());
  /// The gradient of the loss with respect to `value`, to be read after a training step; it cannot
  /// be computed with.
  Value gradient(Value value, Line line = Line::here());
  /// Parameters at `path` or below it are not trained (trained again). A path may be a glob: `*`
  /// and `?` stand for letters of one part, `**` for any parts.
  void freeze(std::string_view path, Line line = Line::here());
  void thaw(std::string_view path, Line line = Line::here());
  /// Parameters at `path` or below it, which may be a glob, are trained at `factor` times the
  /// optimizer's learning rate. factor > 0; the last call that names a parameter counts.
  void scale_learning_rate(std::string_view path, double factor, Line line = Line::here());

  /// Counters of an executable, i64 scalars.
  Value seed();
  Value replay();  ///< steps run: keys randomness
  Value update();  ///< updates made: 0 in the first step; schedules see it

  /// Throws GraphError with every mistake of the declaration.
  void validate() const;
  /// The graph as text, one line a node; the tests' language.
  std::string print() const;
  /// The graph for graphviz.
  std::string dot() const;

  // ---- reading -------------------------------------------------------------------------------
  const std::string& name() const;
  /// What its values and executables know it by.
  const std::shared_ptr<GraphIdentity>& identity() const;
  const std::vector<Node>& nodes() const;
  const Node& node(ValueId id) const { return nodes()[id.node]; }
  const Type& type(ValueId id) const { return node(id).types[id.output]; }
  std::span<const Storage> storages() const;
  const Storage& storage(StorageId id) const { return storages()[id.index]; }
  std::optional<StorageId> find_storage(std::string_view path) const;
  std::span<const Assignment> assignments() const;
  std::span<const Readable> readables() const;
  std::span<const ParameterGradient> parameter_gradients() const;
  Value loss() const;  ///< absent before `minimize`
  Line loss_line() const;
  const std::optional<Optimizer>& optimizer() const;

  // ---- building passes -----------------------------------------------------------------------
  /// A graph with the same name, storages, loss's optimizer and readables (their values absent),
  /// and no nodes.
  static Graph like(const Graph& source);
  /// The same declaration again; ops are shared, as they never change.
  Graph copy() const;
  /// Appends a node as it is; inputs are of this graph. Checks types. Returns its first output.
  ValueId append(Node node);
  Value value(ValueId id) const;
  void set_loss(ValueId loss);
  void set_readable(std::size_t index, ValueId value);
  void set_assignments(std::vector<Assignment> assignments);
  void set_parameter_gradients(std::vector<ParameterGradient> gradients);
  /// Appends a storage; its path must be new.
  StorageId append_storage(Storage storage);
  /// A value that reads a storage's old value; one node per storage.
  Value read(StorageId storage);

  /// Throws GraphError, with the line where one is given, where the graph was moved from.
  GraphState& state(Line line = {}) const;

 private:
  std::unique_ptr<GraphState> state_;
};

/// Adds one node. Outputs: visible and saved ones. Where an operand is poisoned, of another graph
/// or misses the op's shape rule, the result is `outputs` poisoned values (and the mistake
/// recorded).
Values apply(OpPtr op, std::span<const Value> inputs, Line line, std::size_t outputs = 1);

}  // namespace metronome
