// Distances between rows, and losses of margins, in ATen's words.
#include <algorithm>
#include <numbers>
#include <string>

#include "executor/import/aten/call.h"
#include "ops/language/derived.h"
#include "ops/language/indexing.h"

namespace metronome::pt2 {
namespace {

/// 0, 1, 2: each, their mean, their sum.
Value reduced(const Call& c, const Value& each) {
  const std::int64_t how = c.integer("reduction", 1);
  if (how == 0) return each;
  return how == 1 ? mean(each, Axes(), false, c.line()) : sum(each, Axes(), false, c.line());
}

Value at_least_0(const Value& x, Line line) { return maximum({x, line}, {0, line}); }

/// (sum |x|^p)^(1/p) along an axis, for any p of 0 or more.
Value length(const Value& x, double p, std::int64_t axis, bool keep, Line line) {
  if (p >= 1) return norm(x, p, axis, keep, line);
  if (p == 0) return sum(not_equal({x, line}, {0, line}).cast(x.element(), line), axis, keep, line);
  const Value powers = pow({abs(x, line), line}, {p, line});
  return pow({sum(powers, axis, keep, line), line}, {1 / p, line});
}

Value distance_of(const Call& c, const Value& a, const Value& b, double p, double eps, bool keep) {
  return length(a - b + Operand(eps, c.line()), p, -1, keep, c.line());
}

/// Each row of x1 [..., P, M] beside each of x2 [..., R, M]: [..., P, R].
Values distances(const Call& c) {
  const Line line = c.line();
  const Value x = c.value("x1"), y = c.value("x2");
  Shape rows = x.shape(), columns = y.shape();
  rows.insert(rows.end() - 1, 1);
  columns.insert(columns.end() - 2, 1);
  const Value apart = x.reshape(rows, line) - y.reshape(columns, line);
  return {length(apart, c.number("p", 2), -1, false, line)};
}

/// The distances of rows from those behind them, of row 0 first.
Values pair_distances(const Call& c) {
  const Line line = c.line();
  const Value x = c.value("self");
  Values all;
  for (std::int64_t i = 0; i + 1 < x.size(0); ++i) {
    const Value apart = x.slice(0, i, i + 1, line) - x.slice(0, i + 1, x.size(0), line);
    all.push_back(length(apart, c.number("p", 2), -1, false, line));
  }
  if (all.empty()) return {make_constant(c.emitter(), 0.0, {x.element(), {0}}, line)};
  return {concat(all, 0, line)};
}

Values cosines(const Call& c) {
  const Line line = c.line();
  const Value x = c.value("x1"), y = c.value("x2");
  const Shape shape = (x + y).shape();
  const Value a = expand(x, shape, line), b = expand(y, shape, line);
  return {cosine_similarity(a, b, c.axis("dim", a, 1), c.number("eps", 1e-8), line)};
}

/// As `CosineEmbeddingLoss` has it: eps is in the squares.
Values cosine_embedding(const Call& c) {
  const Line line = c.line();
  const Value x = c.value("input1"), y = c.value("input2"), target = c.value("target");
  constexpr double kEps = 1e-12;
  const auto squares = [&](const Value& of) {
    return sum(of * of, -1, false, line) + Operand(kEps, line);
  };
  const Value cosine = sum(x * y, -1, false, line) / sqrt(squares(x) * squares(y), line);
  const Value apart = at_least_0(cosine - Operand(c.number("margin", 0), line), line);
  const Value is_same = equal({target, line}, {1, line});
  const Value is_other = equal({target, line}, {-1, line});
  const Value other = where(is_other, {apart, line}, {0, line}, line);
  return {reduced(c, where(is_same, Operand(1, line) - cosine, other, line))};
}

Values margin_ranking(const Call& c) {
  const Line line = c.line();
  const Value apart = c.value("input1") - c.value("input2");
  const Value signed_apart = Operand(-(c.value("target") * apart), line).value;
  return {reduced(c, at_least_0(signed_apart + Operand(c.number("margin", 0), line), line))};
}

Values hinge_embedding(const Call& c) {
  const Line line = c.line();
  const Value x = c.value("self"), target = c.value("target");
  const Value far = at_least_0(Operand(c.number("margin", 1), line) - x, line);
  const auto where_not = [&](double sign, const Value& y) {
    return where(equal({target, line}, {sign, line}), {0, line}, {y, line}, line);
  };
  return {reduced(c, where_not(1, far) + where_not(-1, x))};
}

Values triplet_margin(const Call& c) {
  const Line line = c.line();
  const double p = c.number("p", 2), eps = c.number("eps", 1e-6);
  const Value a = c.value("anchor"), positive = c.value("positive"), negative = c.value("negative");
  const Value near = distance_of(c, a, positive, p, eps, false);
  Value far = distance_of(c, a, negative, p, eps, false);
  if (c.flag("swap", false)) far = minimum(far, distance_of(c, positive, negative, p, eps, false));
  return {reduced(c, at_least_0(near - far + Operand(c.number("margin", 1), line), line))};
}

/// The sum over classes that come within a margin of the target's, of [N, C] and [N].
Values multi_margin(const Call& c) {
  const Line line = c.line();
  Value x = c.value("self");
  const Value target = c.value("target");
  if (x.rank() < 2) x = x.reshape({1, x.type().numel()}, line);
  const std::int64_t rows = x.size(0), classes = x.size(1);
  const Value index = target.reshape({rows, 1}, line);
  const Value chosen = gather(x, 1, index, line);
  Value each = at_least_0(x - chosen + Operand(c.number("margin", 1), line), line);
  if (c.number("p", 1) == 2) each = each * each;
  if (c.has("weight")) {
    each = each * gather(expand(c.value("weight").reshape({1, classes}, line), x.shape(), line), 1,
                         index, line);
  }
  const Value others = one_hot(index.reshape({rows}, line), classes, x.element(), line);
  each = each * (Operand(1, line) - others);
  const Value of_rows = sum(each, 1, false, line) * Operand(1 / static_cast<double>(classes), line);
  return {reduced(c, of_rows).reshape(c.output().shape, line)};
}

/// exp(x) - target x, or x - target log(x).
Values poisson_nll(const Call& c) {
  const Line line = c.line();
  const Value x = c.value("input"), target = c.value("target");
  Value each = c.flag("log_input")
                   ? exp(x, line) - target * x
                   : x - target * log(x + Operand(c.number("eps", 1e-8), line), line);
  if (c.flag("full")) {
    const Value more = target * log(target, line) - target +
                       log(target * Operand(2 * std::numbers::pi, line), line) * Operand(0.5, line);
    each = each + where(target <= Operand(1, line), {0, line}, {more, line}, line);
  }
  return {reduced(c, each)};
}

}  // namespace

void add_distances(Table& t) {
  t["aten.cdist"] = distances;
  t["aten.pdist"] = pair_distances;
  t["aten.pairwise_distance"] = [](const Call& c) {
    return Values{distance_of(c, c.value("x1"), c.value("x2"), c.number("p", 2),
                              c.number("eps", 1e-6), c.flag("keepdim", false))};
  };
  t["aten.dist"] = [](const Call& c) {
    const Value apart = c.value("self") - c.value("other");
    const Value flat = apart.reshape({apart.type().numel()}, c.line());
    return Values{length(flat, c.number("p", 2), 0, false, c.line())};
  };
  t["aten.cosine_similarity"] = cosines;
  t["aten.cosine_embedding_loss"] = cosine_embedding;
  t["aten.margin_ranking_loss"] = margin_ranking;
  t["aten.hinge_embedding_loss"] = hinge_embedding;
  t["aten.triplet_margin_loss"] = triplet_margin;
  t["aten.multi_margin_loss"] = multi_margin;
  t["aten.poisson_nll_loss"] = poisson_nll;
  t["aten.soft_margin_loss"] = [](const Call& c) {
    const Value x = c.value("self");
    return Values{reduced(c, softplus(-Operand(c.value("target") * x, c.line()), c.line()))};
  };
}

}  // namespace metronome::pt2
