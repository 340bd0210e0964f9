// The language of models: operators, elementwise functions, reductions, shapes, indexing.
//
// Names are PyTorch's. Operands are broadcast as in NumPy; a number takes the element type of the
// value beside it; there is no implicit promotion: mixed types are an error that suggests `cast`.
// Every mistake is recorded in the graph with the line of the caller, and gives a poisoned value.
//
// Gradients and lowerings of ops call these too, so they are declared below the ops. They make
// nodes of ops, so they are defined above them, in ops/language/functions.cc.
#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <utility>
#include <vector>

#include "graph/ir/line.h"
#include "graph/ir/type.h"
#include "graph/ir/value.h"
#include "ops/expr/function.h"
#include "ops/expr/reduction.h"

namespace metronome {

// ---- operators ---------------------------------------------------------------------------------

/// Element by element; comparisons give bool.
Value operator+(Operand x, Operand y);
Value operator-(Operand x, Operand y);
Value operator*(Operand x, Operand y);
Value operator/(Operand x, Operand y);
Value operator-(Operand x);
Value operator<(Operand x, Operand y);
Value operator<=(Operand x, Operand y);
Value operator>(Operand x, Operand y);
Value operator>=(Operand x, Operand y);
/// For each element; bool. Two handles name one value if their `id()` are equal.
Value operator==(Operand x, Operand y);
Value operator!=(Operand x, Operand y);
Value equal(Operand x, Operand y);
Value not_equal(Operand x, Operand y);

// ---- elementwise -------------------------------------------------------------------------------

/// A function of each element: `mt::gelu(x)`, and as a layer `x.through(mt::gelu)`.
struct UnaryFunction {
  static constexpr bool rowwise = true;
  Function function;
  Value operator()(Value x, Line line = Line::here()) const;
};

/// PyTorch's functions of these names.
inline constexpr UnaryFunction abs{Function::abs};
inline constexpr UnaryFunction sign{Function::sign};
inline constexpr UnaryFunction exp{Function::exp};
inline constexpr UnaryFunction log{Function::log};
inline constexpr UnaryFunction expm1{Function::expm1};  ///< exp(x) - 1
inline constexpr UnaryFunction log1p{Function::log1p};  ///< log(1 + x)

/// No gradient flows through these four, which are flat wherever they are smooth.
inline constexpr UnaryFunction floor{Function::floor};
inline constexpr UnaryFunction ceil{Function::ceil};
inline constexpr UnaryFunction round{Function::round};  ///< halves to the even neighbour
inline constexpr UnaryFunction trunc{Function::trunc};  ///< toward zero

/// PyTorch's functions of these names.
inline constexpr UnaryFunction sin{Function::sin};    ///< of radians
inline constexpr UnaryFunction cos{Function::cos};    ///< of radians
inline constexpr UnaryFunction asin{Function::asin};  ///< in radians
inline constexpr UnaryFunction acos{Function::acos};  ///< in radians
inline constexpr UnaryFunction atan{Function::atan};  ///< in radians
inline constexpr UnaryFunction erf{Function::erf};
inline constexpr UnaryFunction erfc{Function::erfc};  ///< 1 - erf(x), with its digits in the tail
inline constexpr UnaryFunction sqrt{Function::sqrt};
inline constexpr UnaryFunction rsqrt{Function::rsqrt};
inline constexpr UnaryFunction reciprocal{Function::reciprocal};
inline constexpr UnaryFunction square{Function::square};
inline constexpr UnaryFunction tanh{Function::tanh};
inline constexpr UnaryFunction sigmoid{Function::sigmoid};
inline constexpr UnaryFunction relu{Function::relu};
/// x * Phi(x), with the normal distribution's Phi in its erf form (Hendrycks & Gimpel 2016).
inline constexpr UnaryFunction gelu{Function::gelu};
/// x * sigmoid(x), also known as swish.
inline constexpr UnaryFunction silu{Function::silu};
/// log(1 + exp(x)).
inline constexpr UnaryFunction softplus{Function::softplus};

/// Not, element by element; bool.
inline constexpr UnaryFunction logical_not{Function::logical_not};

/// The smaller and the larger one of each two elements.
Value minimum(Operand x, Operand y);
Value maximum(Operand x, Operand y);
/// And, or, element by element; bool.
Value logical_and(Operand x, Operand y);
Value logical_or(Operand x, Operand y);
/// x to the power y, element by element.
Value pow(Operand x, Operand y);
/// x - trunc(x / y) * y: of the sign of x, exactly rounded.
Value fmod(Operand x, Operand y);
/// The angle of the point (x, y) in radians, -pi to pi; its gradient is 0 at the origin.
Value atan2(Operand y, Operand x);
/// Each element moved into [low, high]; low <= high.
Value clamp(Value x, double low, double high, Line line = Line::here());
/// x where the bool `condition` holds, else y.
Value where(Value condition, Operand x, Operand y, Line line = Line::here());

// ---- reductions --------------------------------------------------------------------------------

/// Axes of a reduction: one, a list, or all of them (the default). Negative ones count from the
/// end.
struct Axes {
  Axes() = default;
  template <std::integral I>
  Axes(I axis)
      : list(std::vector<std::int64_t>{static_cast<std::int64_t>(axis)}) {}  // NOLINT: sum(x, 1)
  Axes(std::initializer_list<std::int64_t> axes) : list(axes) {}
  Axes(std::vector<std::int64_t> axes) : list(std::move(axes)) {}  // NOLINT

  std::optional<std::vector<std::int64_t>> list;  ///< absent: all
};

/// A reduction over axes, which leave the shape, or stay as 1 with `keep`; as a layer it reduces
/// all.
struct Reduction {
  ReduceKind kind;
  Value operator()(Value x, Axes axes = {}, bool keep = false, Line line = Line::here()) const;
  /// As a layer. (A template, so that `sum(x, {0, 1})` is not mistaken for it.)
  template <std::same_as<Line> L>
  Value operator()(Value x, L line) const {
    return (*this)(x, Axes(), false, line);
  }
};

/// A reduction that also joins the branches of `split`, element by element.
struct BranchReduction : Reduction {
  using Reduction::operator();
  Value operator()(const Values& branches, Line line = Line::here()) const;
};

/// The sum, and the sum divided by the number of elements.
inline constexpr BranchReduction sum{{ReduceKind::sum}};
inline constexpr BranchReduction mean{{ReduceKind::mean}};
/// Their gradient goes in equal shares to all elements that are the largest (smallest).
inline constexpr BranchReduction max{{ReduceKind::max}};
inline constexpr BranchReduction min{{ReduceKind::min}};
/// The sum of the elements' squares.
inline constexpr Reduction sum_squares{ReduceKind::sum_squares};

/// Joins the branches of `split` by their product.
struct Product {
  Value operator()(const Values& branches, Line line = Line::here()) const;
};
inline constexpr Product product;

/// Index of the first of the largest elements along an axis, which leaves the shape; i64.
Value argmax(Value x, std::int64_t axis = -1, Line line = Line::here());

// ---- shapes and indexing; Value has cast, reshape, transpose and slice -------------------------

/// The value repeated to a shape that its own broadcasts to.
Value expand(Value x, Shape shape, Line line = Line::here());
/// Dimension i of the result is dimension axes[i] of x.
Value permute(Value x, std::vector<std::int64_t> axes, Line line = Line::here());
/// The values one after the other along an axis; their other dimensions are equal.
Value concat(const Values& values, std::int64_t axis, Line line = Line::here());
/// Joins the branches of `split` along an axis.
Join concat(std::int64_t axis);
/// x in n equal parts along an axis, in order.
Values chunk(Value x, std::int64_t n, std::int64_t axis, Line line = Line::here());
/// Values of one type along a new axis.
Value stack(const Values& values, std::int64_t axis, Line line = Line::here());
/// Rows of `table` [rows, width] by an integer index of any shape: [index..., width]. An index out
/// of range reads a row of zeros and receives no gradient.
Value embedding_lookup(Value table, Value index, Line line = Line::here());
/// x[..., index[...]]: one element of the last dimension for each of the leading ones. An index out
/// of range reads zero and receives no gradient.
Value pick(Value x, Value index, Line line = Line::here());

}  // namespace metronome
