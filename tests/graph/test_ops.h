// Ops of the tests' own, so that graph/ is tested without a library of ops.
#pragma once

#include <fmt/format.h>

#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "graph/builder/graph.h"
#include "graph/emit/emitter.h"
#include "graph/emit/scope.h"
#include "graph/ir/graph.h"
#include "graph/ir/guarded.h"
#include "graph/ir/op_model.h"
#include "graph/ir/structural.h"
#include "graph/rules/alias.h"
#include "graph/rules/fusion.h"
#include "graph/rules/gradient.h"
#include "graph/rules/inside.h"

namespace metronome::testing {

/// x + y of equal types. May be written over either.
struct Plus {
  static constexpr std::string_view name = "plus";
  bool operator==(const Plus&) const = default;
  Types infer(std::span<const Type> in) const {
    if (in[0] != in[1]) {
      throw Requirement{
          fmt::format("equal types, but {} and {}", to_string(in[0]), to_string(in[1]))};
    }
    return {in[0]};
  }
  std::vector<InPlace> in_place() const { return {{0, 0}, {0, 1}}; }
  Values vjp(const Vjp& v) const { return {v.grad(), v.grad()}; }
};

/// factor * x. May be written over x.
struct Scale {
  static constexpr std::string_view name = "scale";
  double factor = 1;
  bool operator==(const Scale&) const = default;
  std::string attributes() const { return fmt::format("factor={}", factor); }
  Types infer(std::span<const Type> in) const { return {in[0]}; }
  std::vector<InPlace> in_place() const { return {{0, 0}}; }
  Values vjp(const Vjp& v) const {
    return {metronome::apply(Scale{factor}, {v.grad()}, Line::here())};
  }
};

/// x, which is sent somewhere too.
struct Send {
  static constexpr std::string_view name = "send";
  static constexpr bool differentiable = false;
  static constexpr bool effects = true;
  bool operator==(const Send&) const = default;
  Types infer(std::span<const Type> in) const { return {in[0]}; }
  Value fold(std::span<const Value> in) const { return in[0]; }
};

/// `rows` rows of x, from row `begin` on. A view.
struct Head {
  static constexpr std::string_view name = "head";
  static constexpr bool differentiable = false;
  std::int64_t begin = 0;
  std::int64_t rows = 1;
  bool operator==(const Head&) const = default;
  std::string attributes() const { return fmt::format("begin={} rows={}", begin, rows); }
  Types infer(std::span<const Type> in) const {
    if (in[0].rank() < 1 || begin < 0 || rows < 0 || begin + rows > in[0].shape[0]) {
      throw Requirement{fmt::format("{} rows or more, but {}", begin + rows, to_string(in[0]))};
    }
    Type head = in[0];
    head.shape[0] = rows;
    return {head};
  }
  std::optional<Alias> alias(std::span<const Type> in) const {
    Type skipped = in[0];
    skipped.shape[0] = begin;
    return Alias{0, 0, skipped.bytes()};
  }
};

/// `count` columns of a matrix, from column `begin` on. A copy, or read where they lie.
struct Columns {
  static constexpr std::string_view name = "columns";
  static constexpr bool differentiable = false;
  std::int64_t begin = 0;
  std::int64_t count = 1;
  bool operator==(const Columns&) const = default;
  std::string attributes() const { return fmt::format("{}:{}", begin, begin + count); }
  Types infer(std::span<const Type> in) const {
    return {Type{in[0].element, {in[0].shape[0], count}}};
  }
  std::optional<Fusion> fusion(std::span<const Type>) const {
    return Fusion{.kind = Fusion::Kind::slice, .axis = 1, .begin = begin};
  }
};

/// Matrices of one shape side by side.
struct Beside {
  static constexpr std::string_view name = "beside";
  static constexpr bool differentiable = false;
  bool operator==(const Beside&) const = default;
  Types infer(std::span<const Type> in) const {
    Type whole = in[0];
    whole.shape[1] *= static_cast<std::int64_t>(in.size());
    return {whole};
  }
  std::optional<Fusion> fusion(std::span<const Type>) const {
    return Fusion{.kind = Fusion::Kind::concat, .axis = 1};
  }
};

/// Rows of all operands, one operand behind the other; each may be made there.
struct Stack {
  static constexpr std::string_view name = "stack";
  static constexpr bool differentiable = false;
  bool operator==(const Stack&) const = default;
  Types infer(std::span<const Type> in) const {
    Type whole = in[0];
    for (const Type& type : in.subspan(1)) whole.shape[0] += type.shape[0];
    return {whole};
  }
  std::vector<Inside> inside(std::span<const Type> in) const {
    std::vector<Inside> inside;
    std::size_t offset = 0;
    for (std::size_t i = 0; i < in.size(); ++i) {
      inside.push_back({0, static_cast<int>(i), offset});
      offset += in[i].bytes();
    }
    return inside;
  }
};

/// Any values in, one of type `result` out, never in place: a matrix product to the planner.
struct Blend {
  static constexpr std::string_view name = "blend";
  static constexpr bool differentiable = false;
  Type result;
  bool operator==(const Blend&) const = default;
  std::string attributes() const { return to_string(result); }
  Types infer(std::span<const Type>) const { return {result}; }
};

/// x normalised, and a saved scalar that only a gradient would read. May be written over x.
struct Norm {
  static constexpr std::string_view name = "norm";
  static constexpr bool differentiable = false;
  static constexpr int saved = 1;
  bool operator==(const Norm&) const = default;
  Types infer(std::span<const Type> in) const { return {in[0], Type{in[0].element, {}}}; }
  std::vector<InPlace> in_place() const { return {{0, 0}}; }
};

/// (parameter, gradient, moment) to the next parameter and moment, each over its old value.
struct Momentum {
  static constexpr std::string_view name = "momentum";
  static constexpr bool differentiable = false;
  bool operator==(const Momentum&) const = default;
  Types infer(std::span<const Type> in) const { return {in[0], in[2]}; }
  std::vector<InPlace> in_place() const { return {{0, 0}, {1, 2}}; }
};

/// The sum of operand 0, whose gradient is one number for all; other operands are read as a whole.
struct Total {
  static constexpr std::string_view name = "total";
  bool operator==(const Total&) const = default;
  Types infer(std::span<const Type> in) const { return {Type{in[0].element, {}}}; }
  Values vjp(const Vjp& v) const {
    return {metronome::apply(Blend{v.in(0).type()}, {v.grad()}, {})};
  }
  std::optional<Fusion> fusion(std::span<const Type>) const {
    return Fusion{Fusion::Kind::reduction, {0}, {}};
  }
};

inline Value plus(Value x, Value y, Line line = Line::here()) {
  return apply(Plus{}, {x, y}, line);
}
inline Value scale(Value x, double factor, Line line = Line::here()) {
  return apply(Scale{factor}, {x}, line);
}
inline Value head(Value x, std::int64_t begin, std::int64_t rows, Line line = Line::here()) {
  return apply(Head{begin, rows}, {x}, line);
}

inline Value columns(Value x, std::int64_t begin, std::int64_t count, Line line = Line::here()) {
  return apply(Columns{begin, count}, {x}, line);
}

inline Value accumulate(Value sum, Value term) {
  return apply(Accumulate{}, {sum, term}, Line{"sum.cc", 2});
}

/// An optimizer: parameter + gradient, without state.
struct Descent {
  static constexpr std::string_view name = "descent";
  std::string attributes() const { return ""; }
  std::vector<Moment> moments() const { return {}; }
  Values scalars(Value, double) const { return {}; }
  Values update(Value parameter, Value gradient, std::span<const Value>,
                std::span<const Value>) const {
    return {plus(parameter, gradient)};
  }
};

/// Output 0 of a new node at exactly `path`, so that a drawing can name it: under a guard, where
/// one is given, and after those that made `others`.
template <OpRules T>
Value node(Graph& graph, std::string path, T op, std::vector<Value> inputs, Value guard = {},
           std::vector<Value> others = {}) {
  Node node;
  node.op = make_op(std::move(op));
  for (const Value& input : inputs) node.inputs.push_back(input.id());
  node.path = std::move(path);
  for (const Value& other : others) node.waits_for.push_back(other.id().node);
  if (guard.present()) node.guard = guard.id();
  return graph.value(graph.emitter().graph.append(std::move(node)));
}
/// A value that is computed only where `guard` holds as one for all: zero where it does not.
inline Value or_zero(Graph& graph, std::string path, Value guard, Value guarded) {
  return node(graph, std::move(path), Merge{1, false}, {guard, guarded});
}
/// Another output of the node that made `value`.
inline Value output(Graph& graph, Value value, std::int32_t output) {
  return graph.value({value.id().node, output});
}

/// Assigns to each storage its value, in place of earlier assignments.
inline void assign_all(Graph& graph, const std::vector<std::pair<Value, Value>>& pairs) {
  std::vector<Assignment> assignments;
  for (const auto& [storage, value] : pairs) {
    const auto id = graph.data().find_storage(storage.node().path);
    assignments.push_back({*id, value.id(), Line{}});
  }
  graph.emitter().graph.set_assignments(std::move(assignments));
}

/// A vector of floats, 4 bytes each.
inline Type floats(std::int64_t n) { return Type{f32, {n}}; }

/// True where the decider's outcome is `when` of `cases`, and the parent, where given, is true.
inline Value guard(Graph& graph, std::string path, Value decider, int when, int cases = 2,
                   Value parent = {}) {
  std::vector<Value> inputs = {decider};
  if (parent.present()) inputs.push_back(parent);
  return node(graph, std::move(path), Guard{when, cases, inputs.size() == 2}, inputs);
}
/// Output 0 of a new node that runs under `guard`, where that is present.
template <OpRules T>
Value node_under(Graph& graph, Value guard, std::string path, T op, std::vector<Value> inputs) {
  return node(graph, std::move(path), std::move(op), std::move(inputs), guard);
}

}  // namespace metronome::testing
