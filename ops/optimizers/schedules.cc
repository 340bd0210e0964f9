#include "ops/optimizers/schedules.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "graph/emit/scope.h"
#include "ops/expr/functions.h"
#include "ops/rules/require.h"

namespace metronome {

namespace {

// The expressions below and the host's functions beside them write one formula twice; a test
// compares them at every update.

Value number(Value like, double x) {
  return make_constant(like.emitter(), x, Type{f64, {}}, Line{});
}

Value update_as_f64(Value update) { return update.cast(f64); }

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

Value LearningRate::at(Value update) const {
  const auto at_part = [&](const Part& part) {
    // A part that has not begun yet is evaluated, too, and then not chosen: keep it in its range.
    const Value own =
        part.from == 0
            ? update
            : maximum(update_as_f64(update) - static_cast<double>(part.from), 0.0).cast(i64);
    return std::visit([&](const auto& rate) { return rate.at(own); }, part.rate);
  };
  Value result = at_part(parts_[0]);
  for (std::size_t i = 1; i < parts_.size(); ++i) {
    const Value begun = update_as_f64(update) >= static_cast<double>(parts_[i].from);
    result = where(begun, at_part(parts_[i]), result);
  }
  return result;
}

double LearningRate::at(std::int64_t update) const {
  const Part* current = &parts_[0];
  for (const Part& part : parts_) {
    if (update >= part.from) current = &part;
  }
  return std::visit([&](const auto& rate) { return rate.at(update - current->from); },
                    current->rate);
}

std::optional<Requirement> LearningRate::mistake() const {
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
