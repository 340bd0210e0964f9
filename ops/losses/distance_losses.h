// Losses of distances, rankings and distributions of numbers, with PyTorch's names and defaults;
// formulas of other functions, of f32 and f64. Predictions and targets have one type: they are not
// broadcast, which would hide a forgotten dimension.
#pragma once

#include "graph/ir/line.h"
#include "graph/ir/value.h"
#include "ops/losses/losses.h"

namespace metronome {

struct HuberOptions {
  double delta = 1;  ///< above 0
  LossReduction reduction = LossReduction::mean;
};
/// d^2 / 2 where d = |prediction - target| is below delta, delta (d - delta / 2) elsewhere.
Value huber_loss(Value prediction, Value target, HuberOptions options = {},
                 Line line = Line::here());

struct TripletMarginOptions {
  double margin = 1;  ///< above 0
  double p = 2;       ///< of the norm: 1 or more, infinity too
  double eps = 1e-6;  ///< added to each difference
  bool swap = false;  ///< the negative's distance is that to the nearer of anchor and positive
  LossReduction reduction = LossReduction::mean;
};
/// max(|anchor - positive| - |anchor - negative| + margin, 0), norms of rows [..., width].
Value triplet_margin_loss(Value anchor, Value positive, Value negative,
                          TripletMarginOptions options = {}, Line line = Line::here());

struct MarginOptions {
  double margin = 0;
  LossReduction reduction = LossReduction::mean;
};
/// 1 - cos(a, b) where y is 1, max(cos(a, b) - margin, 0) where it is -1, of rows a, b [..., width]
/// and y [...].
Value cosine_embedding_loss(Value a, Value b, Value y, MarginOptions options = {},
                            Line line = Line::here());
/// max(margin - y (a - b), 0): y is 1 where a is to be the larger, -1 where b is.
Value margin_ranking_loss(Value a, Value b, Value y, MarginOptions options = {},
                          Line line = Line::here());
/// x where y is 1, max(margin - x, 0) where it is -1.
Value hinge_embedding_loss(Value x, Value y, MarginOptions options = {.margin = 1},
                           Line line = Line::here());

struct PoissonNllOptions {
  bool log_input = true;  ///< the prediction is the rate's logarithm
  bool full = false;      ///< adds Stirling's formula for log(target!), where that is above 1
  double eps = 1e-8;      ///< added to a rate before its logarithm; above 0
  LossReduction reduction = LossReduction::mean;
};
/// exp(prediction) - target prediction.
Value poisson_nll_loss(Value prediction, Value target, PoissonNllOptions options = {},
                       Line line = Line::here());

struct GaussianNllOptions {
  bool full = false;  ///< adds log(2 pi) / 2
  double eps = 1e-6;  ///< the least variance that is counted with; above 0
  LossReduction reduction = LossReduction::mean;
};
/// (log(variance) + (prediction - target)^2 / variance) / 2; the variance broadcasts to the
/// prediction. One below eps counts as eps, but receives its gradient.
Value gaussian_nll_loss(Value prediction, Value target, Value variance,
                        GaussianNllOptions options = {}, Line line = Line::here());

}  // namespace metronome
