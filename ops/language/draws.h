// Random numbers drawn inside a step. Names are PyTorch's.
//
//   const mt::Value noise = mt::randn(g.seed(), "noise", {mt::f32, {64, 2}});
//   const mt::Value action = mt::categorical(logits, "action");
//
// Numbers depend on the seed, the draw's path and name, and the counter "draws", which each
// training step moves behind its draws, and each evaluation with `States::advance`. So an
// evaluation that moves nothing draws what the next step will draw, however often it runs. Numbers
// are new wherever one of these differs, also with a seed of one's own, and the same bits on every
// target. A draw that is declared before others shifts none of them, unless it has the same name in
// the same scope: those are numbered. Each of several ranks draws its rows, as one process would
// draw all of them.
#pragma once

#include <cstdint>
#include <string>

#include "graph/ir/line.h"
#include "graph/ir/type.h"
#include "graph/ir/value.h"

namespace metronome {

struct DrawOptions {
  /// All ranks draw the same numbers: new in each training step, and not by evaluations.
  bool same_on_ranks = false;
};

/// Draws of a type, f32 or f64. `seed`: i64[], such as Graph::seed, or a number of one's own.
/// Uniform in [0, 1), in steps of 2^-24 of f32 and 2^-53 of f64.
Value rand(Value seed, const std::string& name, Type type, DrawOptions options = {},
           Line line = Line::here());
/// Normal, of mean 0 and deviation 1: of 32 bits of f32, so within 6.4, and 52 of f64.
Value randn(Value seed, const std::string& name, Type type, DrawOptions options = {},
            Line line = Line::here());
/// Normal, as above, of those from `low` to `high` alone, which are deviations from the mean, from
/// -6 to 6.
Value truncated_normal(Value seed, const std::string& name, Type type, double low = -2,
                       double high = 2, DrawOptions options = {}, Line line = Line::here());
/// -log(-log(u)) of u uniform: logits + gumbel are largest with the probabilities of a softmax.
Value gumbel(Value seed, const std::string& name, Type type, DrawOptions options = {},
             Line line = Line::here());
/// A random order of 0 to n - 1, i64[n]; n >= 1.
Value permutation(Value seed, const std::string& name, std::int64_t n, DrawOptions options = {},
                  Line line = Line::here());

/// The rows that positions, i64[...], 0 or more, stand for, of their shape: positions from 0 on
/// visit each of `rows` rows once in a random order, then again in another one, and so on. Orders
/// depend on the seed, the path and the name: one name in one scope is one order, so that a batch
/// of data and one of labels fit. They do not depend on the counter "draws".
Value shuffled(Value positions, const std::string& name, std::int64_t rows,
               Line line = Line::here());
/// The rows of batch number `step`, i64[], such as Graph::replay: i64[batch], those of positions
/// step * batch on. Rank r of n takes `g.replay() * n + r`.
Value shuffled_batch(Value step, const std::string& name, std::int64_t rows, std::int64_t batch,
                     Line line = Line::here());

/// As `rand` and `randn`, of the seed of x's graph and x's type.
Value rand_like(Value x, const std::string& name, DrawOptions options = {},
                Line line = Line::here());
Value randn_like(Value x, const std::string& name, DrawOptions options = {},
                 Line line = Line::here());
/// 1 with probability p, else 0, of p's type: f32 or f64, elements from 0 to 1, which count in
/// steps of 2^-24 and 2^-53. No gradient flows. A NaN, which draws 0, or another number outside of
/// them is reported (`Executable::fault`).
Value bernoulli(Value p, const std::string& name, DrawOptions options = {},
                Line line = Line::here());
/// The index of a class along the last axis, drawn with the probabilities softmax(logits), i64
/// without that axis: the first of the largest of logits + gumbel. -inf is never drawn beside
/// others. A row of -inf alone, which draws class 0, and one with a NaN or an infinity are reported
/// (`Executable::fault`).
Value categorical(Value logits, const std::string& name, DrawOptions options = {},
                  Line line = Line::here());
/// `count` different indices along the last axis, drawn one after the other with probabilities in
/// the ratio of `weights`, 0 or more: i64 [..., count]. Without replacement, as PyTorch's default;
/// there must be as many weights above 0. A row with fewer, and one with a weight that is negative,
/// infinite or NaN, are reported (`Executable::fault`).
Value multinomial(Value weights, std::int64_t count, const std::string& name,
                  DrawOptions options = {}, Line line = Line::here());

}  // namespace metronome
