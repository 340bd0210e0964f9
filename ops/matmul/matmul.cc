// These are the rules of `Matmul` and `Linear`; the kernels lie beside.
//
//   gradient   of C = A B: dA = g B^T and dB = A^T g, by flags in place of transposes. Operands
//              that were broadcast get sums; a B of a whole batch gets one product over all rows
//   absorb     sum + A B becomes one product that adds to the sum
//   gather     A1^T B1 + A2^T B2 = [A1; A2]^T [B1; B2]: gradients of one weight become one product
//              over stacked rows, if the operands are small or the result is much larger than they
//   sample     a smaller product, of fewer rows or a part of the batch, to be timed in its place
#include "ops/matmul/matmul.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "graph/emit/scope.h"
#include "graph/ir/error.h"
#include "graph/ir/structural.h"
#include "ops/expr/functions.h"
#include "ops/expr/sums.h"
#include "ops/rules/axis.h"
#include "ops/rules/require.h"

namespace metronome {
namespace {

Value matmul_of(Value a, bool transpose_a, Value b, bool transpose_b) {
  return apply(Matmul{transpose_a, transpose_b}, {a, b}, Line::here());
}

/// The least sizes of a sample: below, a product would be bound by the operand that stays whole, or
/// by its start.
constexpr std::int64_t kLeastRows = 512;
constexpr std::int64_t kLeastProducts = 16;

std::int64_t fewer(std::int64_t size, double share, std::int64_t least) {
  const auto part = static_cast<std::int64_t>(std::ceil(static_cast<double>(size) * share));
  return std::min(size, std::max(least, part));
}

/// All dimensions but the last as one.
Value rows_of(Value x) {
  const std::int64_t width = x.shape().back();
  std::int64_t rows = 1;
  for (std::size_t i = 0; i + 1 < x.shape().size(); ++i) rows *= x.shape()[i];
  return x.reshape({rows, width});
}

}  // namespace

std::string Matmul::attributes() const {
  std::vector<std::string_view> set;
  if (transpose_a) set.push_back("transpose_a");
  if (transpose_b) set.push_back("transpose_b");
  if (accumulate) set.push_back("accumulate");
  return fmt::format("{}", fmt::join(set, ", "));
}

double Matmul::flops(std::span<const Type> in, std::span<const Type> out) const {
  const Shape& a = in[0].shape;
  const std::int64_t inner = a[a.size() - (transpose_a ? 2 : 1)];
  return 2.0 * static_cast<double>(out[0].numel()) * static_cast<double>(inner);
}

Types Matmul::infer(std::span<const Type> in) const {
  require_floating(in[0]);
  require_equal_elements(in);
  for (const Type& type : in.first(2)) {
    if (type.rank() < 2) {
      throw Requirement{fmt::format("operands of two or more dimensions, but {}", type.rank()),
                        "reshape a vector to one row or one column"};
    }
  }
  const auto size = [](const Type& type, bool last) { return type.shape[type.rank() - 1 - !last]; };
  const std::int64_t m = size(in[0], transpose_a), n = size(in[1], !transpose_b);
  const std::int64_t inner_a = size(in[0], !transpose_a), inner_b = size(in[1], transpose_b);
  if (inner_a != inner_b) {
    throw Requirement{fmt::format("equal inner dimensions, but {} and {}", inner_a, inner_b)};
  }
  Shape shape;
  try {
    shape = broadcast(leading(in[0].shape, 2), leading(in[1].shape, 2));
  } catch (const Requirement&) {
    throw Requirement{fmt::format("leading dimensions that broadcast, but {} and {}",
                                  to_string(leading(in[0].shape, 2)),
                                  to_string(leading(in[1].shape, 2)))};
  }
  shape.insert(shape.end(), {m, n});
  const Type result{in[0].element, std::move(shape)};
  if (accumulate && in[2] != result) {
    throw Requirement{fmt::format("an addend of the product's type, {}, but {}", to_string(result),
                                  to_string(in[2]))};
  }
  return {result};
}

Values Matmul::vjp(const Vjp& v) const {
  Values result(v.inputs.size());
  if (!v.grad().present()) return result;
  const Value &g = v.grad(), &a = v.in(0), &b = v.in(1);
  Value da =
      transpose_a ? matmul_of(b, transpose_b, g, true) : matmul_of(g, false, b, !transpose_b);
  Value db;
  if (b.rank() == 2 && !transpose_a && g.rank() > 2) {
    // One B for all: the products over the leading dimensions and their sum are one product.
    const Value rows = rows_of(a), grad = rows_of(g);
    db = transpose_b ? matmul_of(grad, true, rows, false) : matmul_of(rows, true, grad, false);
  } else {
    db = transpose_b ? matmul_of(g, true, a, transpose_a) : matmul_of(a, !transpose_a, g, false);
  }
  result[0] = sum_to(da, a.shape());
  result[1] = sum_to(db, b.shape());
  if (accumulate) result[2] = g;
  return result;
}

std::vector<InPlace> Matmul::in_place() const {
  if (accumulate) return {{0, 2}};
  return {};
}

OpPtr Matmul::absorb(const Op& consumer, std::size_t) const {
  if (accumulate || consumer.as<Accumulate>() == nullptr) return nullptr;
  Matmul sum = *this;
  sum.accumulate = true;
  return make_op(sum);
}

Value Matmul::gather(std::span<const Addend> addends) const {
  // Multiplications of an addend; the operands of smaller ones take little memory.
  constexpr std::int64_t kSmall = 1 << 20;
  // Larger ones keep their operands until a product of several is made. That pays where a result
  // has so many times the operands' elements, as each addend reads and writes it: the recurrent
  // weights of an LSTM of 512 cells over 128 rows have 3.2 times (one product in 0.75 of the time),
  // a linear layer of 512 x 512 over 128 rows twice (no faster).
  constexpr std::int64_t kTimes = 2;
  constexpr std::int64_t kRows = 1024;  // of a product: over more it is no faster
  if (!transpose_a || transpose_b || accumulate) return {};
  bool small = true;
  std::int64_t most = 0;  // rows of an addend
  for (const Addend& addend : addends) {
    const Value &a = addend.inputs[0], &b = addend.inputs[1];
    if (a.rank() != 2 || b.rank() != 2) return {};
    const std::int64_t rows = a.size(0), m = a.size(1), n = b.size(1);
    const bool is_small = rows * m * n <= kSmall;
    if (!is_small && m * n <= kTimes * rows * (m + n)) return {};
    small = small && is_small;
    most = std::max(most, rows);
  }
  const std::size_t together = small ? addends.size() : kRows / std::max<std::int64_t>(1, most);
  if (together < 2) return {};
  Value sum;
  for (std::size_t begin = 0; begin < addends.size(); begin += together) {
    const std::size_t count = std::min(together, addends.size() - begin);
    Values left, right;
    for (const Addend& addend : addends.subspan(begin, count)) {
      left.push_back(addend.inputs[0]);
      right.push_back(addend.inputs[1]);
    }
    const Value part = matmul_of(concat(left, 0), true, concat(right, 0), false);
    sum = sum.present() ? apply(Accumulate{}, {sum, part}, Line::here()) : part;
  }
  return sum;
}

Types sample(const Matmul& op, std::span<const Type> inputs, double share) {
  Types types(inputs.begin(), inputs.end());
  const std::size_t rank = types[0].shape.size();
  if (rank > 2) {
    for (Type& type : types) {
      if (type.shape.size() == rank) type.shape[0] = fewer(type.shape[0], share, kLeastProducts);
    }
  } else if (op.transpose_a && types[1].shape.size() == 2) {
    // A gradient of a weight: the sum runs over rows.
    for (const auto& [i, dimension] : {std::pair{0, 0}, std::pair{1, op.transpose_b ? 1 : 0}}) {
      std::int64_t& size = types[i].shape[dimension];
      size = fewer(size, share, kLeastRows);
    }
  } else if (!op.transpose_a && types[1].shape.size() == 2) {
    for (std::size_t i = 0; i < types.size(); i += 2) {
      types[i].shape[0] = fewer(types[i].shape[0], share, kLeastRows);
    }
  }
  return types;
}

Types sample(const Linear&, std::span<const Type> inputs, double share) {
  Types types(inputs.begin(), inputs.end());
  Shape& shape = types[0].shape;
  if (shape.size() < 2) return types;
  const std::int64_t rows = types[0].numel() / std::max<std::int64_t>(1, shape[0] * shape.back());
  shape[0] = fewer(shape[0], share, kLeastRows / std::max<std::int64_t>(1, rows));
  return types;
}

std::vector<Case> Matmul::cases() {
  const auto make = [](std::string name, Shape a, Shape b, Matmul op = {}, Shape addend = {}) {
    Case result{.name = std::move(name),
                .op = make_op(op),
                .inputs = {{{f32, std::move(a)}}, {{f32, std::move(b)}}},
                .sums = true};
    if (op.accumulate) result.inputs.push_back({{f32, std::move(addend)}});
    return result;
  };
  const Matmul tn{.transpose_a = true}, nt{.transpose_b = true};
  const Matmul tt{.transpose_a = true, .transpose_b = true};
  return {
      make("small", {4, 16}, {16, 16}),
      make("small, b transposed", {4, 16}, {16, 16}, nt),
      make("small, a transposed", {4, 16}, {4, 16}, tn),
      make("odd", {5, 7}, {7, 19}),
      make("odd, b transposed", {5, 35}, {19, 35}, nt),
      make("odd, a transposed", {7, 13}, {7, 33}, tn),
      make("odd, both transposed", {7, 13}, {33, 7}, tt),
      make("one row", {1, 33}, {33, 65}),
      make("one column", {65, 33}, {1, 33}, nt),
      make("one element", {1, 1}, {1, 1}),
      make("sum of nothing", {3, 0}, {0, 5}),
      make("no rows", {0, 4}, {4, 5}),
      make("middle", {96, 130}, {130, 70}),
      make("large", {128, 150}, {150, 170}),
      make("large, b transposed", {128, 150}, {170, 150}, nt),
      make("large, a transposed", {150, 128}, {150, 170}, tn),
      make("several blocks of terms", {64, 1100}, {1100, 70}),
      make("several blocks of terms, b transposed", {64, 1100}, {70, 1100}, nt),
      make("several blocks of terms, a transposed", {1100, 64}, {1100, 70}, tn),
      make("several blocks of terms, addend", {64, 1100}, {1100, 70}, {.accumulate = true},
           {64, 70}),
      make("batched", {3, 2, 5, 9}, {3, 2, 9, 17}),
      make("batched, b transposed", {6, 16, 2}, {6, 16, 2}, nt),
      make("one b for a batch", {3, 5, 9}, {9, 17}),
      make("one b for a batch, transposed", {3, 5, 9}, {17, 9}, nt),
      make("one a for a batch", {5, 9}, {3, 9, 17}),
      make("leading dimensions broadcast", {3, 1, 5, 9}, {4, 9, 17}),
      make("large batch", {12, 64, 70}, {12, 70, 64}),
      make("large batch, b transposed", {12, 64, 70}, {12, 64, 70}, nt),
      make("large batch, broadcast", {2, 1, 96, 70}, {3, 70, 80}),
      make("large batch, one a, transposed", {70, 96}, {5, 70, 80}, tn),
      make("large batched addend", {6, 96, 70}, {6, 70, 80}, {.accumulate = true}, {6, 96, 80}),
      make("addend", {5, 7}, {7, 19}, {.accumulate = true}, {5, 19}),
      make("addend, a transposed", {4, 64}, {4, 64}, {.transpose_a = true, .accumulate = true},
           {64, 64}),
      make("large addend", {128, 150}, {150, 170}, {.accumulate = true}, {128, 170}),
      make("batched addend", {3, 5, 7}, {3, 7, 9}, {.accumulate = true}, {3, 5, 9}),
  };
}

double Linear::flops(std::span<const Type> in, std::span<const Type> out) const {
  return 2.0 * static_cast<double>(out[0].numel()) * static_cast<double>(in[0].shape.back());
}

Types Linear::infer(std::span<const Type> in) const {
  const Type &x = in[0], &weight = in[1];
  require_floating(x);
  require_equal_elements(in);
  if (x.rank() == 0) throw Requirement{"an operand of one or more dimensions, but a scalar"};
  if (weight.rank() != 2) {
    throw Requirement{fmt::format("a weight of two dimensions, [out, in], but {}", weight.rank())};
  }
  if (x.shape.back() != weight.shape[1]) {
    throw Requirement{fmt::format("a last dimension equal to the weight's, but {} and {}",
                                  x.shape.back(), weight.shape[1])};
  }
  if (in.size() > 2 && in[2].shape != Shape{weight.shape[0]}) {
    throw Requirement{
        fmt::format("a bias of shape [{}], but {}", weight.shape[0], to_string(in[2].shape))};
  }
  Shape shape = x.shape;
  shape.back() = weight.shape[0];
  return {{x.element, std::move(shape)}};
}

Values Linear::vjp(const Vjp& v) const {
  Values result(v.inputs.size());
  if (!v.grad().present()) return result;
  const Value grad = rows_of(v.grad()), x = rows_of(v.in(0));
  result[0] = matmul_of(grad, false, v.in(1), false).reshape(v.in(0).shape());
  result[1] = matmul_of(grad, true, x, false);
  if (v.inputs.size() > 2) result[2] = sum(grad, {0});
  return result;
}

Value Linear::loosen(std::span<const Value> inputs) const {
  const bool bias = inputs.size() > 2;
  if (!bias || inputs[0].rank() < 2) return {};
  return matmul_of(inputs[0], false, inputs[1], true) + inputs[2];
}

std::vector<Case> Linear::cases() {
  const auto make = [](std::string name, Shape x, std::int64_t out, bool bias = true) {
    Case result{.name = std::move(name),
                .op = make_op(Linear{}),
                .inputs = {{{f32, x}}, {{f32, {out, x.back()}}}},
                .sums = true};
    if (bias) result.inputs.push_back({{f32, {out}}});
    return result;
  };
  return {
      make("small", {4, 16}, 16),
      make("small, no bias", {4, 16}, 16, false),
      make("64", {4, 64}, 64),
      make("odd", {5, 19}, 35),
      make("odd, no bias", {3, 7}, 100, false),
      make("one row", {1, 33}, 17),
      make("one feature", {9, 1}, 1),
      make("vector", {12}, 5),
      make("sequence", {2, 3, 9}, 21),
      make("empty", {0, 4}, 3),
      make("middle", {96, 70}, 130),
      make("large", {128, 150}, 170),
      make("large, no bias", {128, 150}, 170, false),
      make("several blocks of terms", {64, 1100}, 70),
  };
}

}  // namespace metronome
