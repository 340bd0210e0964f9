// `StepWriter` writes the graph in this order. `OptimizerCall` (optimizer_call.h) asks the
// optimizer.
//
//   copy               all nodes but those of `ir::made_by_training`: before the update of each
//                      objective what waits for no later one; a ReadUpdated becomes the value that
//                      an earlier objective assigned
//   advance            the counter of replays                     -> an assignment
//   gather             means with gradients of earlier replays    -> in the gradients' place
//   clip               all gradients of the objective             -> read by the optimizer's rule
//   number             rates and norms that are asked for         -> in place of each OfUpdate
//   decide             guards of an objective that may skip a step
//   scalars            once for each rate and weight decay        -> read by the optimizer's rule
//   update_parameter   a parameter, with storages for its moments -> assignments of next values
//   advance            the objective's counter of updates, states -> assignments
//   follow             the nodes left out, as all that they read is there: a GradientOf becomes the
//                      gradient, an AfterUpdate the value that is assigned, others are copied
//
// An objective that may skip a step updates under its guard, and what it assigns is a merge of the
// next value and the old one. So is its loss, which a storage keeps; averages of what it trains and
// what follows that move under its guard, too. `sink` then puts under the guard what nothing else
// reads.
//
// Reads of storages, counters too, see the old values throughout, as in every step. Without a
// ReadUpdated all that is copied comes before all updates.
#include "graph/passes/training/update.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "graph/emit/emitter.h"
#include "graph/emit/scope.h"
#include "graph/ir/error.h"
#include "graph/ir/guarded.h"
#include "graph/ir/structural.h"
#include "graph/passes/training/optimizer_call.h"
#include "graph/passes/training/sink.h"
#include "graph/passes/walk/copier.h"

namespace metronome::passes {
namespace {

/// The graph as it is written: the forward pass and the gradients, the update, then what is made of
/// them.
class StepWriter {
 public:
  explicit StepWriter(const ir::Graph& graph)
      : graph_(graph),
        by_training_(ir::made_by_training(graph)),
        updates_before_(ir::updates_before(graph)),
        copier_(graph) {}

  ir::Graph run() {
    copy_after(0);
    const Line line = graph_.objectives().empty() ? Line{} : graph_.objectives()[0].line;
    {
      PassScope scope(copier_.emitter, std::string(kMomentsRoot), line);
      advance(graph_.counters().replay, line);
      for (std::size_t o = 0; o < graph_.objectives().size(); ++o) {
        update(o);
        copy_after(o + 1);
      }
      if (!graph_.objectives().empty() && !is_counted(graph_.counters().update)) {
        advance(graph_.counters().update, line);
      }
    }
    for (std::int32_t i = 0; i < count(); ++i) {
      if (by_training_[i]) follow(i);
    }
    ir::Graph step = copier_.finish();
    std::vector<Assignment> assignments = step.assignments();
    assignments.insert(assignments.end(), made_.begin(), made_.end());
    step.set_assignments(std::move(assignments));
    for (std::size_t o = 0; o < step.objectives().size(); ++o) {
      step.set_gradients(o, {});
      step.set_when(o, {});
      step.set_weight(o, {});
      if (kept_losses_[o].present()) keep_loss(step, o);
    }
    std::vector<ValueId> guards;
    for (const Guards& g : guards_) {
      for (const Value& guard : {g.runs, g.ends, g.updates}) {
        if (guard.present()) guards.push_back(guard.id());
      }
    }
    return guards.empty() ? step : sink(step, guards);
  }

 private:
  std::int32_t count() const { return static_cast<std::int32_t>(graph_.nodes().size()); }

  /// Copies what is computed after so many objectives' updates, and none of training.
  void copy_after(std::size_t updates) {
    for (std::int32_t i = 0; i < count(); ++i) {
      if (by_training_[i] || updates_before_[i] != updates) continue;
      if (const auto* updated = graph_.nodes()[i].op->as<ReadUpdated>()) {
        copier_.replace({i, 0}, value_after_update(updated->storage));
      } else {
        copier_.copy(i);
      }
    }
  }

  /// When an objective does its work; absent: in every step.
  struct Guards {
    Value runs;     ///< its loss and gradients
    Value ends;     ///< the last of the replays whose gradients are one update's
    Value updates;  ///< its update, which implies these
  };

  /// Gradients of several replays, on their way to one update.
  struct Gathering {
    std::vector<StorageId> storages;  ///< [gradient] their means so far
    Values means;                     ///< [gradient] with those of this step
    StorageId weight_storage;
    Value weight;  ///< of all replays so far
    Value count;   ///< of these, i64[]
  };

  /// A storage of Metronome's own for an objective.
  StorageId keep(std::string path, const Type& type, Init init, const Line& line) {
    if (copier_.to.find_storage(path)) {
      throw GraphError(
          {fmt::format("{}: minimize cannot keep \"{}\"\n"
                       "  requires   a path that no moment of an optimizer has\n"
                       "  way out    give the objective, or the moment, another name",
                       to_string(line), path)});
    }
    return copier_.to.append_storage(
        {std::move(path), type, StorageKind::moment, std::move(init), line, false});
  }

  /// Puts means in the place of the gradients.
  std::optional<Gathering> gather(const ir::MinimizedLoss& objective,
                                  std::vector<ParameterGradient>& gradients) {
    if (objective.accumulate == 1) return std::nullopt;
    Emitter& emitter = copier_.emitter;
    PassScope scope(emitter, std::string(kMomentsRoot), objective.line);
    Gathering all;
    all.weight_storage =
        keep(ir::path_of_gathered_weight(objective.name), Type{f64, {}}, Init{}, objective.line);
    const Value own = objective.weight.present() ? emitter.value(copier_.at(objective.weight))
                                                 : emitter.source(make_op(Fill{1, Type{f64, {}}}),
                                                                  "weight", objective.line);
    const Values made = apply(make_op(MeanWeight{}), Values{own, emitter.read(all.weight_storage)},
                              objective.line, 2);
    all.weight = made[1];
    all.count = apply(Increment{}, {emitter.read(objective.gathered)}, objective.line);
    for (ParameterGradient& g : gradients) {
      const Storage parameter = copier_.to.storage(g.parameter);
      all.storages.push_back(
          keep(ir::path_of_gathered(parameter.path), parameter.type, Init{}, parameter.line));
      const Value mean = apply(AverageUpdate{},
                               {emitter.read(all.storages.back()), emitter.value(g.value), made[0]},
                               objective.line);
      all.means.push_back(mean);
      g.value = mean.id();
    }
    return all;
  }

  /// Keeps what is gathered; behind the last of the replays, nothing.
  void keep_gathered(const ir::MinimizedLoss& objective, const Gathering& all,
                     const Guards& guards) {
    Emitter& emitter = copier_.emitter;
    PassScope scope(emitter, std::string(kMomentsRoot), objective.line);
    const auto assign_kept = [&](StorageId storage, const Value& next) {
      const Type type = copier_.to.storage(storage).type;
      const Value none = emitter.source(make_op(Fill{0, type}), "none", objective.line);
      const ValueId kept = merge(guards.ends, none.id(), next.id(), objective.line);
      assign({storage, kept, objective.line}, guards.runs);
    };
    for (std::size_t i = 0; i < all.means.size(); ++i) assign_kept(all.storages[i], all.means[i]);
    assign_kept(all.weight_storage, all.weight);
    assign({objective.gathered, all.count.id(), objective.line}, guards.runs);
  }

  void advance(StorageId counter, const Line& line, const Value& guard = {}) {
    Emitter& emitter = copier_.emitter;
    std::optional<PassScope> scope;
    if (guard.present()) scope.emplace(emitter, std::string(kMomentsRoot), line, guard.id());
    const Value next = apply(Increment{}, {emitter.read(counter)}, line);
    scope.reset();
    assign({counter, next.id(), line}, guard);
  }

  bool is_counted(StorageId counter) const {
    return std::ranges::any_of(graph_.objectives(), [&](const ir::MinimizedLoss& objective) {
      return objective.counter == counter;
    });
  }

  /// Assigns a value where the guard is true, or always.
  void assign(Assignment next, const Value& guard) {
    next.value = merge(guard, next.value, copier_.emitter.read(next.storage).id(), next.line);
    made_.push_back(next);
  }

  ValueId merge(const Value& guard, ValueId value, ValueId otherwise, const Line& line) {
    if (!guard.present()) return value;
    Emitter& emitter = copier_.emitter;
    PassScope scope(emitter, emitter.graph.node(value).path, line);
    const auto of = [&](ValueId id) { return emitter.value(id); };
    return apply(Merge{1, true}, {guard, of(value), of(otherwise)}, line).id();
  }

  Guards decide(const ir::MinimizedLoss& objective, const std::optional<Gathering>& gathering,
                OptimizerCall& updates, const std::vector<ParameterGradient>& gradients,
                const Values& clipped) {
    Emitter& emitter = copier_.emitter;
    PassScope scope(emitter, std::string(kMomentsRoot), objective.line);
    Guards guards;
    const auto narrow = [&](Value& guard, const Value& decider) {
      guard = make_guard(decider, 1, 2, guard, objective.line);
    };
    if (objective.every > 1) {
      const Value replay = emitter.read(graph_.counters().replay);
      narrow(guards.runs, apply(IsMultiple{objective.every}, {replay}, objective.line));
    }
    if (objective.when.present()) {
      narrow(guards.runs, emitter.value(copier_.at(objective.when)));
    }
    guards.ends = guards.runs;
    if (gathering) {
      narrow(guards.ends,
             apply(IsMultiple{objective.accumulate}, {gathering->count}, objective.line));
    }
    guards.updates = guards.ends;
    if (objective.skips_not_finite) {
      const Value norm = updates.number(UpdateNumber::gradient_norm, gradients, clipped);
      narrow(guards.updates, apply(IsFinite{}, {norm}, objective.line));
    }
    return guards;
  }

  /// The loss of a step that may leave it out, or of the last one that did not.
  ValueId last_loss(const ir::MinimizedLoss& objective, const Value& runs) {
    if (!objective.may_rest()) return {};
    const ValueId loss = copier_.at(objective.loss);
    Init unknown;
    unknown.a = std::numeric_limits<double>::infinity();
    const StorageId kept =
        keep(ir::path_of_kept_loss(objective.name), copier_.to.type(loss), unknown, objective.line);
    assign({kept, loss, objective.line}, runs);
    return made_.back().value;
  }

  /// Puts it in the place of the loss that users read.
  void keep_loss(ir::Graph& step, std::size_t index) const {
    const ir::MinimizedLoss& objective = graph_.objectives()[index];
    const std::string name = ir::name_of_loss(objective.name);
    for (std::size_t r = 0; r < graph_.readables().size(); ++r) {
      if (graph_.readables()[r].name == name && graph_.readables()[r].value.present()) {
        step.set_readable(r, kept_losses_[index]);
      }
    }
    step.set_loss(index, kept_losses_[index]);
  }

  void update(std::size_t index) {
    const ir::MinimizedLoss& objective = graph_.objectives()[index];
    std::vector<ParameterGradient> gradients = objective.gradients;
    for (ParameterGradient& g : gradients) g.value = copier_.at(g.value);
    const std::optional<Gathering> gathering = gather(objective, gradients);
    OptimizerCall updates(copier_.emitter, objective);
    const Values clipped = updates.clip(gradients);
    for (std::int32_t i = 0; i < count(); ++i) {
      const OfUpdate* asked = graph_.nodes()[i].op->as<OfUpdate>();
      if (asked == nullptr || objective_of(*graph_.nodes()[i].op) != index) continue;
      copier_.replace(i, {updates.number(asked->number, gradients, clipped)});
    }
    guards_.push_back(decide(objective, gathering, updates, gradients, clipped));
    if (gathering) keep_gathered(objective, *gathering, guards_.back());
    const Value guard = guards_.back().updates;
    const Value loss = copier_.emitter.value(copier_.at(objective.loss));
    kept_losses_.push_back(last_loss(objective, guards_.back().runs));
    updates.make_scalars(gradients, guard.id());
    for (std::size_t i = 0; i < gradients.size(); ++i) {
      for (const Assignment& next :
           updates.update_parameter(gradients[i].parameter, clipped[i], guard.id())) {
        assign(next, guard);
      }
    }
    for (const Assignment& next : updates.advance_states(loss, guard.id())) assign(next, guard);
    advance(objective.counter, objective.line, guard);
  }

  /// A node that is made of what training makes.
  void follow(std::int32_t index) {
    const Node& node = graph_.nodes()[index];
    if (node.op->as<OfUpdate>() != nullptr) return;
    if (node.op->as<GradientOf>() != nullptr) {
      copier_.replace({index, 0}, copier_.at(node.inputs[0]));
    } else if (const AfterUpdate* after = node.op->as<AfterUpdate>()) {
      copier_.replace({index, 0}, value_after_update(after->storage));
    } else if (const UpdatesOf* updates = node.op->as<UpdatesOf>()) {
      const std::int32_t objective = graph_.storage(updates->parameter).objective;
      const StorageId counter =
          objective < 0 ? graph_.counters().update : graph_.objectives()[objective].counter;
      copier_.replace({index, 0}, copier_.to.read(counter));
    } else if (const Value moves = guard_of_average(node); moves.present()) {
      Emitter& emitter = copier_.emitter;
      PassScope scope(emitter, node.path, node.line, moves.id());
      const Value next = apply(node.op, copier_.inputs_of(node), node.line)[0];
      copier_.replace({index, 0}, merge(moves, next.id(), copier_.at(node.inputs[0]), node.line));
    } else {
      copier_.copy(index);
    }
  }

  /// The guard of an average or of what follows a parameter, by that parameter's objective and by
  /// how often it moves; absent: it always moves, or the node makes no average.
  Value guard_of_average(const Node& node) {
    if (node.op->as<AverageUpdate>() == nullptr) return {};
    const auto* after = graph_.node(node.inputs[1]).op->as<AfterUpdate>();
    const auto* weight = graph_.node(node.inputs[2]).op->as<AverageWeight>();
    const std::int32_t objective = graph_.storage(after->storage).objective;
    const Value owner = objective < 0 ? Value() : guards_[objective].updates;
    if (weight->every == 1) return owner;
    Emitter& emitter = copier_.emitter;
    PassScope scope(emitter, node.path, node.line);
    const Value before = emitter.value(copier_.at(graph_.node(node.inputs[2]).inputs[0]));
    const Value after_it = apply(Increment{}, {before}, node.line);
    return make_guard(apply(IsMultiple{weight->every}, {after_it}, node.line), 1, 2, owner,
                      node.line);
  }

  /// Returns the value that the storage holds after the update.
  ValueId value_after_update(StorageId storage) {
    const auto of = [&](const Assignment& a) { return a.storage == storage; };
    const auto found = std::ranges::find_if(made_, of);
    return found != made_.end() ? found->value : copier_.to.read(storage);
  }

  const ir::Graph& graph_;
  std::vector<bool> by_training_;            // [node]
  std::vector<std::size_t> updates_before_;  // [node]
  Copier copier_;
  std::vector<Assignment> made_;
  std::vector<Guards> guards_;        // [objective]
  std::vector<ValueId> kept_losses_;  // [objective]; absent where each step has the loss
};

}  // namespace

ir::Graph update(ir::Graph graph, const Settings& settings) {
  return settings.mode == Mode::train ? StepWriter(graph).run() : graph;
}

}  // namespace metronome::passes
