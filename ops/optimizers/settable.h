// Numbers of optimizers: fixed, or such as are set between steps.
//
//   mt::AdamW{.lr = mt::Settable{1e-3}, .weight_decay = 0.01}
//   step.set_learning_rate(1e-4);
//
// A settable number is a state of the optimizer: f64[], read by each update, part of checkpoints.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/ir/error.h"
#include "graph/ir/optimizer.h"
#include "graph/ir/value.h"

namespace metronome {

/// A number that may be set between steps (`Executable::set_learning_rate`, `set_weight_decay`,
/// `set_clip_norm`), and what it is at first.
struct Settable {
  double number = 0;
  bool operator==(const Settable&) const = default;
};

/// A weight decay, or the most norm of gradients.
class Hyperparameter {
 public:
  Hyperparameter(double number) : number_(number) {}  // NOLINT: implicit, for `.weight_decay = 0.1`
  Hyperparameter(Settable first)                      // NOLINT: implicit
      : number_(first.number), settable_(true) {}

  /// The number as declared, with its factor.
  double number() const { return number_ * factor_; }
  bool settable() const { return settable_; }
  /// True if it never is anything else.
  bool is_zero() const { return factor_ == 0 || (!settable_ && number_ == 0); }
  /// `factor` times what it is, also where it is set.
  Hyperparameter& operator*=(double factor);
  bool operator==(const Hyperparameter&) const = default;

  /// The state under that name, if it is settable.
  std::vector<Moment> states(std::string_view name) const;
  /// The number at an update whose states these are, f64[] of the graph of `like`.
  Value at(Value like, std::span<const Value> states) const;
  double at(std::span<const double> states) const;

 private:
  double number_;
  double factor_ = 1;
  bool settable_ = false;
};

/// "0.1", "settable(0.1)".
std::string to_string(const Hyperparameter& number);

}  // namespace metronome
