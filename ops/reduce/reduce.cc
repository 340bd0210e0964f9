// These are the rules of the two ops; reduce_cpu.cc and reduce_cuda.cc hold the kernels.
//
//   gradient   sum, mean: that of the result, spread over the axes (and divided); max, min: shared
//              by the elements that equal the result, or NaN for all if the result is one
//   fold       a reshape takes the place of a reduction over axes of one element
//   laid out   the axes are renamed to their places in the stored tensor; over a blocked axis the
//              elements of a block are reduced, too, if no block is filled up
//   gather     sums over the rows of small matrices become one sum over all their rows
#include "ops/reduce/reduce.h"

#include <fmt/format.h>

#include <algorithm>

#include "graph/emit/scope.h"
#include "graph/ir/error.h"
#include "ops/elementwise/elementwise.h"
#include "ops/expr/functions.h"
#include "ops/rules/require.h"

namespace metronome {

std::vector<std::int64_t> from_front(std::vector<std::int64_t> axes, std::int64_t rank) {
  for (std::int64_t& axis : axes) {
    if (axis < 0 && axis >= -rank) axis += rank;
  }
  std::sort(axes.begin(), axes.end());
  return axes;
}

std::string Reduce::attributes() const {
  return fmt::format("{}{}", fmt::join(axes, ", "), keep ? ", keep" : "");
}

Types Reduce::infer(std::span<const Type> in) const {
  switch (kind) {
    case Kind::sum:
    case Kind::max:
    case Kind::min:
      require_number(in[0]);
      break;
    case Kind::mean:
    case Kind::sum_squares:
    case Kind::norm:
      require_floating(in[0]);
      break;
  }
  std::vector<bool> reduced(in[0].shape.size());
  std::int64_t elements = 1;
  for (const std::int64_t axis : axes) {
    const std::int64_t d = normalized_axis(axis, in[0].rank());
    if (reduced[d]) throw Requirement{fmt::format("each axis once, but {} twice", d)};
    reduced[d] = true;
    elements *= in[0].shape[d];
  }
  if (elements == 0 && (kind == Kind::max || kind == Kind::min)) {
    throw Requirement{"one element or more along the axes, but 0"};
  }
  Type result{in[0].element, {}};
  for (std::size_t d = 0; d < reduced.size(); ++d) {
    if (!reduced[d] || keep) result.shape.push_back(reduced[d] ? 1 : in[0].shape[d]);
  }
  return {std::move(result)};
}

Values Reduce::vjp(const Vjp& v) const {
  const Value& x = v.in(0);
  if (!v.grad().present() || !is_floating(x.element())) return {Value()};
  Shape kept = x.shape();
  std::int64_t elements = 1;
  for (const std::int64_t axis : axes) elements *= std::exchange(kept[axis], 1);
  const Value g = v.grad().reshape(kept);
  switch (kind) {
    case Kind::sum:
      return {expand(g, x.shape())};
    case Kind::mean:
      return {expand(g * (1.0 / static_cast<double>(elements)), x.shape())};
    case Kind::sum_squares:
      return {elementwise(Function::square_grad, {g, x})};
    case Kind::norm:
      return {elementwise(Function::norm_grad, {g, x, v.out(0).reshape(kept)})};
    case Kind::max:
    case Kind::min: {
      const Value out = v.out(0).reshape(kept), hit = equal(x, out);
      const Value count = sum(hit.cast(x.element()), axes, true);
      // Nothing equals a NaN: then it is the gradient of all, as libtorch has it.
      return {where(hit, g / count, where(equal(out, out), 0.0, out))};
    }
  }
  throw InternalError("a reduction's kind out of range");
}

Value Reduce::fold(std::span<const Value> in) const {
  if (kind == Kind::sum_squares || kind == Kind::norm) return {};
  for (const std::int64_t axis : axes) {
    if (in[0].shape()[axis] != 1) return {};
  }
  const Type type = in[0].type();
  return in[0].reshape(infer({&type, 1})[0].shape);
}

std::optional<LaidOutOp> Reduce::lay_out(std::span<const Type> in, const Layout& layout) const {
  const auto rank = static_cast<std::int32_t>(in[0].rank());
  std::vector<bool> reduced(rank);
  for (const std::int64_t axis : axes) reduced[normalized_axis(axis, rank)] = true;
  const bool over_blocks = layout.blocked >= 0 && reduced[layout.blocked];
  if (over_blocks && in[0].shape[layout.blocked] % layout.block != 0) return std::nullopt;

  Reduce over_stored{kind, {}, keep};
  std::vector<std::int32_t> left(rank);  // [dimension] its number in the result
  std::int32_t next = 0;
  for (std::int32_t d = 0; d < rank; ++d) {
    if (reduced[d]) over_stored.axes.push_back(layout.place_of(d));
    left[d] = keep || !reduced[d] ? next++ : -1;
  }
  if (over_blocks) over_stored.axes.push_back(rank);
  std::ranges::sort(over_stored.axes);
  Layout result;
  for (const std::int32_t d : layout.order) {
    if (left[d] >= 0) result.order.push_back(left[d]);
  }
  if (std::ranges::is_sorted(result.order)) result.order.clear();
  if (layout.blocked >= 0) result.blocked = left[layout.blocked];
  if (result.blocked >= 0) result.block = over_blocks ? 1 : layout.block;
  return LaidOutOp{make_op(over_stored), {layout}, {result}};
}

std::optional<Fusion> Reduce::fusion(std::span<const Type> in) const {
  if (in[0].numel() == 0) return std::nullopt;
  return Fusion{.kind = Fusion::Kind::reduction, .streamed_inputs = {0}};
}

Value Reduce::gather(std::span<const Addend> addends) const {
  // Elements: those of few rows lie side by side already, for the products that are gathered.
  constexpr std::int64_t kMost = 1 << 13;
  if (kind != Kind::sum || axes != std::vector<std::int64_t>{0} || keep) return {};
  Values rows;
  for (const Addend& addend : addends) {
    const Value& x = addend.inputs[0];
    if (x.rank() != 2 || x.size(0) * x.size(1) > kMost) return {};
    rows.push_back(x);
  }
  return sum(concat(rows, 0), 0);
}

std::vector<Case> Reduce::cases() {
  struct Form {
    std::string name;
    Shape shape;
    std::vector<std::int64_t> axes;
    bool keep = false;
  };
  const std::vector<Form> forms = {
      {"everything", {7, 37}, {0, 1}},
      {"rows", {7, 37}, {1}, true},
      {"short rows", {9, 3}, {1}},
      {"long rows", {3, 9001}, {1}},
      {"columns", {37, 75}, {0}},
      {"few columns", {600, 3}, {0}, true},
      {"one row", {1, 130}, {0}},
      {"one column", {130, 1}, {1}},
      {"nothing", {3, 5}, {}},
      {"a scalar", {}, {}},
      {"middle", {3, 5, 7}, {1}},
      {"outer and inner", {3, 5, 7}, {0, 2}},
      {"channels", {2, 3, 4, 5}, {0, 2, 3}, true},
      {"channels, for threads", {40, 3, 17, 19}, {0, 2, 3}},
      {"two runs of columns", {3, 4, 5, 6}, {0, 2}},
      {"crossed", {2, 3, 4, 3, 2}, {0, 2, 4}},
      {"everything, for threads", {300, 257}, {0, 1}},
      {"rows, for threads", {300, 257}, {1}},
      {"columns, for threads", {300, 257}, {0}},
      {"few columns, for threads", {40000, 5}, {0}},
  };
  std::vector<Case> cases;
  for (const Kind kind :
       {Kind::sum, Kind::mean, Kind::max, Kind::min, Kind::sum_squares, Kind::norm}) {
    for (const Form& form : forms) {
      Reduce op{kind, form.axes, form.keep};
      cases.push_back({.name = fmt::format("{} {}", op.name, form.name),
                       .op = make_op(std::move(op)),
                       .inputs = {{{f32, form.shape}}},
                       .sums = true});
    }
  }
  for (const Kind kind : {Kind::sum, Kind::max, Kind::min}) {
    for (const Element element : {i32, i64}) {
      for (const std::int64_t axis : {0, 1}) {
        Reduce op{kind, {axis}};
        Case c{.name = fmt::format("{} {} axis {}", op.name, name_of(element), axis),
               .op = make_op(std::move(op)),
               .inputs = {{{element, {19, 23}}}},
               .gradient = false};
        c.inputs[0].fill = {
            .kind = Fillings::Kind::integers, .low = -50, .high = 50, .differentiable = false};
        cases.push_back(std::move(c));
      }
    }
  }
  cases.push_back({.name = "sum of no rows",
                   .op = make_op(Reduce{Kind::sum, {0}}),
                   .inputs = {{{f32, {0, 3}}}},
                   .sums = true});
  cases.push_back({.name = "mean of no rows",
                   .op = make_op(Reduce{Kind::mean, {0}}),
                   .inputs = {{{f32, {0, 3}}}},
                   .sums = true,
                   .gradient = false});
  cases.push_back({.name = "mean to no element",
                   .op = make_op(Reduce{Kind::mean, {0}}),
                   .inputs = {{{f32, {4, 0}}}},
                   .sums = true});
  return cases;
}

std::string ArgMax::attributes() const { return std::to_string(axis); }

Types ArgMax::infer(std::span<const Type> in) const {
  require_number(in[0]);
  const std::int64_t d = normalized_axis(axis, in[0].rank());
  if (in[0].shape[d] == 0) throw Requirement{"one element or more along the axis, but 0"};
  Type result{i64, in[0].shape};
  result.shape.erase(result.shape.begin() + d);
  return {std::move(result)};
}

std::vector<Case> ArgMax::cases() {
  std::vector<Case> cases;
  const auto add = [&](std::string name, std::int64_t axis, Shape shape, Fillings fill = {}) {
    fill.differentiable = false;
    cases.push_back({.name = std::move(name),
                     .op = make_op(ArgMax{axis}),
                     .inputs = {{{f32, std::move(shape)}, fill}},
                     .gradient = false});
  };
  add("rows", 1, {7, 37});
  add("columns", 0, {37, 7});
  add("middle", 1, {3, 5, 7});
  add("ties", 1, {6, 40}, {.kind = Fillings::Kind::integers, .low = 0, .high = 3});
  add("one", 0, {1});
  add("no row", 1, {0, 4});
  add("for threads", 1, {400, 129});
  return cases;
}

}  // namespace metronome
