// An optimizer adds nodes to a training graph: the clipped gradients, the scalars of a step, then
// for each parameter one op (optimizer_updates.h). Two forms of a gradient are recognised:
//
//   g * factor              a clipped one: the update's op multiplies in its own pass
//   embedding_grad(g, i)    a table's: only the rows that i names have a gradient
//
//   rows:   sort i -> sum the gradients of equal rows -> look up rows of table and moments
//           -> update those -> copy them back
//
// A lazy Adam updates these rows alone. SGD without momentum, decay and clipping does so, too, as
// its other rows would not change. Any other Adam changes all rows, as its moments decay. A large
// table then takes `AdamTableUpdate`, which needs no gradient of the table's size.
#include "ops/optimizers/optimizers.h"

#include <fmt/format.h>

#include <initializer_list>
#include <type_traits>
#include <utility>

#include "graph/emit/emitter.h"
#include "graph/emit/scope.h"
#include "graph/ir/op_model.h"
#include "graph/ir/structural.h"
#include "ops/cast/cast.h"
#include "ops/elementwise/elementwise.h"
#include "ops/embedding/embedding.h"
#include "ops/expr/functions.h"
#include "ops/language/indexing.h"
#include "ops/language/init.h"
#include "ops/optimizer_updates/optimizer_updates.h"
#include "ops/row_updates/row_updates.h"
#include "ops/rules/require.h"

namespace metronome {

namespace {

// Adam and AdamW differ in one attribute of their update.
template <class T>
AdamUpdate update_op(const T& rule) {
  return {rule.beta1, rule.beta2, rule.eps, !rule.weight_decay.is_zero(), std::is_same_v<T, AdamW>};
}

std::string clip_text(const std::optional<Hyperparameter>& clip_norm) {
  return clip_norm ? fmt::format(" clip_norm={}", to_string(*clip_norm)) : "";
}

template <class T>
std::string adam_attributes(const T& rule) {
  return fmt::format("lr={} beta1={} beta2={} eps={} weight_decay={}{}", to_string(rule.lr),
                     rule.beta1, rule.beta2, rule.eps, to_string(rule.weight_decay),
                     clip_text(rule.clip_norm)) +
         (rule.amsgrad ? " amsgrad" : "") + (rule.maximize ? " maximize" : "");
}

std::vector<Moment> adam_moments(bool amsgrad) {
  std::vector<Moment> all = {{"exp_avg", zeros()}, {"exp_avg_sq", zeros()}};
  if (amsgrad) all.push_back({"max_exp_avg_sq", zeros()});
  return all;
}

template <class T>
Values adam_scalars(const T& rule, Value update, double rate, std::span<const Value> states) {
  const Value t = update.cast(f64) + 1.0;
  return numbers_of(rule).scalars(update, rate, states,
                                  {1.0 - pow(rule.beta1, t), 1.0 - pow(rule.beta2, t)});
}

// A clipped gradient is the gradient times a factor: the update multiplies in its own pass, to the
// same bits, and the product, which nothing else reads, is pruned.
std::optional<std::pair<Value, Value>> split_factor(const Value& gradient) {
  const auto* product = gradient.node().op->as<Elementwise>();
  if (product == nullptr || product->function != Function::mul) return std::nullopt;
  const auto operand = [](const Value& v, int i) { return Value(v.emitter(), v.node().inputs[i]); };
  const Value of = operand(gradient, 0);
  Value factor = operand(gradient, 1);
  if (of.type() != gradient.type() || factor.rank() != 0) return std::nullopt;
  if (factor.element() == f64) return std::pair(of, factor);
  if (factor.node().op->as<Cast>() == nullptr) return std::nullopt;
  factor = operand(factor, 0);
  if (factor.element() != f64) return std::nullopt;
  return std::pair(of, factor);
}

/// The gradient that is descended. Its sign joins the factor of clipping, so that updates multiply
/// in their own pass, and still find a table's gradient.
Value descended(const Value& gradient, bool maximize) {
  if (!maximize) return gradient;
  const auto parts = split_factor(gradient);
  const Value minus =
      parts ? -parts->second : make_constant(gradient.emitter(), -1, Type{f64, {}}, Line{});
  return (parts ? parts->first : gradient) * minus.cast(gradient.element());
}

template <OpRules T>
Values step(T op, Value parameter, Value gradient, std::span<const Value> moments,
            std::span<const Value> scalars) {
  Values in = {parameter, gradient};
  in.insert(in.end(), moments.begin(), moments.end());
  in.insert(in.end(), scalars.begin(), scalars.end());
  if (const auto parts = split_factor(gradient)) {
    in[1] = parts->first;
    in.push_back(parts->second);
  }
  return apply(make_op(std::move(op)), in, Line{}, 1 + moments.size());
}

/// The gradient of a table that is made of one lookup's; clipped, it is multiplied by `factor`.
struct TableGradient {
  Value rows;   ///< [..., width]
  Value index;  ///< [...]
  Value factor;
};

std::optional<TableGradient> table_gradient(const Value& gradient) {
  const auto parts = split_factor(gradient);
  const Node& sum = (parts ? parts->first : gradient).node();
  if (sum.op->as<EmbeddingGrad>() == nullptr || sum.guard.present()) return std::nullopt;
  const auto operand = [&](int i) { return Value(gradient.emitter(), sum.inputs[i]); };
  return TableGradient{operand(0), operand(1), parts ? parts->second : Value()};
}

/// Makes the step of an update for the rows that were looked up, each once; the others keep their
/// values.
template <OpRules T>
Values row_step(T op, Value parameter, const TableGradient& gradient,
                std::span<const Value> moments, std::span<const Value> scalars) {
  Values tables = {parameter};
  tables.insert(tables.end(), moments.begin(), moments.end());
  const auto [row, position] = sort(gradient.index.reshape({gradient.index.type().numel()}));
  Values in;
  for (const Value& table : tables) in.push_back(apply(Embedding{}, {table, row}, Line{}));
  in.insert(in.begin() + 1, apply(RunSum{}, {gradient.rows, row, position}, Line{}));
  in.insert(in.end(), scalars.begin(), scalars.end());
  if (gradient.factor.present()) in.push_back(gradient.factor);
  Values next = apply(make_op(std::move(op)), in, Line{}, tables.size());
  for (std::size_t i = 0; i < tables.size(); ++i) {
    next[i] = apply(IndexCopy{}, {tables[i], row, next[i]}, Line{});
  }
  return next;
}

/// A step of Adam by the largest mean square that there was: no kernel of its own has it.
Values amsgrad_step(const AdamUpdate& op, const Value& parameter, const Value& gradient,
                    std::span<const Value> moments, std::span<const Value> scalars) {
  const auto beside = [&](const Value& scalar) { return scalar.cast(parameter.element()); };
  Value p = parameter, g = gradient;
  if (op.decays && op.decoupled) p = p * beside(1.0 - scalars[0] * scalars[3]);
  if (op.decays && !op.decoupled) g = g + beside(scalars[3]) * p;
  const Value m = moments[0] + (1 - op.beta1) * (g - moments[0]);
  const Value v = moments[1] * op.beta2 + (1 - op.beta2) * g * g;
  const Value largest = maximum(moments[2], v);
  const Value size = sqrt(largest) / beside(sqrt(scalars[2])) + op.eps;
  return {p - beside(scalars[0] / scalars[1]) * m / size, m, v, largest};
}

/// A step of Adam. A large table of which few rows are looked up gets no gradient of its size.
Values adam_step(const AdamUpdate& op, Value parameter, Value gradient,
                 std::span<const Value> moments, std::span<const Value> scalars) {
  if (moments.size() > 2) return amsgrad_step(op, parameter, gradient, moments, scalars);
  constexpr std::int64_t kLarge = 1 << 20;  // elements; below, the sort takes what it saves
  const auto table = table_gradient(gradient);
  if (!table || table->factor.present() || parameter.type().numel() < kLarge ||
      16 * table->index.type().numel() > parameter.size(0)) {
    return step(op, parameter, gradient, moments, scalars);
  }
  const auto [row, position] = sort(table->index.reshape({table->index.type().numel()}));
  Values in = {parameter, moments[0], moments[1]};
  in.push_back(apply(RunSum{}, {table->rows, row, position}, Line{}));
  in.push_back(row);
  in.insert(in.end(), scalars.begin(), scalars.end());
  return apply(make_op(AdamTableUpdate{op}), in, Line{}, 3);
}

template <class T>
std::optional<Requirement> adam_mistake(const T& rule) {
  return first_of({numbers_of(rule).mistake(), unless_below_1("beta1", rule.beta1),
                   unless_below_1("beta2", rule.beta2), unless_at_least_0("eps", rule.eps)});
}

}  // namespace

Value gradient_norm(const Values& gradients) {
  Value total;
  for (const Value& gradient : gradients) {
    // The squares of an f32 may leave its range.
    const Value squares = square(Reduction{ReduceKind::norm}(gradient).cast(f64));
    total = total.present() ? total + squares : squares;
  }
  return sqrt(total);
}

Values clip_gradients(const Values& gradients, Operand max_norm) {
  if (gradients.empty()) return {};
  const Value factor = minimum(max_norm / (gradient_norm(gradients) + 1e-6), 1.0);
  Values clipped;
  for (const Value& gradient : gradients) {
    clipped.push_back(gradient * factor.cast(gradient.element()));
  }
  return clipped;
}

Value update_ratio(Value parameter, Line line) {
  if (!parameter.usable(line)) return parameter;
  Emitter* emitter = parameter.emitter();
  StorageId storage;
  if (const auto* read = parameter.node().op->as<Read>()) storage = read->storage;
  if (const auto* read = parameter.node().op->as<ReadUpdated>()) storage = read->storage;
  if (storage.index < 0 || emitter->graph.storage(storage).kind != StorageKind::parameter) {
    return mistake(emitter, line, "update_ratio cannot be made", {{parameter}},
                   {"a parameter, as Graph::parameter gives it"});
  }
  const LineScope scope(emitter, line);
  const Value before = emitter->read(storage);
  const Value after =
      emitter->source(make_op(AfterUpdate{storage, parameter.type()}), parameter.node().path, line);
  const Reduction norm{ReduceKind::norm};
  return norm(after - before).cast(f64) / norm(before).cast(f64);
}

std::string Adam::attributes() const { return adam_attributes(*this) + (lazy ? " lazy" : ""); }
std::vector<Moment> Adam::moments() const { return adam_moments(amsgrad); }
Values Adam::scalars(Value update, double rate, std::span<const Value> states) const {
  return adam_scalars(*this, update, rate, states);
}
Values Adam::update(Value parameter, Value gradient, std::span<const Value> moments,
                    std::span<const Value> scalars) const {
  const Value g = descended(gradient, maximize);
  const auto table = lazy ? table_gradient(g) : std::nullopt;
  if (table) return row_step(update_op(*this), parameter, *table, moments, scalars);
  return adam_step(update_op(*this), parameter, g, moments, scalars);
}
std::optional<Requirement> Adam::mistake() const {
  if (lazy && amsgrad) return Requirement{"no amsgrad for lazy, but both"};
  if (lazy && !weight_decay.is_zero()) {
    return Requirement{
        fmt::format("no weight_decay for lazy, as most rows would miss theirs, but {}",
                    to_string(weight_decay))};
  }
  return adam_mistake(*this);
}

std::string AdamW::attributes() const { return adam_attributes(*this); }
std::vector<Moment> AdamW::moments() const { return adam_moments(amsgrad); }
Values AdamW::scalars(Value update, double rate, std::span<const Value> states) const {
  return adam_scalars(*this, update, rate, states);
}
Values AdamW::update(Value parameter, Value gradient, std::span<const Value> moments,
                     std::span<const Value> scalars) const {
  return adam_step(update_op(*this), parameter, descended(gradient, maximize), moments, scalars);
}
std::optional<Requirement> AdamW::mistake() const { return adam_mistake(*this); }

std::string Sgd::attributes() const {
  return fmt::format("lr={} momentum={} dampening={} weight_decay={}{}{}", to_string(lr), momentum,
                     dampening, to_string(weight_decay), nesterov ? " nesterov" : "",
                     clip_text(clip_norm));
}
std::vector<Moment> Sgd::moments() const {
  return momentum != 0 ? std::vector<Moment>{{"momentum_buffer", zeros()}} : std::vector<Moment>{};
}
Values Sgd::scalars(Value update, double rate, std::span<const Value> states) const {
  Values others;
  if (momentum != 0) {
    const Value later = make_constant(update.emitter(), 1 - dampening, Type{f64, {}}, Line{});
    others.push_back(dampening == 0 ? later : where(update.cast(f64) < 1.0, 1.0, later));
  }
  return numbers_of(*this).scalars(update, rate, states, others);
}
Values Sgd::update(Value parameter, Value gradient, std::span<const Value> moments,
                   std::span<const Value> scalars) const {
  const SgdUpdate op{momentum, !weight_decay.is_zero(), nesterov};
  const Value g = descended(gradient, maximize);
  // Rows that are not looked up stay as they are, as their gradient is 0. Half of a table costs
  // about as much as all of it, as an index is to be sorted.
  const auto table = table_gradient(g);
  if (table && momentum == 0 && !op.decays && !table->factor.present() &&
      2 * table->index.type().numel() <= parameter.size(0)) {
    return row_step(op, parameter, *table, moments, scalars);
  }
  return step(op, parameter, g, moments, scalars);
}
std::optional<Requirement> Sgd::mistake() const {
  std::optional<Requirement> nesterov_mistake;
  if (nesterov && (momentum == 0 || dampening != 0)) {
    nesterov_mistake = Requirement{fmt::format(
        "a momentum and no dampening for nesterov, but {} and {}", momentum, dampening)};
  }
  return first_of({numbers_of(*this).mistake(), unless_at_least_0("momentum", momentum),
                   unless_finite("dampening", dampening), nesterov_mistake});
}

}  // namespace metronome
