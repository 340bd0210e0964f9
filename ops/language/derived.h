// Functions that are formulas of others: division with a remainder, statistics and norms, masks,
// constants like a value, series of numbers. Names and defaults are PyTorch's.
#pragma once

#include <cstdint>
#include <vector>

#include "graph/ir/line.h"
#include "graph/ir/type.h"
#include "graph/ir/value.h"
#include "ops/expr/functions.h"

namespace metronome {

// ---- division ----------------------------------------------------------------------------------

/// x - floor(x / y) * y: of the sign of y. NaN where y is 0. Floating types.
Value remainder(Operand x, Operand y);
/// floor(x / y), from the exact remainder; no gradient flows through it. Floating types.
Value floor_divide(Operand x, Operand y);

// ---- statistics and norms, over axes that leave the shape, or stay as 1 with `keep` ------------

/// log(sum(exp(x))), which does not overflow.
Value logsumexp(Value x, Axes axes = {}, bool keep = false, Line line = Line::here());

struct VarOptions {
  double correction = 1;  ///< taken from the number of elements; 1: unbiased, 0: as it is
  bool keep = false;
};
/// The average of (x - mean(x))^2, of n elements divided by n - correction, which is above 0.
Value var(Value x, Axes axes = {}, VarOptions options = {}, Line line = Line::here());
/// Its root: torch.std. The gradient is 0 where it is 0.
Value stddev(Value x, Axes axes = {}, VarOptions options = {}, Line line = Line::here());

/// (sum |x|^p)^(1/p); max |x| for an infinite p. The gradient is 0 where it is 0. p >= 1.
Value norm(Value x, double p = 2, Axes axes = {}, bool keep = false, Line line = Line::here());

struct NormalizeOptions {
  double p = 2;
  double eps = 1e-12;  ///< the least norm to divide by
};
/// x divided by its norm along an axis.
Value normalize(Value x, std::int64_t axis = 1, NormalizeOptions options = {},
                Line line = Line::here());

/// a b / (|a| |b|) along an axis, which leaves the shape; norms count as eps at least. Operands of
/// one type.
Value cosine_similarity(Value a, Value b, std::int64_t axis = 1, double eps = 1e-8,
                        Line line = Line::here());

// ---- masks -------------------------------------------------------------------------------------

/// 1 at the index, 0 elsewhere: index [...] of i32 or i64, result [..., classes]. All 0 for an
/// index out of range. classes >= 1.
Value one_hot(Value index, std::int64_t classes, Element element = i64, Line line = Line::here());
/// The lower (upper) triangle of the last two dimensions, 0 elsewhere: where column - row is at
/// most (at least) `diagonal`.
Value tril(Value x, std::int64_t diagonal = 0, Line line = Line::here());
Value triu(Value x, std::int64_t diagonal = 0, Line line = Line::here());

// ---- constants ---------------------------------------------------------------------------------

/// Every element 0, 1 or the number, of x's type and shape. No gradient flows to x.
Value zeros_like(Value x, Line line = Line::here());
Value ones_like(Value x, Line line = Line::here());
Value full_like(Value x, double number, Line line = Line::here());

// ---- series, as numbers for Graph::constant ----------------------------------------------------

/// start, start + step, ... before end: `g.constant(mt::arange(0, 8), {mt::f32, {8}})`. Throws
/// GraphError for numbers that are not finite and a step that does not lead to the end.
std::vector<double> arange(double start, double end, double step = 1, Line line = Line::here());
/// `steps` numbers from start to end, both among them; steps >= 1.
std::vector<double> linspace(double start, double end, std::int64_t steps,
                             Line line = Line::here());

/// Throws a Requirement where p is no order of a norm: 1 or more, or infinity.
void require_order(double p);

}  // namespace metronome
