// `StepWriter` writes the graph in this order. `OptimizerCall` asks the optimizer, and checks what
// its rule gives.
//
//   copy               all nodes but those of `ir::made_by_training`: before the update of each
//                      objective what waits for no later one; a ReadUpdated becomes the value that
//                      an earlier objective assigned
//   advance            the counter of replays                     -> an assignment
//   clip               all gradients of the objective             -> read by the optimizer's rule
//   number             rates and norms that are asked for         -> in place of each OfUpdate
//   scalars            once for each factor of the learning rate  -> read by the optimizer's rule
//   update_parameter   a parameter, with storages for its moments -> assignments of next values
//   advance            the counter of updates, if there is a loss -> an assignment
//   follow             the nodes left out, as all that they read is there: a GradientOf becomes the
//                      gradient, an AfterUpdate the value that is assigned, others are copied
//
// Reads of storages, counters too, see the old values throughout, as in every step. Without a
// ReadUpdated all that is copied comes before all updates.
#include "graph/passes/training/update.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "graph/emit/emitter.h"
#include "graph/emit/scope.h"
#include "graph/ir/error.h"
#include "graph/ir/structural.h"
#include "graph/passes/walk/copier.h"

namespace metronome::passes {
namespace {

/// An optimizer at work on a graph. The results of its rule are checked, as the rule may be the
/// user's own.
class OptimizerCall {
 public:
  OptimizerCall(Emitter& emitter, const ir::MinimizedLoss& objective)
      : emitter_(emitter),
        graph_(emitter.graph),
        optimizer_(*objective.optimizer),
        line_(objective.line) {
    check_moments();
  }

  /// Gradients clipped.
  Values clip(const std::vector<ParameterGradient>& gradients) {
    const Values given = values_of(gradients);
    const Values made = optimizer_.clip(given);
    refuse_mistakes("clip the gradients");
    if (made.size() != given.size()) {
      refuse("clip the gradients", fmt::format("as many gradients as it is given, {}, but {}",
                                               given.size(), made.size()));
    }
    for (std::size_t i = 0; i < made.size(); ++i) {
      check("clip the gradients",
            "the gradient of " + quote(graph_.storage(gradients[i].parameter)), given[i].type(),
            made[i]);
    }
    return made;
  }

  /// A number of the update.
  Value number(UpdateNumber which, const std::vector<ParameterGradient>& gradients,
               const Values& clipped) {
    const std::string what = fmt::format("tell its {}", name_of(which));
    Value result;
    if (which == UpdateNumber::learning_rate) {
      result = optimizer_.learning_rate(emitter_.read(graph_.counters().update));
      if (!result.present()) refuse(what, "an optimizer with a member `lr`, a LearningRate");
    } else {
      const bool before = which == UpdateNumber::gradient_norm;
      result = optimizer_.norm(before ? values_of(gradients) : clipped);
      if (!result.present()) refuse(what, "an optimizer with a member function `norm`");
    }
    refuse_mistakes(what);
    check(what, "it", Type{f64, {}}, result);
    return result;
  }

  /// Makes the scalars of each rate and the rule of each weight decay, for `update_parameter`.
  void make_scalars(const std::vector<ParameterGradient>& gradients) {
    for (const ParameterGradient& g : gradients) {
      const double rate = graph_.storage(g.parameter).rate;
      if (!scalars_.contains(rate))
        scalars_[rate] = optimizer_.scalars(emitter_.read(graph_.counters().update), rate);
      scale_decay(graph_.storage(g.parameter));
    }
    refuse_mistakes("make its scalars");
  }

  /// The next value of the parameter and of its moments, which it makes.
  std::vector<Assignment> update_parameter(StorageId id, Value gradient) {
    const Storage parameter = graph_.storage(id);
    const std::string what = "update parameter " + quote(parameter);
    PassScope place(emitter_, fmt::format("{}/{}", kMomentsRoot, parameter.path), line_);
    Values moments;
    std::vector<StorageId> storages = {id};
    for (const Moment& moment : moments_) {
      if (const auto wrong = wrong_init(moment.init, parameter.type, false)) {
        refuse(fmt::format("begin moment \"{}\" of {}", moment.name, quote(parameter)),
               wrong->requires_);
      }
      storages.push_back(graph_.append_storage(
          {fmt::format("{}/{}/{}", kMomentsRoot, moment.name, parameter.path), parameter.type,
           StorageKind::moment, moment.init, parameter.line, false}));
      moments.push_back(emitter_.read(storages.back()));
    }
    const OptimizerRule& rule = parameter.decay == 1 ? optimizer_ : *decayed_.at(parameter.decay);
    const Values next =
        rule.update(emitter_.read(id), gradient, moments, scalars_.at(parameter.rate));
    refuse_mistakes(what);
    if (next.size() != storages.size()) {
      refuse(what, fmt::format("its next value and those of {} moments, {} in all, but {}",
                               moments.size(), storages.size(), next.size()));
    }
    std::vector<Assignment> assignments;
    for (std::size_t k = 0; k < next.size(); ++k) {
      check(what,
            k == 0 ? "its next value" : fmt::format("that of moment \"{}\"", moments_[k - 1].name),
            parameter.type, next[k]);
      assignments.push_back({storages[k], next[k].id(), line_});
    }
    return assignments;
  }

 private:
  static std::string quote(const Storage& storage) { return fmt::format("\"{}\"", storage.path); }

  [[noreturn]] void refuse(const std::string& what, const std::string& requires_) const {
    throw GraphError({fmt::format("{}: {} cannot {}\n  requires   {}", to_string(line_),
                                  optimizer_.name(), what, requires_)});
  }

  Values values_of(const std::vector<ParameterGradient>& gradients) {
    Values values;
    for (const ParameterGradient& g : gradients) values.push_back(emitter_.value(g.value));
    return values;
  }

  void scale_decay(const Storage& parameter) {
    const double factor = parameter.decay;
    if (factor == 1 || decayed_.contains(factor)) return;
    decayed_[factor] = optimizer_.with_decay(factor);
    if (decayed_[factor] != nullptr) return;
    refuse(fmt::format("scale the weight decay of {} by {}", quote(parameter), factor),
           "an optimizer with a member `weight_decay`");
  }

  void check_moments() {
    std::set<std::string> names;
    for (const Moment& moment : moments_) {
      if (moment.name.empty() || moment.name.find('/') != std::string::npos ||
          !names.insert(moment.name).second) {
        refuse("keep its moments",
               fmt::format("moments of names of their own, of one letter or more without '/', but "
                           "\"{}\"",
                           moment.name));
      }
    }
  }

  void check(const std::string& what, const std::string& part, const Type& type,
             const Value& made) const {
    const auto refuse_for = [&](const std::string& but) {
      refuse(what, fmt::format("{} of type {}, but {}", part, to_string(type), but));
    };
    if (!made.present()) refuse_for("an absent one (a default-made Value)");
    if (made.emitter() != &emitter_) refuse_for("a value of another graph");
    if (made.poisoned()) refuse_for("a poisoned one");
    if (made.type() != type) refuse_for(to_string(made.type()));
    if (!always_computed(made)) refuse(what, needs_always(made).requires_);
  }

  /// Refuses the rule if its own expressions made mistakes, each a line indented under the header.
  void refuse_mistakes(const std::string& what) const {
    const std::vector<std::string>& mistakes = emitter_.mistakes;
    if (mistakes.empty()) return;
    std::string text = "expressions without a mistake, but";
    for (const char letter : fmt::format("\n{}", fmt::join(mistakes, "\n"))) {
      text += letter;
      if (letter == '\n') text += "    ";
    }
    refuse(what, text);
  }

  Emitter& emitter_;
  ir::Graph& graph_;
  const OptimizerRule& optimizer_;
  Line line_;
  std::vector<Moment> moments_ = optimizer_.moments();
  std::map<double, Values> scalars_;                                // by rate
  std::map<double, std::shared_ptr<const OptimizerRule>> decayed_;  // by factor, other than 1
};

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
      if (!graph_.objectives().empty()) advance(graph_.counters().update, line);
    }
    for (std::int32_t i = 0; i < count(); ++i) {
      if (by_training_[i]) follow(i);
    }
    ir::Graph step = copier_.finish();
    std::vector<Assignment> assignments = step.assignments();
    assignments.insert(assignments.end(), made_.begin(), made_.end());
    step.set_assignments(std::move(assignments));
    for (std::size_t o = 0; o < step.objectives().size(); ++o) step.set_gradients(o, {});
    return step;
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

  void advance(StorageId counter, const Line& line) {
    const Value next = apply(Increment{}, {copier_.emitter.read(counter)}, line);
    made_.push_back({counter, next.id(), line});
  }

  void update(std::size_t index) {
    const ir::MinimizedLoss& objective = graph_.objectives()[index];
    std::vector<ParameterGradient> gradients = objective.gradients;
    for (ParameterGradient& g : gradients) g.value = copier_.at(g.value);
    OptimizerCall updates(copier_.emitter, objective);
    const Values clipped = updates.clip(gradients);
    for (std::int32_t i = 0; i < count(); ++i) {
      const OfUpdate* asked = graph_.nodes()[i].op->as<OfUpdate>();
      if (asked == nullptr || objective_of(*graph_.nodes()[i].op) != index) continue;
      copier_.replace(i, {updates.number(asked->number, gradients, clipped)});
    }
    updates.make_scalars(gradients);
    for (std::size_t i = 0; i < gradients.size(); ++i) {
      for (const Assignment& next : updates.update_parameter(gradients[i].parameter, clipped[i])) {
        made_.push_back(next);
      }
    }
  }

  /// A node that is made of what training makes.
  void follow(std::int32_t index) {
    const Node& node = graph_.nodes()[index];
    if (node.op->as<OfUpdate>() != nullptr) return;
    if (node.op->as<GradientOf>() != nullptr) {
      copier_.replace({index, 0}, copier_.at(node.inputs[0]));
    } else if (const AfterUpdate* after = node.op->as<AfterUpdate>()) {
      copier_.replace({index, 0}, value_after_update(after->storage));
    } else {
      copier_.copy(index);
    }
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
};

}  // namespace

ir::Graph update(ir::Graph graph, const Settings& settings) {
  return settings.mode == Mode::train ? StepWriter(graph).run() : graph;
}

}  // namespace metronome::passes
