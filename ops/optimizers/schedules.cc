#include "ops/optimizers/schedules.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "graph/emit/scope.h"
#include "ops/expr/functions.h"
#include "ops/language/init.h"
#include "ops/rules/require.h"

namespace metronome {

namespace {

// The expressions below and the host's functions beside them write one formula twice; a test
// compares them at every update.

Value number(Value like, double x) {
  return make_constant(like.emitter(), x, Type{f64, {}}, Line{});
}

Value update_as_f64(Value update) { return update.cast(f64); }

// The functions of values, for numbers on the host.
double where(bool condition, double x, double y) { return condition ? x : y; }
double minimum(double x, double y) { return std::min(x, y); }
double maximum(double x, double y) { return std::max(x, y); }
bool logical_and(bool x, bool y) { return x && y; }

/// The states of a plateau, in their order. N: Value or double.
template <class N>
struct PlateauStates {
  N rate, best, bad_looks, rest, loss_sum;
};

/// The states behind an update with that loss. `looks`: it is the last of those that a look is at.
template <class N, class Condition>
PlateauStates<N> next_states_of(const Plateau& p, Condition looks, N loss,
                                const PlateauStates<N>& s) {
  const N sum = s.loss_sum + loss, mean = sum / static_cast<double>(p.every);
  // A best one below 0 is undercut by what is further from 0.
  const auto falls = mean < minimum(s.best * (1 - p.threshold), s.best * (1 + p.threshold));
  const auto rests = s.rest > 0.0;
  const N bad = where(rests, 0.0, where(falls, 0.0, s.bad_looks + 1.0));
  const auto lowers = bad > static_cast<double>(p.patience);
  const N lower = maximum(s.rate * p.factor, p.minimum);
  const N rate = where(logical_and(lowers, s.rate - lower > p.eps), lower, s.rate);
  const N rest = where(lowers, static_cast<double>(p.cooldown), where(rests, s.rest - 1.0, s.rest));
  return {where(looks, rate, s.rate), where(looks, where(falls, mean, s.best), s.best),
          where(looks, where(lowers, 0.0, bad), s.bad_looks), where(looks, rest, s.rest),
          where(looks, 0.0, sum)};
}

std::string text(const ConstantRate& r) {
  if (r.steps == 0 || r.factor == 1) return fmt::format("{}", r.lr);
  return fmt::format("constant(lr={} factor={} steps={})", r.lr, r.factor, r.steps);
}
std::string text(const LinearWarmup& r) {
  return fmt::format("linear(lr={} steps={} start={} end={})", r.lr, r.steps, r.start, r.end);
}
std::string text(const Cosine& r) {
  return fmt::format("cosine(lr={} steps={} minimum={})", r.lr, r.steps, r.minimum);
}
std::string text(const StepDecay& r) {
  return fmt::format("step(lr={} every={} gamma={})", r.lr, r.every, r.gamma);
}
std::string text(const Settable& r) { return fmt::format("settable({})", r.number); }
std::string text(const Plateau& r) {
  return fmt::format(
      "plateau(lr={} factor={} patience={} threshold={} cooldown={} minimum={} eps={} every={})",
      r.lr, r.factor, r.patience, r.threshold, r.cooldown, r.minimum, r.eps, r.every);
}

std::optional<Requirement> positive(const char* what, std::int64_t steps) {
  if (steps > 0) return std::nullopt;
  return Requirement{fmt::format("{} of 1 or more, but {}", what, steps)};
}
std::optional<Requirement> wrong(const ConstantRate& r) {
  return first_of({unless_at_least_0("learning rate", r.lr), unless_at_least_0("factor", r.factor),
                   unless_at_least_0("number of steps", static_cast<double>(r.steps)),
                   unless_finite("factor * lr", r.factor * r.lr)});
}
std::optional<Requirement> wrong(const LinearWarmup& r) {
  return first_of({unless_at_least_0("learning rate", r.lr), positive("steps", r.steps),
                   unless_at_least_0("start", r.start), unless_at_least_0("end", r.end),
                   unless_finite("start * lr", r.start * r.lr),
                   unless_finite("end * lr", r.end * r.lr)});
}
std::optional<Requirement> wrong(const Cosine& r) {
  return first_of({unless_at_least_0("learning rate", r.lr), positive("steps", r.steps),
                   unless_at_least_0("minimum", r.minimum)});
}
std::optional<Requirement> wrong(const StepDecay& r) {
  return first_of({unless_at_least_0("learning rate", r.lr), positive("every", r.every),
                   unless_at_least_0("gamma", r.gamma)});
}
std::optional<Requirement> wrong(const Settable& r) {
  return unless_at_least_0("learning rate", r.number);
}
std::optional<Requirement> wrong(const Plateau& r) {
  return first_of({unless_at_least_0("learning rate", r.lr), unless_below_1("factor", r.factor),
                   unless_at_least_0("patience", static_cast<double>(r.patience)),
                   unless_below_1("threshold", r.threshold),
                   unless_at_least_0("cooldown", static_cast<double>(r.cooldown)),
                   unless_at_least_0("minimum", r.minimum), unless_at_least_0("eps", r.eps),
                   positive("every", r.every)});
}

template <class T>
concept HasStates = std::same_as<T, Settable> || std::same_as<T, Plateau>;

}  // namespace

Value ConstantRate::at(Value update) const {
  const Value later = number(update, lr);
  if (steps == 0 || factor == 1) return later;
  return where(update_as_f64(update) < static_cast<double>(steps), number(update, lr * factor),
               later);
}
double ConstantRate::at(std::int64_t update) const { return update < steps ? lr * factor : lr; }

Value LinearWarmup::at(Value update) const {
  const auto n = static_cast<double>(steps);
  return lr * (start + (end - start) * (minimum(update_as_f64(update), n) / n));
}
double LinearWarmup::at(std::int64_t update) const {
  const auto n = static_cast<double>(steps);
  return lr * (start + (end - start) * (std::min(static_cast<double>(update), n) / n));
}

Value Cosine::at(Value update) const {
  const double turn = std::numbers::pi / static_cast<double>(steps);
  return minimum + (lr - minimum) * 0.5 * (1 + cos(update_as_f64(update) * turn));
}
double Cosine::at(std::int64_t update) const {
  const double turn = std::numbers::pi / static_cast<double>(steps);
  return minimum + (lr - minimum) * 0.5 * (1 + std::cos(static_cast<double>(update) * turn));
}

Value StepDecay::at(Value update) const {
  // A cast to an integer is the floor of what is not negative.
  const Value decays = (update_as_f64(update) / static_cast<double>(every)).cast(i64).cast(f64);
  return lr * pow(gamma, decays);
}
double StepDecay::at(std::int64_t update) const {
  return lr * std::pow(gamma, static_cast<double>(update / every));
}

LearningRate LearningRate::then(std::int64_t milestone, const LearningRate& next) const {
  LearningRate result = *this;
  for (Part part : next.parts_) {
    part.from += milestone;
    result.parts_.push_back(part);
  }
  return result;
}

const LearningRate::Part* LearningRate::part_with_states() const {
  const auto keeps = [](const Part& part) {
    return std::visit([]<class T>(const T&) { return HasStates<T>; }, part.rate);
  };
  const auto found = std::ranges::find_if(parts_, keeps);
  return found == parts_.end() ? nullptr : &*found;
}

std::vector<Moment> LearningRate::states() const {
  const Part* part = part_with_states();
  if (part == nullptr) return {};
  if (const auto* settable = std::get_if<Settable>(&part->rate)) {
    return {{"learning_rate", constant(settable->number)}};
  }
  return {{"learning_rate", constant(std::get<Plateau>(part->rate).lr)},
          {"plateau_best", constant(std::numeric_limits<double>::infinity())},
          {"plateau_bad_looks", zeros()},
          {"plateau_rest", zeros()},
          {"plateau_loss_sum", zeros()}};
}

bool LearningRate::watches_loss() const {
  const Part* part = part_with_states();
  return part != nullptr && std::holds_alternative<Plateau>(part->rate);
}

Values LearningRate::next_states(Value update, Value loss, std::span<const Value> states) const {
  if (!watches_loss()) return Values(states.begin(), states.end());
  const Part& part = *part_with_states();
  const auto& plateau = std::get<Plateau>(part.rate);
  const auto every = static_cast<double>(plateau.every);
  const Value done = update_as_f64(update) - static_cast<double>(part.from) + 1.0;
  // A cast to an integer is the floor of what is not negative.
  const Value looks = (done / every).cast(i64).cast(f64) * every == done;
  const PlateauStates<Value> s{states[0], states[1], states[2], states[3], states[4]};
  const PlateauStates<Value> next = next_states_of(plateau, looks, loss, s);
  Values all = {next.rate, next.best, next.bad_looks, next.rest, next.loss_sum};
  for (std::size_t i = 0; part.from > 0 && i < all.size(); ++i) {
    all[i] = where(done >= 1.0, all[i], states[i]);
  }
  return all;
}

std::vector<double> LearningRate::next_states(std::int64_t update, double loss,
                                              std::span<const double> states) const {
  std::vector<double> kept(states.begin(), states.end());
  if (!watches_loss() || update < part_with_states()->from) return kept;
  const Part& part = *part_with_states();
  const auto& plateau = std::get<Plateau>(part.rate);
  const bool looks = (update - part.from + 1) % plateau.every == 0;
  const PlateauStates<double> s{states[0], states[1], states[2], states[3], states[4]};
  const PlateauStates<double> next = next_states_of(plateau, looks, loss, s);
  return {next.rate, next.best, next.bad_looks, next.rest, next.loss_sum};
}

Value LearningRate::at(Value update, std::span<const Value> states) const {
  const auto at_part = [&](const Part& part) {
    // A part that has not begun yet is evaluated, too, and then not chosen: keep it in its range.
    const Value own =
        part.from == 0
            ? update
            : maximum(update_as_f64(update) - static_cast<double>(part.from), 0.0).cast(i64);
    return std::visit(
        [&]<class T>(const T& rate) {
          if constexpr (HasStates<T>) {
            return states[0];
          } else {
            return rate.at(own);
          }
        },
        part.rate);
  };
  Value result = at_part(parts_[0]);
  for (std::size_t i = 1; i < parts_.size(); ++i) {
    const Value begun = update_as_f64(update) >= static_cast<double>(parts_[i].from);
    result = where(begun, at_part(parts_[i]), result);
  }
  return result;
}

double LearningRate::at(std::int64_t update, std::span<const double> states) const {
  const Part* current = &parts_[0];
  for (const Part& part : parts_) {
    if (update >= part.from) current = &part;
  }
  return std::visit(
      [&]<class T>(const T& rate) {
        if constexpr (HasStates<T>) {
          return states[0];
        } else {
          return rate.at(update - current->from);
        }
      },
      current->rate);
}

std::optional<Requirement> LearningRate::mistake() const {
  const auto keeps = [](const Part& part) {
    return std::visit([]<class T>(const T&) { return HasStates<T>; }, part.rate);
  };
  if (std::ranges::count_if(parts_, keeps) > 1) {
    return Requirement{
        fmt::format("one rate at most that is settable or a plateau, but {}", to_string(*this))};
  }
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    if (auto found = std::visit([](const auto& rate) { return wrong(rate); }, parts_[i].rate)) {
      return found;
    }
    if (i > 0 && parts_[i].from <= parts_[i - 1].from) {
      return Requirement{
          fmt::format("milestones that rise, but {} after {}", parts_[i].from, parts_[i - 1].from)};
    }
  }
  return std::nullopt;
}

std::string to_string(const LearningRate& schedule) {
  std::string result;
  for (const auto& part : schedule.parts_) {
    if (!result.empty()) result += fmt::format(" then at {} ", part.from);
    result += std::visit([](const auto& rate) { return text(rate); }, part.rate);
  }
  return result;
}

}  // namespace metronome
