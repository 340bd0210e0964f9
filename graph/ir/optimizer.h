// The erased optimizer: a rule from (parameter, gradient, moments) to their next values, as graph
// expressions, so that a replay needs nothing from the host.
//
//   struct Sgd {
//     static constexpr std::string_view name = "sgd";
//     bool operator==(const Sgd&) const = default;
//     std::string attributes() const;
//     std::vector<Moment> moments() const;                     // each of the parameter's type
//     Values clip(const Values& gradients) const;              // optional
//     std::optional<Requirement> mistake() const;              // optional: of its members
//     Values scalars(Value update, double rate) const;         // once a step and `rate`, which
//                                                              // multiplies the learning rate
//     Values update(Value parameter, Value gradient, std::span<const Value> moments,
//                   std::span<const Value> scalars) const;     // next parameter, next moments...
//     double weight_decay;                                     // optional; `update` alone reads it
//     bool lazy;                                               // optional: `OptimizerRule::lazy`
//     LearningRate lr;                                         // optional: Graph::learning_rate
//     Value norm(const Values& gradients) const;               // optional: Graph::gradient_norm,
//   };                                                         // skip_not_finite
//
// A rule may keep scalars of all parameters together, f64[], from update to update:
//
//     std::vector<Moment> states() const;
//     Values next_states(Value update, Value loss,
//                        std::span<const Value> states) const;  // optional
//     bool watches_loss() const;  // optional: false if `next_states` does not read the loss
//
// `clip` and `scalars` then take the states, as they were before the update, as a last argument; so
// does `learning_rate(update, states)`, for Graph::learning_rate. An `lr` that keeps states, as a
// `Settable` one, has them among the rule's. A state `learning_rate` is what users set
// (`Executable::set_learning_rate`); `weight_decay` and `clip_norm` likewise.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <typeindex>
#include <vector>

#include "graph/ir/error.h"
#include "graph/ir/init.h"
#include "graph/ir/value.h"

namespace metronome {

/// One moment of the optimizer, kept under `optimizer/<name>/<parameter's path>`; or one of its
/// states, under `optimizer/<name>` and, of an objective with a name, `/<that name>`.
struct Moment {
  std::string name;  ///< "exp_avg"
  Init init = {};
  /// A moment that evaluations `.with` its name have in the parameter's place, kept under
  /// `average/<name>/<parameter's path>`. It begins as the parameter.
  bool is_average = false;
};

class OptimizerRule {
 public:
  virtual ~OptimizerRule() = default;
  virtual std::string_view name() const = 0;
  virtual std::type_index kind() const = 0;
  virtual const void* rules() const = 0;
  virtual std::string attributes() const = 0;
  virtual std::vector<Moment> moments() const = 0;
  /// The requirement that a member does not meet ("a learning rate of 0 or more, but -1"), or
  /// nothing.
  virtual std::optional<Requirement> mistake() const = 0;
  virtual std::vector<Moment> states() const = 0;
  virtual Values clip(const Values& gradients, std::span<const Value> states) const = 0;
  virtual Values scalars(Value update, double rate, std::span<const Value> states) const = 0;
  /// The states behind an update; one that stays is the same value. The rule gets the loss as f64.
  virtual Values next_states(Value update, Value loss, std::span<const Value> states) const = 0;
  /// True if the states depend on the loss, which ranks must then have in common.
  virtual bool watches_loss() const = 0;
  virtual Values update(Value parameter, Value gradient, std::span<const Value> moments,
                        std::span<const Value> scalars) const = 0;
  /// True if rows of a table that a step does not look up keep their values and moments.
  virtual bool lazy() const = 0;
  /// The rule with `factor` times its weight decay; null if it has none.
  virtual std::shared_ptr<const OptimizerRule> with_decay(double factor) const = 0;
  /// f64[]; each absent where the rule does not know it.
  virtual Value learning_rate(Value update, std::span<const Value> states) const = 0;
  virtual Value norm(const Values& gradients) const = 0;

  template <class T>
  const T* as() const {
    return kind() == typeid(T) ? static_cast<const T*>(rules()) : nullptr;
  }
};

template <class T>
concept MakesScalars = requires(const T& t, Value v) {
  { t.scalars(v, 1.0) } -> std::same_as<Values>;
} || requires(const T& t, Value v, std::span<const Value> s) {
  { t.scalars(v, 1.0, s) } -> std::same_as<Values>;
};

template <class T>
concept OptimizerRules = requires(const T& t, Value v, std::span<const Value> s) {
  { std::string_view(t.name) };
  { t.attributes() } -> std::same_as<std::string>;
  { t.moments() } -> std::same_as<std::vector<Moment>>;
  requires MakesScalars<T>;
  { t.update(v, v, s, s) } -> std::same_as<Values>;
};

template <OptimizerRules T>
class OptimizerModel final : public OptimizerRule {
 public:
  explicit OptimizerModel(T rule) : rule_(std::move(rule)) {}
  std::string_view name() const override { return T::name; }
  std::type_index kind() const override { return typeid(T); }
  const void* rules() const override { return &rule_; }
  std::string attributes() const override { return rule_.attributes(); }
  std::vector<Moment> moments() const override { return rule_.moments(); }
  std::optional<Requirement> mistake() const override {
    if constexpr (requires { rule_.lr.states(); } && !requires { rule_.states(); }) {
      if (!rule_.lr.states().empty()) {
        return Requirement{"a member function `states` for an lr that is settable or a plateau"};
      }
    }
    if constexpr (requires { rule_.mistake(); }) return rule_.mistake();
    return std::nullopt;
  }
  std::vector<Moment> states() const override {
    if constexpr (requires { rule_.states(); }) return rule_.states();
    return {};
  }
  Values clip(const Values& gradients, std::span<const Value> states) const override {
    if constexpr (requires { rule_.clip(gradients, states); }) {
      return rule_.clip(gradients, states);
    } else if constexpr (requires { rule_.clip(gradients); }) {
      return rule_.clip(gradients);
    }
    return gradients;
  }
  Values scalars(Value update, double rate, std::span<const Value> states) const override {
    if constexpr (requires { rule_.scalars(update, rate, states); }) {
      return rule_.scalars(update, rate, states);
    } else {
      return rule_.scalars(update, rate);
    }
  }
  Values next_states(Value update, Value loss, std::span<const Value> states) const override {
    if constexpr (requires { rule_.next_states(update, loss, states); }) {
      return rule_.next_states(update, loss.cast(f64), states);
    }
    return Values(states.begin(), states.end());
  }
  bool watches_loss() const override {
    if constexpr (requires { bool(rule_.watches_loss()); }) return rule_.watches_loss();
    return requires(Value v, std::span<const Value> s) { rule_.next_states(v, v, s); };
  }
  Values update(Value parameter, Value gradient, std::span<const Value> moments,
                std::span<const Value> scalars) const override {
    return rule_.update(parameter, gradient, moments, scalars);
  }
  bool lazy() const override {
    if constexpr (requires { bool(rule_.lazy); }) return rule_.lazy;
    return false;
  }
  std::shared_ptr<const OptimizerRule> with_decay(double factor) const override {
    if constexpr (requires(T t) { t.weight_decay *= factor; }) {
      T scaled = rule_;
      scaled.weight_decay *= factor;
      return std::make_shared<OptimizerModel>(std::move(scaled));
    }
    return nullptr;
  }
  Value learning_rate(Value update, std::span<const Value> states) const override {
    if constexpr (requires { rule_.learning_rate(update, states); }) {
      return rule_.learning_rate(update, states);
    } else if constexpr (requires { Value(rule_.lr.at(update)); }) {
      return rule_.lr.at(update);
    }
    return {};
  }
  Value norm(const Values& gradients) const override {
    if constexpr (requires { Value(rule_.norm(gradients)); }) return rule_.norm(gradients);
    return {};
  }

 private:
  T rule_;
};

/// Any optimizer struct, for `Graph::minimize`.
class Optimizer {
 public:
  template <OptimizerRules T>
  Optimizer(T rule) : rule_(std::make_shared<OptimizerModel<T>>(std::move(rule))) {}
  const OptimizerRule& operator*() const { return *rule_; }
  const OptimizerRule* operator->() const { return rule_.get(); }

 private:
  std::shared_ptr<const OptimizerRule> rule_;
};

}  // namespace metronome
