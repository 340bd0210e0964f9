// Formulas. Logarithms of probabilities come from logits by softplus and log_softmax, so that both
// tails keep their digits; where a probability is 0, its product with a logarithm is chosen to be
// 0, and the logarithm that is multiplied is a finite one, so that gradients are finite, too.
#include "ops/losses/distributions.h"

#include <fmt/format.h>

#include <cmath>
#include <functional>
#include <limits>
#include <numbers>

#include "graph/emit/scope.h"
#include "graph/ir/error.h"
#include "ops/expr/functions.h"
#include "ops/language/activations.h"
#include "ops/language/composed.h"
#include "ops/language/indexing.h"
#include "ops/language/layers.h"
#include "ops/rules/require.h"

namespace metronome::distributions {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
const double kHalfLog2Pi = 0.5 * std::log(2 * std::numbers::pi);

void require_parameters(std::initializer_list<Value> parameters) {
  for (const Value& parameter : parameters) require_floating(parameter.type());
}

void require_index(const Value& index, const Value& logits) {
  const bool whole = index.element() == i64 || index.element() == i32;
  const Shape classes = logits.shape();
  if (whole && index.shape() == Shape(classes.begin(), classes.end() - 1)) return;
  throw Requirement{fmt::format("indices of i32 or i64 for each row of {}, but {}",
                                to_string(logits.type()), to_string(index.type()))};
}

void require_classes(const Value& logits, const Value& mask) {
  require_floating(logits.type());
  if (logits.rank() == 0 || logits.size(-1) < 1) {
    throw Requirement{
        fmt::format("a last axis of one class or more, but {}", to_string(logits.type()))};
  }
  if (!mask.present()) return;
  if (mask.element() != bool_) {
    throw Requirement{fmt::format("a mask of bool, but {}", to_string(mask.type()))};
  }
  if (mask.rank() <= logits.rank() && broadcast(mask.shape(), logits.shape()) == logits.shape()) {
    return;
  }
  throw Requirement{fmt::format("a mask that broadcasts to the logits, {}, but {}",
                                to_string(logits.shape()), to_string(mask.shape()))};
}

/// log(p), -inf where a class is illegal.
Value log_probs(const Categorical& of) {
  if (!of.mask.present()) return log_softmax(of.logits);
  return log_softmax(where(of.mask, of.logits, -kInfinity));
}

/// The mean of a logarithm over classes of such probabilities: one that is not drawn counts as 0,
/// whatever its logarithm is.
Value mean_of_drawn(const Value& log_p, const Value& logarithm) {
  return sum(exp(log_p) * where(log_p > -kInfinity, logarithm, 0.0), {-1});
}

}  // namespace

// ---- normal ------------------------------------------------------------------------------------

Value Normal::sample(const std::string& name, DrawOptions options, Line line) const {
  return stop_gradient(rsample(name, options, line), line);
}

Value Normal::rsample(const std::string& name, DrawOptions options, Line line) const {
  // The draw stands outside of the formula, under the user's own path.
  const Value shaped = compose(
      "normal", {loc, scale}, line, [&] { require_parameters({loc, scale}); },
      [&] { return stop_gradient(loc + scale * 0.0); });
  const Value noise = randn_like(shaped, name, options, line);
  return compose("normal", {loc, scale, noise}, line, [] {}, [&] { return loc + scale * noise; });
}

Value Normal::log_prob(Value value, Line line) const {
  return compose(
      "normal_log_prob", {loc, scale, value}, line,
      [&] { require_parameters({loc, scale, value}); },
      [&] { return -0.5 * square((value - loc) / scale) - log(scale) - kHalfLog2Pi; });
}

Value Normal::entropy(Line line) const {
  return compose(
      "normal_entropy", {loc, scale}, line, [&] { require_parameters({loc, scale}); },
      [&] { return log(scale) + loc * 0.0 + (0.5 + kHalfLog2Pi); });
}

Value kl_divergence(const Normal& p, const Normal& q, Line line) {
  return compose(
      "normal_kl", {p.loc, p.scale, q.loc, q.scale}, line,
      [&] { require_parameters({p.loc, p.scale, q.loc, q.scale}); },
      [&] {
        const Value apart = square(p.scale / q.scale) + square((p.loc - q.loc) / q.scale) - 1.0;
        return 0.5 * apart + (log(q.scale) - log(p.scale));
      });
}

// ---- diagonal normal ---------------------------------------------------------------------------

namespace {

Normal each(const DiagonalNormal& of) { return {of.loc, of.scale}; }

}  // namespace

Value DiagonalNormal::sample(const std::string& name, DrawOptions options, Line line) const {
  return each(*this).sample(name, options, line);
}
Value DiagonalNormal::rsample(const std::string& name, DrawOptions options, Line line) const {
  return each(*this).rsample(name, options, line);
}
Value DiagonalNormal::log_prob(Value value, Line line) const {
  return sum(each(*this).log_prob(value, line), {-1}, false, line);
}
Value DiagonalNormal::entropy(Line line) const {
  return sum(each(*this).entropy(line), {-1}, false, line);
}
Value kl_divergence(const DiagonalNormal& p, const DiagonalNormal& q, Line line) {
  return sum(kl_divergence(each(p), each(q), line), {-1}, false, line);
}

// ---- squashed normal ---------------------------------------------------------------------------

namespace {

/// log(1 - tanh(u)^2) = 2 (log 2 - u - softplus(-2 u)).
Value log_slope(const Value& u) { return 2.0 * (std::numbers::ln2 - u - softplus(-2.0 * u)); }

}  // namespace

Draw SquashedNormal::rsample(const std::string& name, DrawOptions options, Line line) const {
  const Normal inner{loc, scale};
  const Value u = inner.rsample(name, options, line);
  const Value density = compose(
      "squashed_normal_log_prob", {loc, scale, u}, line, [] {},
      [&] { return sum(inner.log_prob(u, line) - log_slope(u), {-1}); });
  return {tanh(u, line), density};
}

Value SquashedNormal::log_prob(Value value, Line line) const {
  return compose(
      "squashed_normal_log_prob", {loc, scale, value}, line,
      [&] { require_parameters({loc, scale, value}); },
      [&] {
        // tanh gives the ends themselves where it rounds.
        const double end = value.element() == f32 ? 1 - 0x1p-24 : 1 - 0x1p-53;
        const Value inside = clamp(value, -end, end);
        const Value u = 0.5 * (log1p(inside) - log1p(-inside));
        return sum(Normal{loc, scale}.log_prob(u, line) - log_slope(u), {-1});
      });
}

// ---- categorical -------------------------------------------------------------------------------

Value Categorical::sample(const std::string& name, DrawOptions options, Line line) const {
  if (!mask.present()) return categorical(logits, name, options, line);
  const Value legal = compose(
      "legal", {logits, mask}, line, [&] { require_classes(logits, mask); },
      [&] { return where(mask, logits, -kInfinity); });
  return categorical(legal, name, options, line);
}

namespace {

Value of_classes(std::string_view name, const Categorical& of, const Line& line,
                 const std::function<Value()>& build) {
  const auto check = [&] { require_classes(of.logits, of.mask); };
  if (!of.mask.present()) return compose(name, {of.logits}, line, check, build);
  return compose(name, {of.logits, of.mask}, line, check, build);
}

}  // namespace

Value Categorical::probs(Line line) const {
  return of_classes("categorical_probs", *this, line, [&] { return exp(log_probs(*this)); });
}

Value Categorical::log_prob(Value index, Line line) const {
  return compose(
      "categorical_log_prob", {logits, index}, line,
      [&] {
        require_classes(logits, mask);
        require_index(index, logits);
      },
      [&] {
        Shape one = index.shape();
        one.push_back(1);
        const Value picked = gather(log_probs(*this), -1, index.reshape(one));
        return picked.reshape(index.shape());
      });
}

Value Categorical::entropy(Line line) const {
  return of_classes("categorical_entropy", *this, line, [&] {
    const Value log_p = log_probs(*this);
    return -mean_of_drawn(log_p, log_p);
  });
}

Value kl_divergence(const Categorical& p, const Categorical& q, Line line) {
  return of_classes("categorical_kl", p, line, [&] {
    const Value log_p = log_probs(p);
    return mean_of_drawn(log_p, log_p) - mean_of_drawn(log_p, log_probs(q));
  });
}

// ---- Bernoulli ---------------------------------------------------------------------------------

namespace {

/// share * f, or 0 where the share is 0, whatever f is.
Value part(const Value& share, const Value& f) { return where(share > 0.0, share * f, 0.0); }

}  // namespace

Value Bernoulli::sample(const std::string& name, DrawOptions options, Line line) const {
  return bernoulli(sigmoid(logits, line), name, options, line);
}

Value Bernoulli::log_prob(Value value, Line line) const {
  return compose(
      "bernoulli_log_prob", {logits, value}, line, [&] { require_parameters({logits, value}); },
      [&] { return -(part(value, softplus(-logits)) + part(1.0 - value, softplus(logits))); });
}

Value Bernoulli::entropy(Line line) const {
  return compose(
      "bernoulli_entropy", {logits}, line, [&] { require_parameters({logits}); },
      [&] {
        return part(sigmoid(logits), softplus(-logits)) + part(sigmoid(-logits), softplus(logits));
      });
}

Value kl_divergence(const Bernoulli& p, const Bernoulli& q, Line line) {
  return compose(
      "bernoulli_kl", {p.logits, q.logits}, line, [&] { require_parameters({p.logits, q.logits}); },
      [&] {
        return part(sigmoid(p.logits), softplus(-q.logits) - softplus(-p.logits)) +
               part(sigmoid(-p.logits), softplus(q.logits) - softplus(p.logits));
      });
}

}  // namespace metronome::distributions
