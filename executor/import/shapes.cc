// Views, copies and products of ATen. A view that only renames places takes its shape from the
// file.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>

#include "executor/import/call.h"
#include "ops/language/derived.h"
#include "ops/language/indexing.h"
#include "ops/language/layers.h"

namespace metronome::pt2 {
namespace {

std::int64_t axis_of(const Value& x, std::int64_t axis) {
  return axis < 0 ? axis + x.rank() : axis;
}

/// The parts of x along an axis, as long as the outputs of the file are; each may lack the axis.
Values parts(const Call& c, const Value& x, std::int64_t axis) {
  Values all;
  std::int64_t begin = 0;
  for (std::size_t i = 0; i < c.node().outputs.size(); ++i) {
    const Type& type = c.output(i);
    const std::int64_t size = type.rank() == x.rank() ? type.shape[axis] : 1;
    const Value part = x.slice(axis, begin, begin + size, c.line());
    all.push_back(part.shape() == type.shape ? part : part.reshape(type.shape, c.line()));
    begin += size;
  }
  return all;
}

Values split_of(const Call& c) {
  const Value x = c.value("self");
  return parts(c, x, axis_of(x, c.integer("dim", 0)));
}

Values select_of(const Call& c) {
  const Value x = c.value("self");
  const std::int64_t axis = axis_of(x, c.integer("dim")), index = c.integer("index");
  const std::int64_t at = index < 0 ? index + x.size(axis) : index;
  return {x.slice(axis, at, at + 1, c.line()).reshape(c.output().shape, c.line())};
}

/// Indices as a value, for steps that are not 1.
Value every(const Call& c, std::int64_t begin, std::int64_t count, std::int64_t step) {
  std::vector<double> numbers;
  for (std::int64_t i = 0; i < count; ++i) numbers.push_back(static_cast<double>(begin + i * step));
  return make_constant(c.emitter(), numbers, {i64, {count}}, c.line());
}

Values slice_of(const Call& c) {
  const Value x = c.value("self");
  const std::int64_t axis = axis_of(x, c.integer("dim", 0)), size = x.size(axis);
  const auto place = [&](std::int64_t at) {
    return std::clamp<std::int64_t>(at < 0 ? at + size : at, 0, size);
  };
  const std::int64_t begin = place(c.integer("start", 0)), step = c.integer("step", 1);
  const std::int64_t end = std::max(begin, place(c.integer("end", size)));
  if (step == 1) return {begin == 0 && end == size ? x : x.slice(axis, begin, end, c.line())};
  return {index_select(x, axis, every(c, begin, (end - begin + step - 1) / step, step), c.line())};
}

Values permuted(const Call& c, const Value& x, std::vector<std::int64_t> axes) {
  for (std::int64_t& axis : axes) axis = axis_of(x, axis);
  return {permute(x, std::move(axes), c.line())};
}

Values move_axes(const Call& c) {
  const Value x = c.value("self");
  std::vector<std::int64_t> from = c.integers("source"), to = c.integers("destination");
  std::vector<std::int64_t> order(static_cast<std::size_t>(x.rank()), -1);
  for (std::size_t i = 0; i < from.size(); ++i) {
    from[i] = axis_of(x, from[i]);
    order[static_cast<std::size_t>(axis_of(x, to[i]))] = from[i];
  }
  std::int64_t next = 0;
  for (std::int64_t& axis : order) {
    while (std::ranges::find(from, next) != from.end()) ++next;
    if (axis < 0) axis = next++;
  }
  return permuted(c, x, order);
}

/// x as often as each number says along its axis.
Values repeat_of(const Call& c) {
  const std::vector<std::int64_t> times = c.integers("repeats");
  Value x = c.value("self");
  Shape shape = x.shape();
  shape.insert(shape.begin(), times.size() - shape.size(), 1);
  Shape apart, wide;
  for (std::size_t d = 0; d < times.size(); ++d) {
    apart.insert(apart.end(), {1, shape[d]});
    wide.insert(wide.end(), {times[d], shape[d]});
  }
  x = expand(x.reshape(apart, c.line()), wide, c.line());
  return {x.reshape(c.output().shape, c.line())};
}

Values roll_of(const Call& c) {
  Value x = c.value("self");
  const std::vector<std::int64_t> shifts = c.integers("shifts"), axes = c.integers("dims", {{}});
  if (axes.empty()) {
    const Value flat = x.reshape({x.type().numel()}, c.line());
    return {roll(flat, shifts[0], 0, c.line()).reshape(x.shape(), c.line())};
  }
  for (std::size_t i = 0; i < axes.size(); ++i) x = roll(x, shifts[i], axes[i], c.line());
  return {x};
}

Value times_plus(const Call& c, Value product) {
  const double alpha = c.number("alpha", 1), beta = c.number("beta", 1);
  if (alpha != 1) product = product * Operand(alpha, c.line());
  Value more = c.value("self");
  if (beta != 1) more = more * Operand(beta, c.line());
  return more + product;
}

/// Sums of products of two operands by letters: "bij,bjk->bik". Letters of both and of the result
/// make the batch, those of both alone are summed over, those of one are rows or columns.
Values einsum_of(const Call& c) {
  std::string equation = c.text("equation", "");
  std::erase(equation, ' ');
  const std::size_t comma = equation.find(','), arrow = equation.find("->");
  const Values operands = c.values("tensors");
  if (operands.size() != 2 || comma == equation.npos || arrow == equation.npos ||
      equation.find('.') != equation.npos) {
    throw Unsupported{
        fmt::format("its equation is \"{}\", and not of two operands and a result", equation)};
  }
  const std::string a = equation.substr(0, comma),
                    b = equation.substr(comma + 1, arrow - comma - 1),
                    result = equation.substr(arrow + 2);
  std::string batch, rows, summed, columns;
  const auto in = [](const std::string& letters, char letter) {
    return letters.find(letter) != letters.npos;
  };
  for (const char letter : a) {
    (in(b, letter) ? in(result, letter) ? batch : summed : rows) += letter;
  }
  for (const char letter : b) {
    if (!in(a, letter)) columns += letter;
  }
  std::map<char, std::int64_t> sizes;
  for (std::size_t i = 0; i < a.size(); ++i)
    sizes[a[i]] = operands[0].size(static_cast<std::int64_t>(i));
  for (std::size_t i = 0; i < b.size(); ++i)
    sizes[b[i]] = operands[1].size(static_cast<std::int64_t>(i));
  for (const char letter : rows + columns) {
    if (!in(result, letter)) throw Unsupported{"it sums over a letter of one operand"};
  }
  const auto count = [&](const std::string& letters) {
    std::int64_t n = 1;
    for (const char letter : letters) n *= sizes[letter];
    return n;
  };
  const auto ordered = [&](const Value& x, const std::string& of, const std::string& order) {
    std::vector<std::int64_t> axes;
    for (const char letter : order) axes.push_back(static_cast<std::int64_t>(of.find(letter)));
    return permute(x, axes, c.line());
  };
  const Value left = ordered(operands[0], a, batch + rows + summed)
                         .reshape({count(batch), count(rows), count(summed)}, c.line());
  const Value right = ordered(operands[1], b, batch + summed + columns)
                          .reshape({count(batch), count(summed), count(columns)}, c.line());
  Shape shape;
  for (const char letter : batch + rows + columns) shape.push_back(sizes[letter]);
  const Value product = matmul(left, right, c.line()).reshape(shape, c.line());
  return {ordered(product, batch + rows + columns, result)};
}

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
}

}  // namespace

void add_shapes(Table& t) {
  add_products(t);
  for (const char* name : {"view", "reshape", "_unsafe_view", "flatten", "unflatten", "squeeze",
                           "unsqueeze", "view_as", "reshape_as"}) {
    t[std::string("aten.") + name] = [](const Call& c) {
      const Value x = c.value("self");
      return Values{x.shape() == c.output().shape ? x : x.reshape(c.output().shape, c.line())};
    };
  }
  for (const char* name : {"split", "split_with_sizes", "chunk", "unbind"}) {
    t[std::string("aten.") + name] = split_of;
  }
  t["aten.select"] = select_of;
  t["aten.slice"] = slice_of;
  t["aten.narrow"] = [](const Call& c) {
    const Value x = c.value("self");
    const std::int64_t axis = axis_of(x, c.integer("dim")), start = c.integer("start");
    const std::int64_t begin = start < 0 ? start + x.size(axis) : start;
    return Values{x.slice(axis, begin, begin + c.integer("length"), c.line())};
  };
  t["aten.permute"] = [](const Call& c) {
    return permuted(c, c.value("self"), c.integers("dims"));
  };
  for (const char* name : {"transpose", "swapaxes", "swapdims"}) {
    t[std::string("aten.") + name] = [](const Call& c) {
      const bool axes = c.has("axis0");
      return Values{c.value("self").transpose(c.integer(axes ? "axis0" : "dim0"),
                                              c.integer(axes ? "axis1" : "dim1"), c.line())};
    };
  }
  for (const char* name : {"t", "numpy_T", "mT"}) {
    t[std::string("aten.") + name] = [](const Call& c) {
      const Value x = c.value("self");
      return Values{x.rank() < 2 ? x : x.transpose(-2, -1, c.line())};
    };
  }
  t["aten.movedim"] = move_axes;
  t["aten.cat"] = [](const Call& c) {
    Values all = c.values("tensors");
    for (Value& x : all) x = x.element() == c.output().element ? x : x.cast(c.output().element);
    return Values{concat(all, axis_of(all[0], c.integer("dim", 0)), c.line())};
  };
  t["aten.stack"] = [](const Call& c) {
    const std::int64_t dim = c.integer("dim", 0), rank = c.output().rank();
    return Values{stack(c.values("tensors"), dim < 0 ? dim + rank : dim, c.line())};
  };
  t["aten.flip"] = [](const Call& c) {
    return Values{flip(c.value("self"), c.integers("dims"), c.line())};
  };
  t["aten.roll"] = roll_of;
  t["aten.repeat"] = repeat_of;
  t["aten.tril"] = [](const Call& c) {
    return Values{tril(c.value("self"), c.integer("diagonal", 0), c.line())};
  };
  t["aten.triu"] = [](const Call& c) {
    return Values{triu(c.value("self"), c.integer("diagonal", 0), c.line())};
  };
}

}  // namespace metronome::pt2
