// Views, copies and products of ATen. A view that only renames places takes its shape from the
// file.
#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "executor/import/aten/call.h"
#include "ops/language/derived.h"
#include "ops/language/indexing.h"

namespace metronome::pt2 {
namespace {

/// The parts of x along an axis, as long as the outputs of the file are; each may lack the axis.
Values parts(const Call& c, const Value& x, std::int64_t axis) {
  Values all;
  std::int64_t begin = 0;
  for (std::size_t i = 0; i < c.node().outputs.size(); ++i) {
    const Type& type = c.output(i);
    const std::int64_t size =
        type.rank() == x.rank() ? type.shape[static_cast<std::size_t>(axis)] : 1;
    const Value part = x.slice(axis, begin, begin + size, c.line());
    all.push_back(part.shape() == type.shape ? part : part.reshape(type.shape, c.line()));
    begin += size;
  }
  return all;
}

Values split_of(const Call& c) {
  const Value x = c.value("self");
  return parts(c, x, c.axis("dim", x, 0));
}

Values select_of(const Call& c) {
  const Value x = c.value("self");
  const std::int64_t axis = c.axis("dim", x), index = c.integer("index");
  const std::int64_t at = index < 0 ? index + x.size(axis) : index;
  return {x.slice(axis, at, at + 1, c.line()).reshape(c.output().shape, c.line())};
}

Values slice_of(const Call& c) {
  const Value x = c.value("self");
  const std::int64_t axis = c.axis("dim", x, 0), size = x.size(axis);
  const auto place = [&](std::int64_t at) {
    return std::clamp<std::int64_t>(at < 0 ? at + size : at, 0, size);
  };
  const std::int64_t begin = place(c.integer("start", 0)), step = c.integer("step", 1);
  require_positive({step}, "step");
  const std::int64_t end = std::max(begin, place(c.integer("end", size)));
  if (step == 1) return {begin == 0 && end == size ? x : x.slice(axis, begin, end, c.line())};
  return {at_places(c, x, axis, places_of_view(c, x))};
}

Values permuted(const Call& c, const Value& x, std::vector<std::int64_t> axes) {
  for (std::int64_t& axis : axes) axis = counted_axis(axis, x.rank());
  return {permute(x, std::move(axes), c.line())};
}

Values move_axes(const Call& c) {
  const Value x = c.value("self");
  std::vector<std::int64_t> from = c.integers("source"), to = c.integers("destination");
  if (from.size() != to.size()) throw Unsupported{"it moves axes to another number of them"};
  std::vector<std::int64_t> order(static_cast<std::size_t>(x.rank()), -1);
  for (std::size_t i = 0; i < from.size(); ++i) {
    from[i] = counted_axis(from[i], x.rank());
    order[static_cast<std::size_t>(counted_axis(to.at(i), x.rank()))] = from[i];
  }
  std::int64_t next = 0;
  for (std::int64_t& axis : order) {
    while (std::ranges::find(from, next) != from.end()) ++next;
    if (axis < 0) axis = next++;
  }
  return permuted(c, x, order);
}

Values roll_of(const Call& c) {
  Value x = c.value("self");
  const std::vector<std::int64_t> shifts = c.integers("shifts"), axes = c.integers("dims", {{}});
  if (shifts.empty() || (!axes.empty() && axes.size() != shifts.size())) {
    throw Unsupported{"its shifts are not as many as its axes"};
  }
  if (axes.empty()) {
    const Value flat = x.reshape({x.type().numel()}, c.line());
    return {roll(flat, shifts[0], 0, c.line()).reshape(x.shape(), c.line())};
  }
  for (std::size_t i = 0; i < axes.size(); ++i) x = roll(x, shifts[i], axes[i], c.line());
  return {x};
}

}  // namespace

Value with_part(const Call& c, const Value& x, std::int64_t axis,
                const std::vector<std::int64_t>& places, const Value& part) {
  const Line line = c.line();
  counted_axis(axis, x.rank());
  Shape shape = x.shape();
  shape[static_cast<std::size_t>(axis)] = static_cast<std::int64_t>(places.size());
  const Value laid = part.shape() == shape ? part : part.reshape(shape, line);
  const auto count = static_cast<std::int64_t>(places.size());
  const std::int64_t size = x.size(axis);
  if (count == 0) return x;
  if (places.back() - places.front() != count - 1) {
    const std::vector<double> numbers(places.begin(), places.end());
    return index_copy(x, axis, make_constant(c.emitter(), numbers, {i64, {count}}, line), laid,
                      line);
  }
  Values parts;
  if (places.front() > 0) parts.push_back(x.slice(axis, 0, places.front(), line));
  parts.push_back(laid);
  if (places.back() + 1 < size) parts.push_back(x.slice(axis, places.back() + 1, size, line));
  return parts.size() == 1 ? parts[0] : concat(parts, axis, line);
}

std::vector<std::int64_t> places_of_view(const Call& c, const Value& x, std::size_t output) {
  const std::int64_t axis = c.axis("dim", x, 0);
  const std::int64_t size = x.size(axis);
  const auto counted = [&](std::int64_t at) {
    return std::clamp<std::int64_t>(at < 0 ? at + size : at, 0, size);
  };
  const std::string_view name = computed(c.node().target);
  std::int64_t begin = 0, end = size, step = 1;
  if (name == "aten.select" || name == "aten.select_scatter") {
    begin = counted(c.integer("index"));
    end = begin + 1;
  } else if (name == "aten.slice" || name == "aten.slice_scatter") {
    begin = counted(c.integer("start", 0));
    end = counted(c.integer("end", size));
    step = c.integer("step", 1);
    require_positive({step}, "step");
  } else if (name == "aten.narrow") {
    begin = counted(c.integer("start"));
    end = begin + c.integer("length");
  } else {  // one part of several, each as long as the file says
    const auto length = [&](std::size_t k) {
      const Type& type = c.output(k);
      return type.rank() == x.rank() ? type.shape[static_cast<std::size_t>(axis)] : 1;
    };
    for (std::size_t k = 0; k < output; ++k) begin += length(k);
    end = begin + length(output);
  }
  std::vector<std::int64_t> places;
  for (std::int64_t at = begin; at < end; at += step) places.push_back(at);
  return places;
}

void add_shapes(Table& t) {
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
    const std::int64_t axis = c.axis("dim", x), start = c.integer("start");
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
    return Values{concat(all, c.axis("dim", all.at(0), 0), c.line())};
  };
  t["aten.stack"] = [](const Call& c) {
    const std::int64_t axis = counted_axis(c.integer("dim", 0), c.output().rank());
    return Values{stack(c.values("tensors"), axis, c.line())};
  };
  t["aten.flip"] = [](const Call& c) {
    return Values{flip(c.value("self"), c.integers("dims"), c.line())};
  };
  t["aten.roll"] = roll_of;
  t["aten.tril"] = [](const Call& c) {
    return Values{tril(c.value("self"), c.integer("diagonal", 0), c.line())};
  };
  t["aten.triu"] = [](const Call& c) {
    return Values{triu(c.value("self"), c.integer("diagonal", 0), c.line())};
  };
}

}  // namespace metronome::pt2
