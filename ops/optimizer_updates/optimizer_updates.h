// The arithmetic of optimizers: one step of one parameter, with its moments, in one pass.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/compounds/batch.h"
#include "graph/ir/op.h"
#include "graph/ir/structural.h"
#include "ops/rules/rules.h"

namespace metronome {

struct Batch;

/// One step of Adam (Kingma and Ba, "Adam", 2015), or of AdamW (Loshchilov and Hutter, "Decoupled
/// weight decay regularization", 2019) where `decoupled`; the formulas and their order are those of
/// libtorch's fused kernel:
///
///   g  = grad + decay * param                   p = param                          (Adam)
///   g  = grad                                   p = param * (1 - lr * decay)       (AdamW)
///   m' = m + (1 - beta1) * (g - m)
///   v' = v * beta2 + (1 - beta2) * g * g
///   p' = p - lr / bias_correction1 * m' / (sqrt(v') / sqrt(bias_correction2) + eps)
///
/// Inputs: param, grad, m, v (equal floating types); lr, bias_correction1 = 1 - beta1^t and
/// bias_correction2 = 1 - beta2^t (f64 scalars; t counts updates from 1); where it `decays` the
/// decay (f64 scalar); and, where gradients are clipped or unscaled, a factor of grad (f64 scalar).
/// Outputs: param', m', v'.
struct AdamUpdate {
  static constexpr std::string_view name = "adam_update";
  static constexpr bool differentiable = false;
  static constexpr bool batches = true;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  bool decays = false;
  bool decoupled = false;  ///< its decay, if it has one
  bool operator==(const AdamUpdate&) const = default;
  std::string attributes() const;
  Types infer(std::span<const Type> in) const;
  std::vector<InPlace> in_place() const { return {{0, 0}, {1, 2}, {2, 3}}; }
  std::optional<LaidOutOp> lay_out(std::span<const Type> in, const Layout& layout) const;
  static std::vector<Case> cases();

  /// Number of inputs without a factor of grad.
  std::size_t arity() const { return decays ? 8 : 7; }
};
METRONOME_RULES(AdamUpdate);
METRONOME_CANDIDATES(AdamUpdate);

/// One step of Adam for a table, few rows of which have a gradient that is not 0. Its bits are
/// those of `AdamUpdate` by a gradient of the table's size. Inputs: table, m, v [rows, width];
/// sums [n, width] and index [n] (i32 or i64, ascending): for the first place of each run of equal
/// neighbours in the index, the gradient of that row (`RunSum`); the scalars of `AdamUpdate`, but
/// no factor. An index outside [0, rows) has no row. Outputs: table', m', v'.
struct AdamTableUpdate {
  static constexpr std::string_view name = "adam_table_update";
  static constexpr bool differentiable = false;
  AdamUpdate step;
  bool operator==(const AdamTableUpdate&) const = default;
  std::string attributes() const { return step.attributes(); }
  Types infer(std::span<const Type> in) const;
  std::vector<InPlace> in_place() const { return {{0, 0}, {1, 1}, {2, 2}}; }
  static std::vector<Case> cases();
};
METRONOME_RULES(AdamTableUpdate);
METRONOME_CANDIDATES(AdamTableUpdate);

/// One step of stochastic gradient descent as libtorch's fused kernel makes it, without and with a
/// momentum buffer b:
///
///   g  = grad + decay * param
///   b' = momentum * b + gradient_weight * g
///   p' = param - lr * (g without momentum; g + momentum * b' with nesterov; else b')
///
/// Inputs: param, grad; with momentum b (equal floating types); lr; with momentum gradient_weight
/// (f64 scalars): 1 at the first update, when b is zero and b' is therefore g itself, and
/// 1 - dampening later; where it `decays` the decay (f64 scalar); and, where gradients are clipped
/// or unscaled, a factor of grad (f64 scalar). Outputs: param'; with momentum b'.
struct SgdUpdate {
  static constexpr std::string_view name = "sgd_update";
  static constexpr bool differentiable = false;
  static constexpr bool batches = true;
  double momentum = 0;
  bool decays = false;
  bool nesterov = false;
  bool operator==(const SgdUpdate&) const = default;
  std::string attributes() const;
  Types infer(std::span<const Type> in) const;
  std::vector<InPlace> in_place() const;
  std::optional<LaidOutOp> lay_out(std::span<const Type> in, const Layout& layout) const;
  static std::vector<Case> cases();

  bool has_momentum() const { return momentum != 0; }
  /// Number of inputs without a factor of grad.
  std::size_t arity() const { return (has_momentum() ? 5 : 3) + (decays ? 1 : 0); }
};
METRONOME_RULES(SgdUpdate);
METRONOME_CANDIDATES(SgdUpdate);

// Rules for ops of graph/ir/structural.h: a parameter's average, and how much of it each step
// takes.
METRONOME_RULES(AverageUpdate);
METRONOME_CANDIDATES(AverageUpdate);
METRONOME_RULES(AverageWeight);

/// Several updates of one kind (graph/compounds/group.h), by one kernel over all of their
/// parameters.
void record(const Batch& batch, const CudaLaunch& launch);

}  // namespace metronome
