// The declared computation: inputs, parameters, states, nodes, outputs, assignments.
//
//   mt::Graph g("regression");
//   const mt::Value x = g.input("x", mt::f32, {32, 4}), y = g.input("y", mt::f32, {32, 1});
//   g.minimize(mt::mse_loss(x.through(mt::linear(1)), y), mt::Adam{});
//
// A verb appends to the declaration, at the current path and with the caller's line. Mistakes are
// collected, and `compile` or `validate` throws them together.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/ir/ids.h"
#include "graph/ir/init.h"
#include "graph/ir/line.h"
#include "graph/ir/optimizer.h"
#include "graph/ir/type.h"
#include "graph/ir/value.h"

namespace metronome::ir {
class Graph;
}

namespace metronome {

struct Emitter;

/// The results of one step of `Graph::unroll`.
struct Unrolled {
  Value state;
  Value output;
};

/// The results of one step of `Graph::unroll` over several states.
struct UnrolledStates {
  Values states;
  Value output;
};

/// A parameter, as it is declared so far.
struct DeclaredParameter {
  std::string path;
  Type type;
  bool trained = true;  ///< false if it is frozen
};

/// Names the averages that one call of `Graph::average` keeps.
struct Average {
  std::string name;
  operator std::string_view() const { return name; }
};

/// How an average moves at an update: exactly one is given, and they add up to 1.
struct AverageOptions {
  std::optional<double> rate = {};   ///< it goes of the way to the parameter: above 0, up to 1
  std::optional<double> decay = {};  ///< it keeps of its old value: 0 or more, below 1
  std::string name = "ema";          ///< several averages of one graph need several names
  bool bias_correction = true;
};

/// How far a parameter follows another at an update: exactly one is given, and they add up to 1.
struct FollowOptions {
  std::optional<double> rate = {};   ///< it goes of the way: above 0, up to 1
  std::optional<double> decay = {};  ///< it keeps of its old value: 0 or more, below 1
  /// It moves at each so manieth update of what it follows: `{.rate = 1, .every = 1000}` copies.
  std::int64_t every = 1;
};

/// One of several objectives of a graph.
struct ObjectiveOptions {
  /// Names it and what is read of it ("critic": its loss is "loss/critic"). The names of a graph's
  /// objectives differ; one may be empty.
  std::string name = {};
  /// The parameters that it trains, of those declared so far: paths of parameters or of scopes that
  /// hold some, or globs. No parameter is trained by two objectives, and none that is named here
  /// follows another (`Graph::follow`).
  std::vector<std::string> parameters = {"**"};
  /// It trains in the replays 0, k, 2k, ... alone. 1 or more. Others compute nothing that only its
  /// loss needs; the loss reads as last computed, and infinite before the first.
  std::int64_t every = 1;
  /// bool[] of the forward pass: it trains only where this is true. Likewise.
  Value when = {};
  /// Parameters, moments, averages and its counter stay as they are where the norm of its gradients
  /// is infinite or NaN.
  bool skip_not_finite = false;
  /// Each so manieth replay that trains makes one update of the mean gradient of these. 1 or more;
  /// not with an `every`, nor with a lazy optimizer. Clipping and norms are of the mean of what is
  /// gathered so far; counters, schedules, moments and averages go by updates.
  std::int64_t accumulate = 1;
  /// f32[] or f64[], 0 or more: the weight of this replay's gradient in that mean, as the number of
  /// tokens that its loss is a mean of; one of 0 counts for nothing. Absent: equal weights. Ranks
  /// give that of all of them: `mt::all_reduce(tokens)`, of `mt::weighted_by(loss, tokens)`.
  Value weight = {};
};

/// A loss that training minimises, as `Graph::minimize` declared it: what a step makes of it. After
/// a mistake all its values are absent or poisoned.
class Objective {
 public:
  Objective() = default;
  Objective(Value loss, std::size_t index, std::string name)
      : loss_(std::move(loss)), index_(index), name_(std::move(name)) {}

  const Value& loss() const { return loss_; }
  const std::string& name() const { return name_; }
  /// Each as the verb of `Graph` of that name, of this objective. Ranks make means of the gradients
  /// of what it trains; other gradients are each rank's own.
  Value gradient(Value value, Line line = Line::here()) const;
  Value learning_rate(Line line = Line::here()) const;
  Value gradient_norm(Line line = Line::here()) const;
  Value clipped_gradient_norm(Line line = Line::here()) const;
  /// The number of updates that it made before this step, i64[]: the counter "update/<name>", or
  /// "update" of the one without a name.
  Value updates(Line line = Line::here()) const;

 private:
  Value loss_;
  std::size_t index_ = 0;
  std::string name_;
};

/// Static and acyclic by construction: nodes are appended and read only earlier nodes.
///
/// Mistakes are collected; `validate` throws all of them. Values stay valid when a graph is moved:
/// they then belong to the graph that it was moved to, and every call on the graph that was moved
/// from throws GraphError. After a graph is destroyed, its values serve only its executables.
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
  /// The parameter at a path that was made before, by hand or by a layer, so that another layer may
  /// read it too: `linear(h, g.parameter("embedding/weight"))`. Its gradient is the sum of all
  /// uses. Behind the `minimize` that trains it, it is the updated value.
  Value parameter(std::string_view path, Line line = Line::here());
  /// A storage fed back across steps: its value is what the previous step fed. Give it to `feed`.
  Value state(std::string name, Type type, Init init = {}, Line line = Line::here());
  void feed(Value state, Value next, Line line = Line::here());
  /// Back-propagation through k steps: runs `body` k times from the state's old value with one set
  /// of weights, as `loop` does, and feeds what the last one left. Returns the k outputs. k >= 1.
  /// Storages lie under `unroll/`, nodes under `unroll/<k>/`.
  Values unroll(std::int64_t k, Value state,
                const std::function<Unrolled(Value state, int step)>& body,
                Line line = Line::here());
  /// Back-propagation through k steps of several states, `g.unroll(50, {h, c}, body)`: the body
  /// gives as many as it takes.
  Values unroll(std::int64_t k, const Values& states,
                const std::function<UnrolledStates(const Values& states, int step)>& body,
                Line line = Line::here());
  /// Statistics that a layer keeps; `assign` sets what later readers of this step and the next
  /// step see.
  Buffer buffer(std::string name, Type type, Init init, Line line = Line::here());
  void assign(const Buffer& buffer, Value next, Line line = Line::here());
  /// A number as a value of one element type.
  Value constant(double number, Element element, Line line = Line::here());
  /// Row-major numbers as a value.
  Value constant(const std::vector<double>& numbers, Type type, Line line = Line::here());

  /// A scalar that training minimises, and how. A graph may have several, with parameters and an
  /// optimizer each: `g.minimize(loss, Adam{}, {.name = "critic", .parameters = {"critic"}})`.
  /// A parameter that is read behind the `minimize` that trains it is the updated one, and no
  /// gradient flows through the update; a value made before stays old. So losses that are all
  /// declared before the first call read what was there before the step. In an evaluation both are
  /// the stored value.
  Objective minimize(Value loss, Optimizer optimizer, ObjectiveOptions options,
                     Line line = Line::here());
  Objective minimize(Value loss, Optimizer optimizer, Line line = Line::here());
  /// A value that is read by name after a step.
  void output(std::string name, Value value, Line line = Line::here());
  /// The gradient of the loss with respect to `value`, to be read after a training step. Values
  /// that are made of it can be read, too: `g.output("slope", norm(g.gradient(h)))`. It comes after
  /// the forward pass: the loss, states, buffers and decisions cannot be made of it. A graph with
  /// several objectives refuses this verb and the next three: `Objective` has them.
  Value gradient(Value value, Line line = Line::here());
  /// Numbers that the update of a training step makes, f64[], to be read after the step, or
  /// computed with as a gradient is: the optimizer's learning rate, the norm of all gradients
  /// together, and that of the gradients after clipping. Each is named like the verb, so
  /// `step.read("learning_rate")`. An optimizer without a member `lr` (a `norm`) refuses when the
  /// graph is compiled to train.
  Value learning_rate(Line line = Line::here());
  Value gradient_norm(Line line = Line::here());
  Value clipped_gradient_norm(Line line = Line::here());
  /// Parameters at `path` or below it are not trained (trained again). A path may be a glob: `*`
  /// and `?` stand for letters of one part, `**` for any parts.
  void freeze(std::string_view path, Line line = Line::here());
  void thaw(std::string_view path, Line line = Line::here());
  /// Parameters at `path` or below it, which may be a glob, are trained at `factor` times the
  /// optimizer's learning rate. factor > 0; the last call that names a parameter counts.
  void scale_learning_rate(std::string_view path, double factor, Line line = Line::here());
  /// Parameters at `path` or below it, which may be a glob, get `factor` times the optimizer's
  /// weight decay: `g.scale_weight_decay("**/bias", 0)`. factor >= 0. An optimizer that has no
  /// member `weight_decay` refuses when the graph is compiled to train.
  void scale_weight_decay(std::string_view path, double factor, Line line = Line::here());

  /// Keeps an average of each parameter at `path` or below it, which may be a glob. After each
  /// update, in the same replay, average := average + w * (parameter - average): w is 1 - decay, or
  /// (1 - decay) / (1 - decay^t) at update t where the bias is corrected, so that the first update
  /// makes it the parameter's value. Before, it is the parameter's initial value. A rate stands for
  /// the decay 1 - rate.
  /// Averages can be read (`get("average/ema/linear/weight")`), evaluated with (`evaluate(feeds,
  /// {.with = ema})`), and are part of checkpoints. Buffers (running statistics) have none:
  /// evaluations with averages read the model's own.
  Average average(std::string_view path, AverageOptions options, Line line = Line::here());
  /// The parameters at `path` or below it, one of a scope as `source` is, are no longer trained:
  /// they begin as those of the source, and after each update go `rate` of the way to them. The
  /// target networks of reinforcement learning (Lillicrap and others, "Continuous control with deep
  /// reinforcement learning", 2016): `g.follow("target", "critic", {.rate = 0.005})`.
  void follow(std::string_view path, std::string_view source, FollowOptions options,
              Line line = Line::here());

  /// Counters of an executable, i64 scalars.
  Value seed();
  Value replay();  ///< steps run: keys randomness
  /// Updates made, 0 in the first step: those of the objective without a name or, where all have
  /// one, the training steps.
  Value update();

  /// Throws GraphError with every mistake of the declaration.
  void validate() const;
  /// The graph as text, one line a node; the tests' language.
  std::string print() const;
  /// The graph for graphviz.
  std::string dot() const;

  /// Its name, by which messages call it.
  const std::string& name() const;
  /// The identity by which its values and executables know the graph.
  const std::shared_ptr<GraphIdentity>& identity() const;
  /// The loss of the first `minimize`, to be read after a step; absent before it.
  Value loss() const;
  /// The parameters of all layers, in the order in which they were made.
  std::vector<DeclaredParameter> parameters() const;

  /// The declaration, as passes and executors read it; valid as long as this graph lives.
  const ir::Graph& data() const;
  operator const ir::Graph&() const { return data(); }
  /// A handle on a value of the declaration.
  Value value(ValueId id);
  /// The emitter at which its values point. Throws GraphError if the graph was moved from, with the
  /// line if one is given.
  Emitter& emitter(Line line = {});

 private:
  struct Declaration;
  /// Throws as `emitter`.
  Declaration& declaration(Line line = {}) const;
  const std::vector<std::string>& mistakes() const;

  std::unique_ptr<Declaration> declaration_;
};

/// `Value::repeat` of several values: n copies in a row, each with its own weights under
/// `repeat/<i>`; the body, which may take the copy's index, gives as many values as it takes. Types
/// may change from copy to copy. n >= 0.
Values repeat(const Values& xs, std::int64_t n,
              const std::function<Values(const Values&, int copy)>& body, Line line = Line::here());
Values repeat(const Values& xs, std::int64_t n, const std::function<Values(const Values&)>& body,
              Line line = Line::here());

}  // namespace metronome
