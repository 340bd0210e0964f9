#include "ops/optimizers/settable.h"

#include <fmt/format.h>

#include "graph/emit/scope.h"
#include "ops/expr/functions.h"
#include "ops/language/init.h"

namespace metronome {

Hyperparameter& Hyperparameter::operator*=(double factor) {
  factor_ *= factor;
  return *this;
}

std::vector<Moment> Hyperparameter::states(std::string_view name) const {
  if (!settable_) return {};
  return {{std::string(name), constant(number_)}};
}

Value Hyperparameter::at(Value like, std::span<const Value> states) const {
  if (!settable_) return make_constant(like.emitter(), number(), Type{f64, {}}, Line{});
  return factor_ == 1 ? states[0] : states[0] * factor_;
}

double Hyperparameter::at(std::span<const double> states) const {
  return settable_ ? states[0] * factor_ : number();
}

std::string to_string(const Hyperparameter& number) {
  return number.settable() ? fmt::format("settable({})", number.number())
                           : fmt::format("{}", number.number());
}

}  // namespace metronome
