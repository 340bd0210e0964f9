// Reads and writes by tensors of indices, and windows, in ATen's words.
//
//   x[:, i, j]            the axes that have indices become one, of all their places; one flat
//                         index picks from it
//   x[i, :, j]            axes that are apart come first before that
//
// ATen counts a negative index from the end, and refuses one beyond an axis; a place that is beyond
// any axis here is the place -1, which is reported as other indices out of range are.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <string>

#include "executor/import/aten/call.h"
#include "executor/import/aten/places.h"
#include "ops/language/derived.h"
#include "ops/language/indexing.h"
#include "ops/layers/resize.h"

namespace metronome::pt2 {
namespace {

std::int64_t product(const Shape& shape, std::size_t from, std::size_t to) {
  return std::accumulate(shape.begin() + static_cast<std::ptrdiff_t>(from),
                         shape.begin() + static_cast<std::ptrdiff_t>(to), std::int64_t{1},
                         std::multiplies<>());
}

Shape broadcast_of(const Values& indices) {
  Shape all;
  for (const Value& index : indices) {
    if (!index.present()) continue;
    const Shape& shape = index.shape();
    if (shape.size() > all.size()) all.insert(all.begin(), shape.size() - all.size(), 1);
    for (std::size_t d = 0; d < shape.size(); ++d) {
      std::int64_t& size = all[all.size() - shape.size() + d];
      size = size == 1 ? shape[d] : size;
    }
  }
  return all;
}

/// The axes of x that tensors index, as one axis, and the places that they name there.
struct Picked {
  Value x;            ///< [before, places, behind]
  Value index;        ///< [n], i64
  Shape as_permuted;  ///< of x, before its axes became one
  std::vector<std::int64_t> order;
  Shape before, behind, shape_of_index;

  /// [before..., index..., behind...].
  Shape shape() const {
    Shape all = before;
    all.insert(all.end(), shape_of_index.begin(), shape_of_index.end());
    all.insert(all.end(), behind.begin(), behind.end());
    return all;
  }
};

Picked picked(const Call& c, const Value& x, const Values& indices) {
  const Line line = c.line();
  std::vector<std::int64_t> axes;
  for (std::size_t i = 0; i < indices.size(); ++i) {
    if (!indices[i].present()) continue;
    if (indices[i].element() == bool_) throw Unsupported{"its indices are a mask"};
    axes.push_back(static_cast<std::int64_t>(i));
  }
  if (axes.empty()) throw Unsupported{"it has no tensor of indices"};
  Picked p{.x = x};
  const bool apart = axes.back() - axes.front() >= static_cast<std::int64_t>(axes.size());
  p.order.resize(static_cast<std::size_t>(x.rank()));
  std::iota(p.order.begin(), p.order.end(), 0);
  if (apart) {
    std::ranges::stable_partition(
        p.order, [&](std::int64_t axis) { return std::ranges::find(axes, axis) != axes.end(); });
    p.x = permute(x, p.order, line);
  }
  p.as_permuted = p.x.shape();
  const std::size_t first = apart ? 0 : static_cast<std::size_t>(axes[0]);
  const std::size_t last = first + axes.size();
  p.before.assign(p.as_permuted.begin(),
                  p.as_permuted.begin() + static_cast<std::ptrdiff_t>(first));
  p.behind.assign(p.as_permuted.begin() + static_cast<std::ptrdiff_t>(last), p.as_permuted.end());
  p.shape_of_index = broadcast_of(indices);
  const std::int64_t places = product(p.as_permuted, first, last);
  p.x = p.x.reshape(
      {product(p.before, 0, p.before.size()), places, product(p.behind, 0, p.behind.size())}, line);
  Value valid;
  for (const std::int64_t axis : axes) {
    const std::int64_t size = x.size(axis);
    Value index = indices[static_cast<std::size_t>(axis)];
    if (index.element() != i64) index = index.cast(i64, line);
    index = counted_from_zero(index, size, line);
    if (axes.size() > 1) {
      const Value inside =
          logical_and(index >= Operand(0, line), index < Operand(static_cast<double>(size), line));
      valid = valid.present() ? logical_and(valid, inside) : inside;
    }
    p.index =
        p.index.present() ? p.index * Operand(static_cast<double>(size), line) + index : index;
  }
  if (valid.present()) p.index = where(valid, p.index, Operand(-1, line), line);
  if (p.index.shape() != p.shape_of_index) p.index = expand(p.index, p.shape_of_index, line);
  p.index = p.index.reshape({p.index.type().numel()}, line);
  return p;
}

Values index_of(const Call& c) {
  const Picked p = picked(c, c.value("self"), c.optional_values("indices"));
  return {index_select(p.x, 1, p.index, c.line()).reshape(c.output().shape, c.line())};
}

/// A value where a mask holds: the mask is of x's first axes.
Values put_where(const Call& c, const Value& x, Value mask) {
  const Value value = c.value("values");
  if (value.type().numel() != 1)
    throw Unsupported{"its indices are a mask, and its values several"};
  Shape shape = mask.shape();
  shape.resize(static_cast<std::size_t>(x.rank()), 1);
  mask = mask.reshape(shape, c.line());
  const Operand one(value.reshape({}, c.line()), c.line());
  if (!c.flag("accumulate", false)) return {masked_fill(x, mask, one, c.line())};
  return {x + where(mask, one, Operand(0, c.line()), c.line())};
}

/// `index` [n] as [before, n, behind]: what scatter_add takes.
Value along_middle(const Value& index, const Shape& shape, Line line) {
  return expand(index.reshape({1, shape[1], 1}, line), shape, line);
}

Values index_put(const Call& c) {
  const Line line = c.line();
  const Value x = c.value("self");
  const Values indices = c.optional_values("indices");
  if (indices.size() == 1 && indices[0].present() && indices[0].element() == bool_) {
    return put_where(c, x, indices[0]);
  }
  const Picked p = picked(c, x, indices);
  const Shape flat = {p.x.size(0), p.index.size(0), p.x.size(2)};
  const Value source = expand(c.value("values"), p.shape(), line).reshape(flat, line);
  Value put = c.flag("accumulate", false)
                  ? scatter_add(p.x, 1, along_middle(p.index, flat, line), source, line)
                  : index_copy(p.x, 1, p.index, source, line);
  put = put.reshape(p.as_permuted, line);
  if (p.as_permuted == x.shape() && std::ranges::is_sorted(p.order)) return {put};
  std::vector<std::int64_t> back(p.order.size());
  for (std::size_t d = 0; d < back.size(); ++d) {
    back[static_cast<std::size_t>(p.order[d])] = static_cast<std::int64_t>(d);
  }
  return {permute(put, back, line)};
}

Values index_add(const Call& c) {
  const Line line = c.line();
  const Value x = c.value("self"), index = c.value("index");
  Value source = c.value("source");
  if (c.number("alpha", 1) != 1) source = source * Operand(c.number("alpha"), line);
  const std::int64_t axis = c.axis("dim", x);
  Shape shape(static_cast<std::size_t>(x.rank()), 1);
  shape[static_cast<std::size_t>(axis)] = index.type().numel();
  return {
      scatter_add(x, axis, expand(index.reshape(shape, line), source.shape(), line), source, line)};
}

Values index_copied(const Call& c) {
  return {index_copy(c.value("self"), c.axis("dim", c.value("self")), c.value("index"),
                     c.value("source"), c.line())};
}

Values index_filled(const Call& c) {
  const Line line = c.line();
  const Value x = c.value("self"), index = c.value("index");
  const std::int64_t axis = c.axis("dim", x);
  Shape shape = x.shape();
  shape[static_cast<std::size_t>(axis)] = index.type().numel();
  const Operand value = c.promoted_operand("value");
  const Value source = value.number
                           ? make_constant(c.emitter(), *value.number, {x.element(), shape}, line)
                           : expand(value.value, shape, line);
  const Value from_zero =
      counted_from_zero(index.reshape({index.type().numel()}, line), x.size(axis), line);
  return {index_copy(x, axis, from_zero, source, line)};
}

/// Each element along an axis so often, one after the other.
Values repeat_interleaved(const Call& c) {
  Value x = c.value("self");
  const std::int64_t times = c.integer("repeats");
  if (!c.has("dim")) x = x.reshape({x.type().numel()}, c.line());
  const auto axis = static_cast<std::ptrdiff_t>(c.has("dim") ? c.axis("dim", x) : 0);
  Shape apart = x.shape();
  apart.insert(apart.begin() + axis + 1, 1);
  Shape wide = apart;
  wide[static_cast<std::size_t>(axis + 1)] = times;
  return {expand(x.reshape(apart, c.line()), wide, c.line()).reshape(c.output().shape, c.line())};
}

// ---- windows -----------------------------------------------------------------------------------

/// x.unfold(axis, size, step): windows along an axis, whose elements are a new last axis.
Values unfolded(const Call& c) {
  const Value x = c.value("self");
  const std::int64_t size = c.integer("size"), step = c.integer("step");
  if (x.rank() == 0) return {x.reshape(c.output().shape, c.line())};
  const std::int64_t axis = c.axis("dimension", x);
  const std::int64_t count = c.sizes(x.rank() + 1)[static_cast<std::size_t>(axis)];
  const Value windows = in_windows(c, x, axis, {.count = count, .size = size, .step = step});
  std::vector<std::int64_t> order(static_cast<std::size_t>(x.rank()) + 1);
  std::iota(order.begin(), order.end(), 0);
  order.erase(order.begin() + axis + 1);
  order.push_back(axis + 1);
  return {permute(windows, order, c.line())};
}

/// Height and width of a call that gives one number for both, or two.
std::pair<std::int64_t, std::int64_t> two_of(const Call& c, const char* name, std::int64_t none) {
  const std::vector<std::int64_t> both = c.integers(name, {{none}});
  if (both.empty() || both.size() > 2) {
    throw Unsupported{fmt::format("its {} is {} numbers", name, both.size())};
  }
  for (const std::int64_t number : both) require_few(number);
  return {both.at(0), both.size() > 1 ? both[1] : both[0]};
}

struct Columns {
  explicit Columns(const Call& c)
      : kernel(two_of(c, "kernel_size", 1)),
        dilation(two_of(c, "dilation", 1)),
        padding(two_of(c, "padding", 0)),
        stride(two_of(c, "stride", 1)) {
    for (const auto& [name, both] :
         {std::pair("kernel_size", kernel), {"dilation", dilation}, {"stride", stride}}) {
      require_positive({both.first, both.second}, name);
    }
  }

  std::pair<std::int64_t, std::int64_t> kernel, dilation, padding, stride;

  static std::int64_t windows_of(std::int64_t size, std::int64_t kernel, std::int64_t dilation,
                                 std::int64_t padding, std::int64_t stride) {
    return (size + 2 * padding - dilation * (kernel - 1) - 1) / stride + 1;
  }
  AxisWindows rows(std::int64_t height) const {
    return {.count = windows_of(height, kernel.first, dilation.first, padding.first, stride.first),
            .size = kernel.first,
            .step = stride.first,
            .dilation = dilation.first};
  }
  AxisWindows columns(std::int64_t width) const {
    return {
        .count = windows_of(width, kernel.second, dilation.second, padding.second, stride.second),
        .size = kernel.second,
        .step = stride.second,
        .dilation = dilation.second};
  }
};

/// x [N, C, H, W] to [N, C kH kW, windows]; of one image without N.
Values image_to_columns(const Call& c) {
  const Line line = c.line();
  const Columns how(c);
  Value x = c.value("self");
  if (x.rank() != 3 && x.rank() != 4) throw Unsupported{"its operand is no image"};
  if (x.rank() == 3) x = x.reshape({1, x.size(0), x.size(1), x.size(2)}, line);
  const AxisWindows rows = how.rows(x.size(2)), columns = how.columns(x.size(3));
  x = pad(x, {how.padding.second, how.padding.second, how.padding.first, how.padding.first}, 0,
          line);
  x = in_windows(c, x, 3, columns);          // [N, C, H, oW, kW]
  x = in_windows(c, x, 2, rows);             // [N, C, oH, kH, oW, kW]
  x = permute(x, {0, 1, 3, 5, 2, 4}, line);  // [N, C, kH, kW, oH, oW]
  return {x.reshape(c.output().shape, line)};
}

/// The sums of columns where they lay in the image: what `image_to_columns` is the reverse of.
Values columns_to_image(const Call& c) {
  const Line line = c.line();
  const Columns how(c);
  const auto [height, width] = two_of(c, "output_size", 1);
  const Value x = c.value("self");
  if (x.rank() != 2 && x.rank() != 3) throw Unsupported{"its operand is no columns"};
  const std::int64_t batch = x.rank() == 3 ? x.size(0) : 1;
  const std::int64_t channels = x.size(-2) / (how.kernel.first * how.kernel.second);
  const AxisWindows rows = how.rows(height), columns = how.columns(width);
  Value y =
      permute(
          x.reshape({batch, channels, rows.size, columns.size, rows.count, columns.count}, line),
          {0, 1, 4, 2, 5, 3}, line)
          .reshape({batch, channels, rows.count * rows.size, columns.count * columns.size}, line);
  const auto sums = [&](const Value& of, std::int64_t axis, const AxisWindows& windows,
                        std::int64_t size, std::int64_t padding) {
    AxisWeights matrix(size, windows.count * windows.size);
    for (std::int64_t place = 0; place < windows.count * windows.size; ++place) {
      const std::int64_t at = windows.place(place) - padding;
      if (at >= 0 && at < size) matrix.at(at, place) = 1;
    }
    return by_matrix(c, of, axis, matrix);
  };
  y = sums(y, 2, rows, height, how.padding.first);
  y = sums(y, 3, columns, width, how.padding.second);
  return {y.reshape(c.output().shape, line)};
}

}  // namespace

Value counted_from_zero(Value index, std::int64_t places, Line line) {
  return where(index < Operand(0, line), index + Operand(static_cast<double>(places), line), index,
               line);
}

void add_indexing(Table& t) {
  t["aten.index"] = index_of;
  t["aten.index_put"] = index_put;
  t["aten.index_add"] = with_scalars(index_add);
  t["aten.index_copy"] = with_scalars(index_copied);
  t["aten.index_fill"] = with_scalars(index_filled);
  t["aten.index_select"] = with_scalars([](const Call& c) {
    const Value x = c.value("self"), index = c.value("index");
    return Values{index_select(x, c.axis("dim", x), index.reshape({index.type().numel()}, c.line()),
                               c.line())};
  });
  t["aten.gather"] = with_scalars([](const Call& c) {
    const Value x = c.value("self");
    return Values{gather(x, c.axis("dim", x), c.value("index"), c.line())};
  });
  t["aten.take_along_dim"] = [](const Call& c) {
    const Value x = c.value("self"), index = c.value("indices");
    if (c.has("dim") && x.rank() == index.rank()) {
      const std::int64_t axis = c.axis("dim", x);
      Shape of_x = x.shape(), of_index = index.shape();
      for (std::int64_t d = 0; d < x.rank(); ++d) {
        if (d == axis) continue;
        const auto at = static_cast<std::size_t>(d);
        of_x[at] = of_index[at] = std::max(of_x[at], of_index[at]);
      }
      return Values{
          gather(expand(x, of_x, c.line()), axis, expand(index, of_index, c.line()), c.line())};
    }
    const Value flat = x.reshape({x.type().numel()}, c.line());
    const Value all = index.reshape({index.type().numel()}, c.line());
    return Values{gather(flat, 0, all, c.line()).reshape(c.output().shape, c.line())};
  };
  t["aten.repeat_interleave"] = repeat_interleaved;
  t["aten.unfold"] = unfolded;
  t["aten.im2col"] = image_to_columns;
  t["aten.col2im"] = columns_to_image;
}

}  // namespace metronome::pt2
