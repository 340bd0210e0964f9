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

// The first expressions and the host's functions beside them write one formula twice; later ones
// are templates. A test compares them at every update.

Value number(Value like, double x) {
  return make_constant(like.emitter(), x, Type{f64, {}}, Line{});
}

Value update_as_f64(Value update) { return update.cast(f64); }

// The functions of values, for numbers on the host.
double where(bool condition, double x, double y) { return condition ? x : y; }
double minimum(double x, double y) { return std::min(x, y); }
double maximum(double x, double y) { return std::max(x, y); }
bool logical_and(bool x, bool y) { return x && y; }
double floor_of(double x) { return std::floor(x); }
Value floor_of(const Value& x) { return floor(x); }
double cosine_of(double x) { return std::cos(x); }
Value cosine_of(const Value& x) { return cos(x); }
double power_of(double x, double y) { return std::pow(x, y); }
Value power_of(const Value& x, double y) { return pow(x, y); }
Value power_of(double x, const Value& y) { return pow(x, y); }
double logarithm_of(double x) { return std::log(x); }
Value logarithm_of(const Value& x) { return log(x); }

// Rates at update t. N: Value or double.

template <class N>
N rate_at(const ExponentialDecay& r, const N& t) {
  return r.lr * power_of(r.gamma, t);
}

template <class N>
N rate_at(const PolynomialDecay& r, const N& t) {
  const auto steps = static_cast<double>(r.steps);
  return r.lr * power_of(1.0 - minimum(t, steps) / steps, r.power);
}

template <class N>
N rate_at(const MultiStepDecay& r, const N& t) {
  N rate = 0.0 * t + r.lr;
  double lr = r.lr;
  for (const std::int64_t milestone : r.milestones) {
    lr *= r.gamma;
    rate = where(t >= static_cast<double>(milestone), lr, rate);
  }
  return rate;
}

template <class N>
N rate_at(const CosineRestarts& r, const N& t) {
  const auto steps = static_cast<double>(r.steps), factor = static_cast<double>(r.factor);
  const auto fallen = [&](const N& share) {
    return r.minimum + (r.lr - r.minimum) * 0.5 * (1.0 + cosine_of(std::numbers::pi * share));
  };
  if (r.factor == 1) return fallen(t / steps - floor_of(t / steps));
  // The n-th period begins at steps (factor^n - 1) / (factor - 1). A logarithm may lie just below.
  const N n =
      floor_of(logarithm_of(t / steps * (factor - 1) + 1.0) * (1 / std::log(factor)) + 1e-9);
  const N length = power_of(factor, n);
  return fallen((t - steps * ((length - 1.0) / (factor - 1))) / (steps * length));
}

template <class N>
N rate_at(const OneCycle& r, const N& t) {
  const double total = static_cast<double>(r.steps) - 1;
  const double top = r.rise * static_cast<double>(r.steps) - 1;
  const double start = r.lr / r.start_divisor, end = start / r.end_divisor;
  const auto between = [&](double from, double to, const N& share) {
    return r.linear ? from + (to - from) * share
                    : to + (from - to) * 0.5 * (1.0 + cosine_of(std::numbers::pi * share));
  };
  return where(t <= top, between(start, r.lr, minimum(t / std::max(top, 1e-300), 1.0)),
               between(r.lr, end, minimum(maximum(t - top, 0.0) / (total - top), 1.0)));
}

template <class N>
N rate_at(const Cyclic& r, const N& t) {
  const auto up = static_cast<double>(r.up), total = up + static_cast<double>(r.down);
  const N cycle = floor_of(t / total), place = t / total - cycle;
  const double ratio = up / total;
  N height = where(place <= ratio, place / ratio, (place - 1.0) / (ratio - 1.0));
  if (r.halves) height = height * power_of(0.5, cycle);
  if (r.gamma != 1) height = height * power_of(r.gamma, t);
  return r.lr + (r.highest - r.lr) * height;
}

/// The states of a plateau, in their order. N: Value or double.
template <class N>
struct PlateauStates {
  N rate, best, bad_looks, rest, losses, loss_sum;
};

/// The states behind an update with that loss. `looks`: it is the last of those that a look is at.
template <class N, class Condition>
PlateauStates<N> next_states_of(const Plateau& p, Condition looks, N loss,
                                const PlateauStates<N>& s) {
  const N losses = s.losses + 1.0, sum = s.loss_sum + loss, mean = sum / losses;
  // A best one below 0 is undercut by what is further from 0.
  const auto falls = mean < minimum(s.best * (1 - p.threshold), s.best * (1 + p.threshold));
  const auto rests = s.rest > 0.0;
  const N bad = where(rests, 0.0, where(falls, 0.0, s.bad_looks + 1.0));
  const auto lowers = bad > static_cast<double>(p.patience);
  const N lower = maximum(s.rate * p.factor, p.minimum);
  const N rate = where(logical_and(lowers, s.rate - lower > p.eps), lower, s.rate);
  const N rest = where(lowers, static_cast<double>(p.cooldown), where(rests, s.rest - 1.0, s.rest));
  return {where(looks, rate, s.rate),
          where(looks, where(falls, mean, s.best), s.best),
          where(looks, where(lowers, 0.0, bad), s.bad_looks),
          where(looks, rest, s.rest),
          where(looks, 0.0, losses),
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
std::string text(const ExponentialDecay& r) {
  return fmt::format("exponential(lr={} gamma={})", r.lr, r.gamma);
}
std::string text(const PolynomialDecay& r) {
  return fmt::format("polynomial(lr={} steps={} power={})", r.lr, r.steps, r.power);
}
std::string text(const MultiStepDecay& r) {
  return fmt::format("multi_step(lr={} milestones={} gamma={})", r.lr, fmt::join(r.milestones, ","),
                     r.gamma);
}
std::string text(const CosineRestarts& r) {
  return fmt::format("cosine_restarts(lr={} steps={} factor={} minimum={})", r.lr, r.steps,
                     r.factor, r.minimum);
}
std::string text(const OneCycle& r) {
  return fmt::format("one_cycle(lr={} steps={} rise={} start_divisor={} end_divisor={}{})", r.lr,
                     r.steps, r.rise, r.start_divisor, r.end_divisor, r.linear ? " linear" : "");
}
std::string text(const Cyclic& r) {
  return fmt::format("cyclic(lr={} highest={} up={} down={} gamma={}{})", r.lr, r.highest, r.up,
                     r.down, r.gamma, r.halves ? " halves" : "");
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
std::optional<Requirement> wrong(const ExponentialDecay& r) {
  return first_of({unless_at_least_0("learning rate", r.lr), unless_at_least_0("gamma", r.gamma)});
}
std::optional<Requirement> wrong(const PolynomialDecay& r) {
  return first_of({unless_at_least_0("learning rate", r.lr), positive("steps", r.steps),
                   unless_at_least_0("power", r.power)});
}
std::optional<Requirement> wrong(const MultiStepDecay& r) {
  for (std::size_t i = 1; i < r.milestones.size(); ++i) {
    if (r.milestones[i] > r.milestones[i - 1]) continue;
    return Requirement{
        fmt::format("milestones that rise, but {} after {}", r.milestones[i], r.milestones[i - 1])};
  }
  return first_of({unless_at_least_0("learning rate", r.lr), unless_at_least_0("gamma", r.gamma)});
}
std::optional<Requirement> wrong(const CosineRestarts& r) {
  return first_of({unless_at_least_0("learning rate", r.lr), positive("steps", r.steps),
                   positive("factor", r.factor), unless_at_least_0("minimum", r.minimum)});
}
std::optional<Requirement> wrong(const OneCycle& r) {
  std::optional<Requirement> no_way;
  if (!(r.rise > 0 && r.rise < 1) || r.steps < 2) {
    no_way = Requirement{fmt::format(
        "2 steps or more, and a rise between 0 and 1 of them, but {} and {}", r.steps, r.rise)};
  }
  return first_of({unless_at_least_0("learning rate", r.lr), no_way,
                   unless_above_0("start_divisor", r.start_divisor),
                   unless_above_0("end_divisor", r.end_divisor)});
}
std::optional<Requirement> wrong(const Cyclic& r) {
  std::optional<Requirement> falls;
  if (r.highest < r.lr) {
    falls = Requirement{fmt::format("a highest rate of {} or more, but {}", r.lr, r.highest)};
  }
  return first_of({unless_at_least_0("learning rate", r.lr),
                   unless_at_least_0("highest rate", r.highest), falls, positive("up", r.up),
                   positive("down", r.down), unless_at_least_0("gamma", r.gamma)});
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

bool keeps_states(const Rate& rate) {
  return std::visit([]<class T>(const T&) { return HasStates<T>; }, rate);
}

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

#define METRONOME_RATE(Kind)                                                           \
  Value Kind::at(Value update) const { return rate_at(*this, update_as_f64(update)); } \
  double Kind::at(std::int64_t update) const { return rate_at(*this, static_cast<double>(update)); }
METRONOME_RATE(ExponentialDecay)
METRONOME_RATE(PolynomialDecay)
METRONOME_RATE(MultiStepDecay)
METRONOME_RATE(CosineRestarts)
METRONOME_RATE(OneCycle)
METRONOME_RATE(Cyclic)

LearningRate LearningRate::then(std::int64_t milestone, const LearningRate& next) const {
  LearningRate result = *this;
  for (Part part : next.parts_) {
    part.from += milestone;
    result.parts_.push_back(part);
  }
  return result;
}

const LearningRate::Part* LearningRate::part_with_states() const {
  const auto found = std::ranges::find_if(parts_, keeps_states, &Part::rate);
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
          {"plateau_losses", zeros()},
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
  const PlateauStates<Value> s{states[0], states[1], states[2], states[3], states[4], states[5]};
  const PlateauStates<Value> next = next_states_of(plateau, looks, loss, s);
  Values all = {next.rate, next.best, next.bad_looks, next.rest, next.losses, next.loss_sum};
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
  const PlateauStates<double> s{states[0], states[1], states[2], states[3], states[4], states[5]};
  const PlateauStates<double> next = next_states_of(plateau, looks, loss, s);
  return {next.rate, next.best, next.bad_looks, next.rest, next.losses, next.loss_sum};
}

void LearningRate::require_states(std::size_t given) const {
  if (given >= states().size()) return;
  throw GraphError(
      {fmt::format("the learning rate {} is asked for without its states\n"
                   "  requires   lr.at(update, states), of the states that lr.states() "
                   "lists, in all members of an optimizer that read it: scalars, and "
                   "learning_rate(update, states)",
                   to_string(*this))});
}

Value LearningRate::at(Value update, std::span<const Value> states) const {
  require_states(states.size());
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
  require_states(states.size());
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
  if (std::ranges::count_if(parts_, keeps_states, &Part::rate) > 1) {
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
