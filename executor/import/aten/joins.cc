// Tensors side by side, apart, and their diagonals, in ATen's words.
#include <algorithm>
#include <string>
#include <utility>

#include "executor/import/aten/call.h"
#include "executor/import/aten/places.h"
#include "ops/language/derived.h"
#include "ops/language/indexing.h"
#include "ops/layers/resize.h"

namespace metronome::pt2 {
namespace {

/// The value with `rank` axes at least: new ones as NumPy's atleast_2d and atleast_3d add them.
Value at_least(const Value& x, std::int64_t rank, Line line) {
  Shape shape = x.shape();
  if (shape.empty()) shape = {1};
  if (rank >= 2 && shape.size() == 1) shape.insert(shape.begin(), 1);
  if (rank >= 3 && shape.size() == 2) shape.push_back(1);
  return shape == x.shape() ? x : x.reshape(shape, line);
}

Translation at_least_of(std::int64_t rank) {
  return [rank](const Call& c) {
    Values all = c.has("self") ? Values{c.value("self")} : c.values("tensors");
    for (Value& x : all) x = at_least(x, rank, c.line());
    return all;
  };
}

/// x with a source in place of what a slice, or one place, of it shows.
Values scattered(const Call& c) {
  const Value x = c.value("self");
  return {with_part(c, x, c.axis("dim", x, 0), places_of_view(c, x), c.value("src"))};
}

/// Values along an axis, each of so many axes at least.
Translation joined(std::int64_t rank, std::int64_t axis) {
  return [=](const Call& c) {
    Values all = c.values("tensors");
    for (Value& x : all) x = at_least(x, rank, c.line());
    const bool lines = rank == 1 && axis == 1 && all[0].rank() == 1;
    return Values{concat(all, lines ? 0 : axis, c.line())};
  };
}

Values column_stacked(const Call& c) {
  Values all = c.values("tensors");
  for (Value& x : all) {
    if (x.rank() < 2) x = x.reshape({x.type().numel(), 1}, c.line());
  }
  return {concat(all, 1, c.line())};
}

/// One after the other down a diagonal, zeros beside them.
Values block_diagonal(const Call& c) {
  Values rows;
  const std::int64_t width = c.sizes(2)[1];
  std::int64_t left = 0;
  for (const Value& x : c.values("tensors")) {
    const Value block = at_least(x, 2, c.line());
    rows.push_back(pad(block, {left, width - left - block.size(1)}, 0, c.line()));
    left += block.size(1);
  }
  return {concat(rows, 0, c.line())};
}

/// Every value along an axis of its own.
Values grid_of(const Call& c, Values all, bool columns_first) {
  const auto rank = static_cast<std::int64_t>(all.size());
  Shape sizes;
  for (const Value& x : all) sizes.push_back(x.type().numel());
  if (columns_first && rank > 1) std::swap(sizes[0], sizes[1]);
  for (std::size_t i = 0; i < all.size(); ++i) {
    std::size_t axis = i;
    if (columns_first && rank > 1 && i < 2) axis = 1 - i;
    Shape shape(all.size(), 1);
    shape[axis] = all[i].type().numel();
    all[i] = expand(all[i].reshape(shape, c.line()), sizes, c.line());
  }
  return all;
}

Values cartesian(const Call& c) {
  Values all = c.values("tensors");
  if (all.size() == 1) return all;
  all = grid_of(c, all, false);
  for (Value& x : all) x = x.reshape({x.type().numel()}, c.line());
  return {stack(all, 1, c.line())};
}

Values tiled(const Call& c) {
  const Value x = c.value("self");
  std::vector<std::int64_t> times = c.integers(c.has("repeats") ? "repeats" : "dims");
  Shape shape = x.shape();
  const std::size_t rank = std::max(times.size(), shape.size());
  times.insert(times.begin(), rank - times.size(), 1);
  shape.insert(shape.begin(), rank - shape.size(), 1);
  Shape apart, wide;
  for (std::size_t d = 0; d < rank; ++d) {
    apart.insert(apart.end(), {1, shape[d]});
    wide.insert(wide.end(), {times[d], shape[d]});
  }
  return {expand(x.reshape(apart, c.line()), wide, c.line()).reshape(c.output().shape, c.line())};
}

Values turned(const Call& c) {
  Value x = c.value("self");
  const std::vector<std::int64_t> axes = c.integers("dims", {{0, 1}});
  if (axes.size() != 2) throw Unsupported{"it turns other than two axes"};
  const std::int64_t a = counted_axis(axes[0], x.rank()), b = counted_axis(axes[1], x.rank());
  const std::int64_t quarters = ((c.integer("k", 1) % 4) + 4) % 4;
  if (quarters == 2) return {flip(x, {a, b}, c.line())};
  if (quarters % 2 == 0) return {x};
  if (quarters == 1) return {flip(x, {b}, c.line()).transpose(a, b, c.line())};
  return {flip(x, {a}, c.line()).transpose(a, b, c.line())};
}

// ---- parts -------------------------------------------------------------------------------------

/// The parts of x along an axis, as long as the file's outputs are.
Translation split_along(std::int64_t axis) {
  return [axis](const Call& c) {
    const Value x = c.value("self");
    if (x.rank() == 0) throw Unsupported{"it splits a scalar"};
    const std::int64_t at = axis < 0                     ? c.axis("dim", x, 0)
                            : axis == 1 && x.rank() == 1 ? 0
                                                         : counted_axis(axis, x.rank());
    Values all;
    std::int64_t begin = 0;
    for (std::size_t k = 0; k < c.node().outputs.size(); ++k) {
      const std::int64_t size = c.sizes(x.rank(), k)[static_cast<std::size_t>(at)];
      if (size == 0) throw Unsupported{"it has a part without elements"};
      all.push_back(x.slice(at, begin, begin + size, c.line()));
      begin += size;
    }
    return all;
  };
}

// ---- diagonals ---------------------------------------------------------------------------------

/// The elements of two axes whose column is `offset` beyond their row, as a last axis.
Value diagonal_of(const Call& c, const Value& x, std::int64_t offset, std::int64_t a,
                  std::int64_t b) {
  counted_axis(std::max(a, b), x.rank());
  if (a == b) throw Unsupported{"it has a diagonal of one axis"};
  std::vector<std::int64_t> order;
  for (std::int64_t axis = 0; axis < x.rank(); ++axis) {
    if (axis != a && axis != b) order.push_back(axis);
  }
  order.insert(order.end(), {a, b});
  const Value last = permute(x, order, c.line());
  const std::int64_t rows = x.size(a), columns = x.size(b);
  std::vector<std::int64_t> places;
  for (std::int64_t row = std::max<std::int64_t>(0, -offset); row < rows && row + offset < columns;
       ++row) {
    places.push_back(row * columns + row + offset);
  }
  Shape flat = last.shape();
  flat.pop_back();
  flat.back() = rows * columns;
  return at_places(c, last.reshape(flat, c.line()), x.rank() - 2, places);
}

Values diagonal(const Call& c) {
  const Value x = c.value("self");
  return {diagonal_of(c, x, c.integer("offset", 0), c.axis("dim1", x, 0), c.axis("dim2", x, 1))};
}

/// x as the diagonal of two new axes, zeros beside it.
Values diagonal_embedded(const Call& c, const Value& x, std::int64_t offset) {
  const Line line = c.line();
  if (x.rank() < 1) throw Unsupported{"it makes a diagonal of a scalar"};
  require_few(offset < 0 ? -(offset + 1) : offset);
  const std::int64_t length = x.size(-1), size = length + std::abs(offset);
  const std::int64_t rank = x.rank() + 1;
  const auto axis = [&](const char* name, std::int64_t otherwise) {
    return counted_axis(c.integer(name, otherwise), rank);
  };
  Shape wide = x.shape();
  wide.push_back(1);
  // Each element in a row of its own, at the column that the mask leaves.
  Value rows = x.reshape(wide, line);
  wide.back() = size;
  wide[wide.size() - 2] = length;
  require_few(length * size);
  std::vector<double> numbers(static_cast<std::size_t>(length * size), 0);
  for (std::int64_t i = 0; i < length; ++i) {
    numbers[static_cast<std::size_t>(i * size + i + std::max<std::int64_t>(offset, 0))] = 1;
  }
  const Value mask = make_constant(c.emitter(), numbers, {bool_, {length, size}}, line);
  rows = where(expand(mask, wide, line), expand(rows, wide, line), Operand(0, line), line);
  const std::int64_t above = std::max<std::int64_t>(-offset, 0);
  rows = pad(rows, {0, 0, above, size - length - above}, 0, line);
  const std::int64_t a = axis("dim1", -2), b = axis("dim2", -1);
  std::vector<std::int64_t> order;
  std::int64_t next = 0;
  for (std::int64_t d = 0; d < rank; ++d) {
    order.push_back(d == a ? rank - 2 : d == b ? rank - 1 : next++);
  }
  return {permute(rows, order, line)};
}

/// A diagonal of a matrix, or a matrix of a diagonal.
Values diag(const Call& c) {
  const Value x = c.value("self");
  const std::int64_t offset = c.integer("diagonal", 0);
  if (x.rank() == 1) return diagonal_embedded(c, x, offset);
  return {diagonal_of(c, x, offset, 0, 1)};
}

}  // namespace

void add_joins(Table& t) {
  t["aten.atleast_1d"] = at_least_of(1);
  t["aten.atleast_2d"] = at_least_of(2);
  t["aten.atleast_3d"] = at_least_of(3);
  t["aten.hstack"] = joined(1, 1);
  t["aten.vstack"] = joined(2, 0);
  t["aten.dstack"] = joined(3, 2);
  t["aten.column_stack"] = column_stacked;
  t["aten.block_diag"] = block_diagonal;
  t["aten.meshgrid"] = [](const Call& c) {
    return grid_of(c, c.values("tensors"), c.text("indexing", "ij") == "xy");
  };
  t["aten.cartesian_prod"] = cartesian;
  t["aten.tile"] = tiled;
  t["aten.repeat"] = tiled;
  t["aten.rot90"] = turned;
  t["aten.flipud"] = [](const Call& c) { return Values{flip(c.value("self"), {0}, c.line())}; };
  t["aten.fliplr"] = [](const Call& c) { return Values{flip(c.value("self"), {1}, c.line())}; };
  t["aten.slice_scatter"] = scattered;
  t["aten.select_scatter"] = scattered;
  t["aten.tensor_split"] = split_along(-1);
  t["aten.hsplit"] = split_along(1);
  t["aten.vsplit"] = split_along(0);
  t["aten.dsplit"] = split_along(2);
  t["aten.diagonal"] = diagonal;
  t["aten.linalg_diagonal"] = diagonal;
  t["aten.diag"] = diag;
  t["aten.diag_embed"] = [](const Call& c) {
    return diagonal_embedded(c, c.value("self"), c.integer("offset", 0));
  };
  t["aten.diagflat"] = [](const Call& c) {
    const Value x = c.value("self");
    return diagonal_embedded(c, x.reshape({x.type().numel()}, c.line()), c.integer("offset", 0));
  };
  t["aten.trace"] = [](const Call& c) {
    return Values{sum(diagonal_of(c, c.value("self"), 0, 0, 1), 0, false, c.line())};
  };
  t["aten.channel_shuffle"] = [](const Call& c) {
    const Value x = c.value("self");
    const std::int64_t groups = c.integer("groups");
    if (x.rank() < 2 || groups < 1 || x.size(1) % groups != 0) {
      throw Unsupported{"its groups do not divide its channels"};
    }
    Shape apart = x.shape();
    apart[1] = groups;
    apart.insert(apart.begin() + 2, x.size(1) / groups);
    return Values{
        x.reshape(apart, c.line()).transpose(1, 2, c.line()).reshape(x.shape(), c.line())};
  };
  t["aten.sum_to_size"] = [](const Call& c) {
    const Value x = c.value("self");
    const Shape& shape = c.output().shape;
    if (shape.size() > x.shape().size()) throw Unsupported{"it sums to more axes"};
    const auto more = static_cast<std::int64_t>(x.shape().size() - shape.size());
    std::vector<std::int64_t> axes;
    for (std::int64_t d = 0; d < x.rank(); ++d) {
      if (d < more || (shape[static_cast<std::size_t>(d - more)] == 1 && x.size(d) != 1)) {
        axes.push_back(d);
      }
    }
    if (axes.empty()) return Values{x};
    return Values{sum(x, Axes(axes), true, c.line()).reshape(shape, c.line())};
  };
}

}  // namespace metronome::pt2
