// Random numbers of ATen: new in each replay, from the seed of the executable.
#include <cmath>
#include <string>

#include "executor/import/aten/call.h"
#include "graph/ir/structural.h"
#include "ops/dropout/dropout.h"
#include "ops/language/draws.h"

namespace metronome::pt2 {
namespace {

/// Each draw has the name of its value in the file.
std::string name_of(const Call& c) {
  return c.node().outputs.empty() ? "draw" : c.node().outputs[0];
}

/// Numbers of a type, drawn in f32 where it is neither f32 nor f64.
Value uniform(const Call& c, const Type& type) {
  const bool wide = type.element == f64;
  const Value drawn =
      rand(read_seed(c.emitter()), name_of(c), {wide ? f64 : f32, type.shape}, {}, c.line());
  return drawn.element() == type.element ? drawn : drawn.cast(type.element, c.line());
}

Value normal(const Call& c, const Type& type) {
  const bool wide = type.element == f64;
  const Value drawn =
      randn(read_seed(c.emitter()), name_of(c), {wide ? f64 : f32, type.shape}, {}, c.line());
  return drawn.element() == type.element ? drawn : drawn.cast(type.element, c.line());
}

/// Whole numbers from `low` to before `high`.
Values whole(const Call& c) {
  const double low = c.number("low", 0), high = c.number("high");
  const Value drawn = uniform(c, {f64, c.output().shape});
  const Value spread = floor(drawn * Operand(high - low, c.line()), c.line());
  return {(spread + Operand(low, c.line())).cast(c.output().element, c.line())};
}

/// No gradient flows to the mean and the deviation, as in PyTorch.
Values normal_of(const Call& c) {
  const auto number = [&](const char* name, double otherwise) {
    const Operand given = c.has(name) ? c.operand(name) : Operand(otherwise, c.line());
    return given.number ? given : Operand(stop_gradient(given.value, c.line()), c.line());
  };
  return {number("mean", 0) + normal(c, c.output()) * number("std", 1)};
}

Values between(const Call& c) {
  const double from = c.number("from", 0), to = c.number("to", 1);
  return {uniform(c, c.output()) * Operand(to - from, c.line()) + Operand(from, c.line())};
}

/// 1 with probability p, of the output's type.
Values coins(const Call& c) {
  const Value self = c.value("self");
  const Value p =
      c.has("p") ? make_constant(c.emitter(), c.number("p"), self.type(), c.line()) : self;
  return {bernoulli(p, name_of(c), {}, c.line())};
}

// ---- dropout -----------------------------------------------------------------------------------

Value operand_of(const Call& c) { return c.value(c.has("input") ? "input" : "self"); }
bool drops(const Call& c) { return c.number("p") != 0 && c.flag("train", true); }

Values dropped(const Call& c) {
  const Value x = operand_of(c);
  if (!drops(c)) return {x};
  return {apply(Dropout{.p = c.number("p")}, {read_seed(c.emitter()), read_replay(c.emitter()), x},
                c.line())};
}

/// Ones and zeros: zero with probability p, for whole channels of x or for each element.
Value kept(const Call& c, const Value& x, bool channels) {
  Shape shape = x.shape();
  for (std::size_t d = 2; channels && d < shape.size(); ++d) shape[d] = 1;
  const Value p = make_constant(c.emitter(), 1 - c.number("p"), {x.element(), shape}, c.line());
  return bernoulli(p, name_of(c), {}, c.line());
}

Values channels_dropped(const Call& c) {
  const Value x = operand_of(c);
  if (!drops(c)) return {x};
  if (c.number("p") == 1) return {x * Operand(0, c.line())};
  return {x * (kept(c, x, true) * Operand(1 / (1 - c.number("p")), c.line()))};
}

/// Keeps mean 0 and variance 1 (Klambauer et al., 2017): what is dropped becomes -1.7581.
Translation alpha_dropped(bool channels) {
  return [channels](const Call& c) -> Values {
    const Line line = c.line();
    const Value x = operand_of(c);
    if (!drops(c)) return {x};
    const double p = c.number("p");
    if (p == 1) return {x * Operand(0, line)};
    constexpr double kAlpha = 1.7580993408473766;
    const double a = 1 / std::sqrt((kAlpha * kAlpha * p + 1) * (1 - p));
    const Value keep = kept(c, x, channels);
    const Value noise =
        (keep - Operand(1, line)) * Operand(kAlpha * a, line) + Operand(kAlpha * a * p, line);
    return {x * (keep * Operand(a, line)) + noise};
  };
}

}  // namespace

void add_draws(Table& t) {
  t["aten.dropout"] = dropped;
  t["aten.feature_dropout"] = channels_dropped;
  t["aten.alpha_dropout"] = alpha_dropped(false);
  t["aten.feature_alpha_dropout"] = alpha_dropped(true);
  t["aten.bernoulli"] = coins;
  for (const char* name : {"rand", "rand_like"}) {
    t[std::string("aten.") + name] = [](const Call& c) { return Values{uniform(c, c.output())}; };
  }
  for (const char* name : {"randn", "randn_like"}) {
    t[std::string("aten.") + name] = [](const Call& c) { return Values{normal(c, c.output())}; };
  }
  t["aten.randint"] = whole;
  t["aten.randint_like"] = whole;
  t["aten.normal"] = normal_of;
  t["aten.uniform"] = between;
  t["aten.randperm"] = [](const Call& c) {
    return Values{permutation(read_seed(c.emitter()), name_of(c), c.integer("n"), {}, c.line())};
  };
}

}  // namespace metronome::pt2
