// These are the rules of the two scans; their kernels lie beside. The gradient has two parts:
//
//   RecurrentScanGrad   walks back over time: gradients of all gates and of the first state
//   one product         the weight's gradient over all steps at once, parts^T before:
//                         parts    [T N, gates hidden], the gradients of the gates
//                         before   [T N, hidden], the states that the steps began with
//
// `before` is the first state, then all states but the last; in reverse it is the other way round.
// A target without a kernel gets the steps one by one (`lower`, recurrent_unrolled.h).
#include "ops/recurrent/recurrent_scan.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "graph/emit/scope.h"
#include "graph/ir/error.h"
#include "ops/expr/functions.h"
#include "ops/matmul/matmul.h"
#include "ops/recurrent/recurrent.h"
#include "ops/recurrent/recurrent_unrolled.h"
#include "ops/rules/require.h"

namespace metronome {
namespace {

/// The number of the operands of a scan without a bias.
std::size_t operands_of(const RecurrentScan& op) { return op.keeps_cell() ? 4 : 3; }

/// The types of all operands of a scan over parts [T, N, gates hidden], the bias last.
Types scan_operands(const RecurrentScan& op, const Type& parts) {
  const std::int64_t width = parts.shape[2];
  const std::int64_t hidden = width / recurrent::gates_of(op.kind);
  const Element element = parts.element;
  Types types{parts};
  types.resize(operands_of(op) - 1, {element, {parts.shape[1], hidden}});
  types.push_back({element, {width, hidden}});
  types.push_back({element, {width}});
  return types;
}

}  // namespace

// ---- forward -------------------------------------------------------------------------------

std::string RecurrentScan::attributes() const {
  return fmt::format("{}{}{}", recurrent::name_of(kind), relu ? ", relu" : "",
                     reverse ? ", reverse" : "");
}

Types RecurrentScan::infer(std::span<const Type> in) const {
  const bool bias = in.size() == operands_of(*this) + 1;
  if (in.size() != operands_of(*this) && !(bias && kind == RecurrentKind::gru)) {
    throw Requirement{"the operands of a scan"};
  }
  require_floating(in[0]);
  const std::int64_t gates = recurrent::gates_of(kind);
  if (in[0].rank() != 3 || std::ranges::min(in[0].shape) < 1 || in[0].shape[2] % gates != 0) {
    throw Requirement{fmt::format("an operand [T, N, {} hidden] of 1 or more each, but {}", gates,
                                  to_string(in[0]))};
  }
  const Types right = scan_operands(*this, in[0]);
  for (std::size_t i = 1; i < in.size(); ++i) {
    if (in[i] == right[i]) continue;
    throw Requirement{
        fmt::format("operand {} as {}, but {}", i, to_string(right[i]), to_string(in[i]))};
  }
  Type states = in[0];
  states.shape[2] /= gates;
  Types types{states};
  types.resize(results(), in[1]);
  types.push_back(in[0]);
  types.push_back(states);
  return types;
}

Values RecurrentScan::vjp(const Vjp& v) const {
  Values gradients(v.inputs.size());
  const RecurrentScanGrad op{*this, v.grad(0).present(), v.grad(1).present(),
                             keeps_cell() && v.grad(2).present()};
  if (!op.of_states && !op.of_last && !op.of_cell) return gradients;
  const bool gru = kind == RecurrentKind::gru;
  Values operands;
  for (const Value& grad : v.gradients.first(results())) {
    if (grad.present()) operands.push_back(grad);
  }
  operands.insert(operands.end(), {v.out(0), v.out(results()), v.out(results() + 1)});
  for (std::size_t i = 1; i < operands_of(*this); ++i) operands.push_back(v.in(i));
  const Values made = apply(make_op(op), operands, Line::here(), gru ? 3 : results());
  gradients[0] = made[0];
  gradients[1] = made[gru ? 2 : 1];
  if (keeps_cell()) gradients[2] = made[2];

  // The weight's gradient: one product over all steps, whose other operand is the state before
  // each.
  const ScanSizes s(v.out(0).type(), v.in(operands_of(*this) - 1).type());
  const auto rows_of = [&](const Value& x) {
    return x.reshape({s.steps * s.rows, x.type().shape[2]});
  };
  Value before = v.in(1).reshape({1, s.rows, s.hidden});
  if (s.steps > 1) {
    const Value rest = v.out(0).slice(0, reverse ? 1 : 0, reverse ? s.steps : s.steps - 1);
    before = reverse ? concat({rest, before}, 0) : concat({before, rest}, 0);
  }
  const Value parts = rows_of(made[gru ? 1 : 0]);
  gradients[operands_of(*this) - 1] =
      apply(Matmul{.transpose_a = true}, {parts, rows_of(before)}, Line::here());
  if (v.inputs.size() > operands_of(*this)) gradients.back() = sum(parts, {0});
  return gradients;
}

Values RecurrentScan::lower(std::span<const Value> in) const {
  const std::size_t weight = operands_of(*this) - 1;
  recurrent::State state{in[1], keeps_cell() ? in[2] : Value()};
  const recurrent::OneDirection steps{
      .kind = kind,
      .reverse = reverse,
      .nonlinearity = relu ? metronome::relu : tanh,
      .weights = {{}, in[weight], {}, in.size() > weight + 1 ? in[weight + 1] : Value()},
      .masks = {}};
  const Values outputs = recurrent::run_steps(steps, in[0], state, {});
  Values results{stack(outputs, 0), state.hidden};
  if (keeps_cell()) results.push_back(state.cell);
  return results;
}

// ---- backward ------------------------------------------------------------------------------

std::string RecurrentScanGrad::attributes() const {
  return fmt::format("{}{}{}{}", scan.attributes(), of_states ? ", of_states" : "",
                     of_last ? ", of_last" : "", of_cell ? ", of_cell" : "");
}

Types RecurrentScanGrad::infer(std::span<const Type> in) const {
  const std::size_t first = states(), count = operands_of(scan);
  if (in.size() != first + 2 + count || (of_cell && !scan.keeps_cell())) {
    throw Requirement{"the operands of its scan"};
  }
  Types of_scan{in[first + 1]};
  of_scan.insert(of_scan.end(), in.begin() + static_cast<std::ptrdiff_t>(first) + 3, in.end());
  const Types made = scan.infer(of_scan);
  Types right;
  if (of_states) right.push_back(made[0]);
  right.resize(first, made[1]);
  right.insert(right.end(), {made[0], made[scan.results()], made[scan.results() + 1]});
  if (!std::equal(right.begin(), right.end(), in.begin())) {
    throw Requirement{"the operands of its scan"};
  }
  Types types{of_scan[0]};
  if (scan.kind == RecurrentKind::gru) types.push_back(of_scan[0]);
  types.resize(types.size() + (scan.keeps_cell() ? 2 : 1), made[1]);
  return types;
}

std::vector<InPlace> RecurrentScan::in_place() const {
  if (kind == RecurrentKind::rnn) return {};
  return {{.output = static_cast<int>(results()), .input = 0}};
}

std::vector<InPlace> RecurrentScanGrad::in_place() const {
  if (scan.kind == RecurrentKind::rnn) return {};
  const int of_products = scan.kind == RecurrentKind::gru ? 1 : 0;
  return {{.output = of_products, .input = static_cast<int>(states()) + 1}};
}

// ---- cases ---------------------------------------------------------------------------------

namespace {

struct ScanCase {
  std::string name;
  RecurrentScan op;
  Shape sizes;  ///< steps, rows, hidden
  bool bias = false;
};

std::vector<ScanCase> scan_cases() {
  constexpr auto rnn = RecurrentKind::rnn, gru = RecurrentKind::gru, lstm = RecurrentKind::lstm;
  return {
      {"rnn, one of each", {rnn}, {1, 1, 1}},
      {"rnn", {rnn}, {5, 3, 7}},
      {"rnn, relu, reverse", {rnn, true, true}, {4, 2, 9}},
      {"gru, one of each", {gru}, {1, 1, 1}, true},
      {"gru", {gru}, {5, 3, 7}, true},
      {"gru, no bias", {gru}, {4, 4, 16}},
      {"gru, reverse", {gru, false, true}, {4, 9, 5}, true},
      {"gru, wide", {gru}, {3, 2, 64}, true},
      {"lstm, one of each", {lstm}, {1, 1, 1}},
      {"lstm", {lstm}, {5, 3, 7}},
      {"lstm, reverse", {lstm, false, true}, {4, 11, 16}},
      {"lstm, for threads", {lstm}, {13, 17, 33}},
      {"lstm, wide", {lstm}, {3, 2, 64}},
      {"lstm, wide, blocks of rows", {lstm}, {2, 8, 64}},
  };
}

Type parts_of(const ScanCase& c) {
  return {f32, {c.sizes[0], c.sizes[1], recurrent::gates_of(c.op.kind) * c.sizes[2]}};
}

}  // namespace

std::vector<Case> RecurrentScan::cases() {
  std::vector<Case> cases;
  for (const ScanCase& each : scan_cases()) {
    Case c{.name = each.name, .op = make_op(each.op), .inputs = {}, .sums = true};
    Types types = scan_operands(each.op, parts_of(each));
    if (!each.bias) types.pop_back();
    for (Type& type : types) c.inputs.push_back({std::move(type), {.low = -0.8, .high = 0.8}});
    cases.push_back(std::move(c));
  }
  return cases;
}

/// The states and the saved numbers are any, not those of a forward pass: the gradient's formula
/// says what becomes of them.
std::vector<Case> RecurrentScanGrad::cases() {
  std::vector<Case> cases;
  const auto add = [&](const ScanCase& each, RecurrentScanGrad op, const std::string& name) {
    Case c{.name = name, .op = make_op(op), .inputs = {}, .sums = true, .gradient = false};
    Types of_scan = scan_operands(each.op, parts_of(each));
    of_scan.pop_back();
    const Types made = each.op.infer(of_scan);
    Types types;
    if (op.of_states) types.push_back(made[0]);
    types.resize(op.states(), made[1]);
    types.insert(types.end(), {made[0], made[each.op.results()], made[each.op.results() + 1]});
    types.insert(types.end(), of_scan.begin() + 1, of_scan.end());
    for (Type& type : types) c.inputs.push_back({std::move(type), {.low = -0.8, .high = 0.8}});
    cases.push_back(std::move(c));
  };
  for (const ScanCase& each : scan_cases()) {
    const bool cell = each.op.keeps_cell();
    add(each, {each.op, true, true, cell}, each.name);
    if (each.sizes != Shape{5, 3, 7}) continue;
    add(each, {each.op, true, false, false}, each.name + ", of the states alone");
    add(each, {each.op, false, true, false}, each.name + ", of the last state alone");
    if (cell) add(each, {each.op, false, false, true}, each.name + ", of the last cell alone");
  }
  return cases;
}

}  // namespace metronome
