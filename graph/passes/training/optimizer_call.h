// An optimizer at work on a graph: asked for what a step needs of it, and checked, as its rule may
// be a user's own. Internal to the pass `update`.
#pragma once

#include <fmt/format.h>

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "graph/emit/emitter.h"
#include "graph/emit/scope.h"
#include "graph/ir/error.h"
#include "graph/ir/graph.h"
#include "graph/ir/structural.h"

namespace metronome::passes {

/// An optimizer at work on a graph. The results of its rule are checked, as the rule may be the
/// user's own.
class OptimizerCall {
 public:
  OptimizerCall(Emitter& emitter, const ir::MinimizedLoss& objective)
      : emitter_(emitter),
        graph_(emitter.graph),
        optimizer_(*objective.optimizer),
        counter_(objective.counter),
        line_(objective.line) {
    check_names(moments_, "moments");
    keep_states(objective.name);
  }

  /// Gradients clipped.
  Values clip(const std::vector<ParameterGradient>& gradients) {
    const Values given = values_of(gradients);
    const Values made = optimizer_.clip(given, states_);
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
      result = optimizer_.learning_rate(emitter_.read(counter_), states_);
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

  /// Makes the scalars of each rate and weight decay, for `update_parameter`.
  void make_scalars(const std::vector<ParameterGradient>& gradients, ValueId guard) {
    std::optional<PassScope> place;
    if (guard.present()) place.emplace(emitter_, std::string(kMomentsRoot), line_, guard);
    for (const ParameterGradient& g : gradients) {
      const Storage& parameter = graph_.storage(g.parameter);
      const auto scales = std::pair(parameter.rate, parameter.decay);
      if (scalars_.contains(scales)) continue;
      scale_decay(parameter);
      scalars_[scales] =
          rule_of(parameter).scalars(emitter_.read(counter_), parameter.rate, states_);
    }
    refuse_mistakes("make its scalars");
  }

  /// The next values of the states that change, under the guard. `loss`: of this step.
  std::vector<Assignment> advance_states(const Value& loss, ValueId guard) {
    if (states_.empty()) return {};
    std::optional<PassScope> place;
    if (guard.present()) place.emplace(emitter_, std::string(kMomentsRoot), line_, guard);
    constexpr const char* kWhat = "advance its states";
    const Values next = optimizer_.next_states(emitter_.read(counter_), loss, states_);
    refuse_mistakes(kWhat);
    if (next.size() != states_.size()) {
      refuse(kWhat, fmt::format("as many as it has, {}, but {}", states_.size(), next.size()));
    }
    std::vector<Assignment> assignments;
    for (std::size_t i = 0; i < next.size(); ++i) {
      check(kWhat, fmt::format("the next value of \"{}\"", kept_[i].name), Type{f64, {}}, next[i]);
      if (next[i].id() == states_[i].id()) continue;
      assignments.push_back({storages_[i], next[i].id(), line_});
    }
    return assignments;
  }

  /// The next value of the parameter and of its moments, which it makes, under the guard.
  std::vector<Assignment> update_parameter(StorageId id, Value gradient, ValueId guard) {
    const Storage parameter = graph_.storage(id);
    const std::string what = "update parameter " + quote(parameter);
    PassScope place(emitter_, fmt::format("{}/{}", kMomentsRoot, parameter.path), line_, guard);
    Values moments;
    std::vector<StorageId> storages = {id};
    for (const Moment& moment : moments_) {
      if (const auto wrong = wrong_init(moment.init, parameter.type, false)) {
        refuse(fmt::format("begin moment \"{}\" of {}", moment.name, quote(parameter)),
               wrong->requires_);
      }
      const std::string path = ir::path_of_moment(moment, parameter.path);
      if (graph_.find_storage(path)) {
        refuse(fmt::format("keep moment \"{}\" of {}", moment.name, quote(parameter)),
               moment.is_average
                   ? fmt::format("a path of its own, but an average has \"{}\"\n"
                                 "  way out    give the average another name",
                                 path)
                   : fmt::format("a path of its own, but an objective keeps \"{}\"\n"
                                 "  way out    give the objective, or the moment, another name",
                                 path));
      }
      const StorageKind kind = moment.is_average ? StorageKind::average : StorageKind::moment;
      storages.push_back(
          graph_.append_storage({path, parameter.type, kind, moment.init, parameter.line, false}));
      if (moment.is_average) graph_.set_beginning(storages.back(), id);
      moments.push_back(emitter_.read(storages.back()));
    }
    const Values next = rule_of(parameter).update(emitter_.read(id), gradient, moments,
                                                  scalars_.at({parameter.rate, parameter.decay}));
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

  const OptimizerRule& rule_of(const Storage& parameter) const {
    return parameter.decay == 1 ? optimizer_ : *decayed_.at(parameter.decay);
  }

  void check_names(const std::vector<Moment>& all, std::string_view what) const {
    std::set<std::string> names;
    for (const Moment& moment : all) {
      if (moment.name.empty() || moment.name.find('/') != std::string::npos ||
          !names.insert(moment.name).second) {
        refuse(fmt::format("keep its {}", what),
               fmt::format("{} of names of their own, of one letter or more without '/', but "
                           "\"{}\"",
                           what, moment.name));
      }
    }
  }

  void keep_states(const std::string& objective) {
    check_names(kept_, "states");
    const Type type{f64, {}};
    for (const Moment& state : kept_) {
      const std::string what = fmt::format("keep its state \"{}\"", state.name);
      if (const auto wrong = wrong_init(state.init, type, false)) refuse(what, wrong->requires_);
      const std::string path = ir::path_of_state(state.name, objective);
      if (graph_.find_storage(path)) {
        refuse(what, fmt::format("a path that no moment of an optimizer has, but \"{}\" is one\n"
                                 "  way out    give the objective, or the moment, another name",
                                 path));
      }
      storages_.push_back(
          graph_.append_storage({path, type, StorageKind::moment, state.init, line_, false}));
      states_.push_back(emitter_.read(storages_.back()));
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
    if (!always_computed(made) && made.node().guard != emitter_.guard) {
      refuse(what, needs_always(made).requires_);
    }
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
  StorageId counter_;
  Line line_;
  std::vector<Moment> moments_ = optimizer_.moments();
  std::vector<Moment> kept_ = optimizer_.states();
  std::vector<StorageId> storages_;                                 // [state]
  Values states_;                                                   // as they are before the step
  std::map<std::pair<double, double>, Values> scalars_;             // by rate and decay
  std::map<double, std::shared_ptr<const OptimizerRule>> decayed_;  // by factor, other than 1
};

}  // namespace metronome::passes
