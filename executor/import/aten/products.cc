// Products of ATen: of matrices, by letters, and what adds to them.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <string>

#include "executor/import/aten/call.h"
#include "ops/language/derived.h"
#include "ops/language/indexing.h"
#include "ops/language/layers.h"

namespace metronome::pt2 {
namespace {

/// alpha times a product, and beta times what is there before: 0 times that is 0, whatever it is.
Value times_plus(const Call& c, Value product) {
  const double alpha = c.number("alpha", 1), beta = c.number("beta", 1);
  if (alpha != 1) product = product * Operand(alpha, c.line());
  if (beta == 0) return expand(product, c.output().shape, c.line());
  Value more = c.value("self");
  if (beta != 1) more = more * Operand(beta, c.line());
  return more + product;
}

/// A tensor whose axes have letters.
struct Lettered {
  Value value;
  std::string letters;
};

bool has(const std::string& letters, char letter) { return letters.find(letter) != letters.npos; }

/// The letters in the order that is asked for; others are summed over.
Lettered ordered(const Call& c, Lettered x, const std::string& order) {
  std::vector<std::int64_t> gone, axes;
  std::string kept;
  for (std::size_t d = 0; d < x.letters.size(); ++d) {
    if (has(order, x.letters[d])) {
      kept += x.letters[d];
    } else {
      gone.push_back(static_cast<std::int64_t>(d));
    }
  }
  if (!gone.empty()) x.value = sum(x.value, Axes(gone), false, c.line());
  for (const char letter : order) {
    const std::size_t at = kept.find(letter);
    if (at == kept.npos) throw Unsupported{"its result has a letter that no operand has"};
    axes.push_back(static_cast<std::int64_t>(at));
  }
  return {kept == order ? x.value : permute(x.value, axes, c.line()), order};
}

/// Two operands as one, with the letters of `wanted` that they have. Letters of both are the batch
/// or, if nobody wants them, summed over; those of one are rows or columns.
Lettered contracted(const Call& c, const Lettered& a, const Lettered& b,
                    const std::string& wanted) {
  std::string batch, rows, summed, columns;
  for (const char letter : a.letters) {
    if (has(b.letters, letter)) {
      (has(wanted, letter) ? batch : summed) += letter;
    } else if (has(wanted, letter)) {
      rows += letter;
    }
  }
  for (const char letter : b.letters) {
    if (!has(a.letters, letter) && has(wanted, letter)) columns += letter;
  }
  std::map<char, std::int64_t> sizes;
  for (const Lettered* of : {&a, &b}) {
    for (std::size_t d = 0; d < of->letters.size(); ++d) {
      sizes[of->letters[d]] = of->value.size(static_cast<std::int64_t>(d));
    }
  }
  const auto count = [&](const std::string& letters) {
    std::int64_t n = 1;
    for (const char letter : letters) n *= sizes[letter];
    return n;
  };
  const Value left = ordered(c, a, batch + rows + summed)
                         .value.reshape({count(batch), count(rows), count(summed)}, c.line());
  const Value right = ordered(c, b, batch + summed + columns)
                          .value.reshape({count(batch), count(summed), count(columns)}, c.line());
  Shape shape;
  for (const char letter : batch + rows + columns) shape.push_back(sizes[letter]);
  return {matmul(left, right, c.line()).reshape(shape, c.line()), batch + rows + columns};
}

/// Sums of products by letters, "bij,bjk->bik", from the first operand on.
Values einsum_of(const Call& c) {
  std::string equation = c.text("equation", "");
  std::erase(equation, ' ');
  const Values operands = c.values("tensors");
  const std::size_t arrow = equation.find("->");
  std::vector<std::string> terms(1);
  for (const char letter : equation.substr(0, arrow)) {
    if (letter == ',') {
      terms.emplace_back();
    } else {
      terms.back() += letter;
    }
  }
  if (equation.find('.') != equation.npos || terms.size() != operands.size()) {
    throw Unsupported{fmt::format("its equation is \"{}\"", equation)};
  }
  std::string result;
  if (arrow != equation.npos) {
    result = equation.substr(arrow + 2);
  } else {  // the letters that come once, in their order
    const std::string all = fmt::format("{}", fmt::join(terms, ""));
    for (const char letter : all) {
      if (std::ranges::count(all, letter) == 1) result += letter;
    }
    std::ranges::sort(result);
  }
  for (std::size_t i = 0; i < terms.size(); ++i) {
    std::string once = terms[i];
    std::ranges::sort(once);
    const bool twice = std::ranges::adjacent_find(once) != once.end();
    if (twice || static_cast<std::int64_t>(once.size()) != operands[i].rank()) {
      throw Unsupported{fmt::format("its equation is \"{}\"", equation)};
    }
  }
  Lettered made{operands[0], terms[0]};
  for (std::size_t i = 1; i < operands.size(); ++i) {
    std::string wanted = result;
    for (std::size_t later = i + 1; later < terms.size(); ++later) wanted += terms[later];
    made = contracted(c, made, {operands[i], terms[i]}, wanted);
  }
  return {ordered(c, made, result).value};
}

/// x and y summed over equal axes of both: rows are the other axes of x, columns those of y.
Values tensordot_of(const Call& c) {
  const Line line = c.line();
  const Value x = c.value("self"), y = c.value("other");
  const auto counted = [](std::vector<std::int64_t> axes, const Value& of) {
    for (std::int64_t& axis : axes) axis = counted_axis(axis, of.rank());
    return axes;
  };
  const std::vector<std::int64_t> a = counted(c.integers("dims_self"), x),
                                  b = counted(c.integers("dims_other"), y);
  const auto others = [](const Value& of, const std::vector<std::int64_t>& axes) {
    std::vector<std::int64_t> all;
    for (std::int64_t axis = 0; axis < of.rank(); ++axis) {
      if (std::ranges::find(axes, axis) == axes.end()) all.push_back(axis);
    }
    return all;
  };
  const auto numel = [](const Value& of, const std::vector<std::int64_t>& axes) {
    std::int64_t n = 1;
    for (const std::int64_t axis : axes) n *= of.size(axis);
    return n;
  };
  std::vector<std::int64_t> rows = others(x, a), columns = others(y, b);
  const std::int64_t summed = numel(x, a);
  const std::int64_t height = numel(x, rows), width = numel(y, columns);
  rows.insert(rows.end(), a.begin(), a.end());
  columns.insert(columns.begin(), b.begin(), b.end());
  const Value left = permute(x, rows, line).reshape({height, summed}, line);
  const Value right = permute(y, columns, line).reshape({summed, width}, line);
  return {matmul(left, right, line).reshape(c.output().shape, line)};
}

/// The sum of products along the last axis of both.
Values inner_of(const Call& c) {
  const Value x = c.value("self"), y = c.value("other");
  if (x.rank() == 0 || y.rank() == 0) return {x * y};
  const Value rows =
      x.reshape({x.type().numel() / std::max<std::int64_t>(x.size(-1), 1), x.size(-1)}, c.line());
  const Value columns =
      y.reshape({y.type().numel() / std::max<std::int64_t>(y.size(-1), 1), y.size(-1)}, c.line());
  return {linear(rows, columns, {}, c.line()).reshape(c.output().shape, c.line())};
}

/// x1 A x2 + bias, with a matrix A for each output.
Values bilinear_of(const Call& c) {
  const Line line = c.line();
  const Value x = c.value("input1"), y = c.value("input2"), weight = c.value("weight");
  if (weight.rank() != 3 || weight.size(1) < 1) throw Unsupported{"its weight is no matrices"};
  const std::int64_t outputs = weight.size(0), in = weight.size(1), other = weight.size(2);
  const std::int64_t rows = x.type().numel() / in;
  const Value left =
      linear(x.reshape({rows, in}, line),
             permute(weight, {0, 2, 1}, line).reshape({outputs * other, in}, line), {}, line)
          .reshape({rows, outputs, other}, line);
  Value made = sum(left * y.reshape({rows, 1, other}, line), 2, false, line);
  if (c.has("bias")) made = made + c.value("bias");
  return {made.reshape(c.output().shape, line)};
}

Values cross_of(const Call& c) {
  const Line line = c.line();
  const Value x = expand(c.value("self"), c.output().shape, line);
  const Value y = expand(c.value("other"), c.output().shape, line);
  std::int64_t axis = 0;
  if (c.has("dim")) {
    axis = c.axis("dim", x);
  } else if (c.node().target.starts_with("aten.linalg_cross")) {
    axis = x.rank() - 1;
  } else {
    while (axis + 1 < x.rank() && x.size(axis) != 3) ++axis;
  }
  const auto turned = [&](const Value& of, std::int64_t by) { return roll(of, by, axis, line); };
  return {turned(x, -1) * turned(y, -2) - turned(x, -2) * turned(y, -1)};
}

Values kron_of(const Call& c) {
  const Line line = c.line();
  Value x = c.value("self"), y = c.value("other");
  const auto rank = static_cast<std::size_t>(std::max(x.rank(), y.rank()));
  Shape left, right;
  for (std::size_t d = 0; d < rank; ++d) {
    const auto at = [&](const Value& of) {
      const std::int64_t axis =
          static_cast<std::int64_t>(d) + of.rank() - static_cast<std::int64_t>(rank);
      return axis < 0 ? 1 : of.size(axis);
    };
    left.insert(left.end(), {at(x), 1});
    right.insert(right.end(), {1, at(y)});
  }
  return {(x.reshape(left, line) * y.reshape(right, line)).reshape(c.output().shape, line)};
}

}  // namespace

void add_products(Table& t) {
  t["aten.einsum"] = einsum_of;
  for (const char* name : {"matmul", "bmm", "mm", "mv", "dot"}) {
    t[std::string("aten.") + name] = [](const Call& c) {
      const Value a = c.value("self");
      const Value b = c.value(c.has("other")  ? "other"
                              : c.has("mat2") ? "mat2"
                              : c.has("vec")  ? "vec"
                                              : "tensor");
      if (a.rank() > 1 && b.rank() > 1) return Values{matmul(a, b, c.line())};
      // A vector is a row before a matrix, and a column behind one.
      const Value row = a.rank() > 1 ? a : a.reshape({1, a.size(0)}, c.line());
      const Value column = b.rank() > 1 ? b : b.reshape({b.size(0), 1}, c.line());
      return Values{matmul(row, column, c.line()).reshape(c.output().shape, c.line())};
    };
  }
  t["aten.linear"] = [](const Call& c) {
    return Values{linear(c.value("input"), c.value("weight"), c.value_or_absent("bias"), c.line())};
  };
  t["aten.addmm"] = [](const Call& c) {
    return Values{times_plus(c, matmul(c.value("mat1"), c.value("mat2"), c.line()))};
  };
  t["aten.baddbmm"] = [](const Call& c) {
    return Values{times_plus(c, matmul(c.value("batch1"), c.value("batch2"), c.line()))};
  };
  for (const char* name : {"outer", "ger"}) {
    t[std::string("aten.") + name] = [](const Call& c) {
      const Value a = c.value("self"), b = c.value("vec2");
      return Values{a.reshape({a.size(0), 1}, c.line()) * b.reshape({1, b.size(0)}, c.line())};
    };
  }
  t["aten.tensordot"] = tensordot_of;
  t["aten.inner"] = inner_of;
  t["aten.bilinear"] = bilinear_of;
  t["aten.cross"] = cross_of;
  t["aten.linalg_cross"] = cross_of;
  t["aten.kron"] = kron_of;
  t["aten.vdot"] = t.at("aten.dot");
  t["aten.addmv"] = [](const Call& c) {
    const Value matrix = c.value("mat"), vec = c.value("vec");
    const Value column = vec.reshape({vec.size(0), 1}, c.line());
    return Values{
        times_plus(c, matmul(matrix, column, c.line()).reshape({matrix.size(0)}, c.line()))};
  };
  t["aten.addr"] = [](const Call& c) {
    const Value a = c.value("vec1"), b = c.value("vec2");
    return Values{
        times_plus(c, a.reshape({a.size(0), 1}, c.line()) * b.reshape({1, b.size(0)}, c.line()))};
  };
  t["aten.addbmm"] = [](const Call& c) {
    return Values{times_plus(
        c, sum(matmul(c.value("batch1"), c.value("batch2"), c.line()), 0, false, c.line()))};
  };
}

}  // namespace metronome::pt2
