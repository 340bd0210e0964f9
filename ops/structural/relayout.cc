#include "ops/structural/relayout.h"

#include "ops/rules/by_element.h"

namespace metronome {
namespace {

/// Elements from one index of a dimension of the storing tensor to the next, dense and row-major.
std::vector<std::int64_t> strides_of(const Shape& shape) {
  std::vector<std::int64_t> strides(shape.size(), 1);
  for (std::size_t d = shape.size(); d-- > 1;) strides[d - 1] = strides[d] * shape[d];
  return strides;
}

template <class T>
void gather(const RelayoutTable& table, const T* from, T* to, std::int64_t begin,
            std::int64_t end) {
  std::vector<std::int64_t> at(table.places.size());
  for (std::int64_t row = begin; row < end; ++row) {
    std::fill(at.begin(), at.end(), 0);
    std::int64_t rest = row;
    for (std::size_t k = table.loops.size() - (table.loops.empty() ? 0 : 1); k-- > 0;) {
      const auto& [size, dimension, step] = table.loops[k];
      at[dimension] += rest % size * step;
      rest /= size;
    }
    T* const out = to + row * table.row();
    const std::int32_t inner = table.loops.empty() ? -1 : table.loops.back().dimension;
    std::int64_t base = 0;
    bool inside = true;
    for (std::size_t d = 0; d < at.size(); ++d) {
      if (static_cast<std::int32_t>(d) == inner) continue;
      inside = inside && at[d] < static_cast<std::int64_t>(table.places[d].size());
      if (inside) base += table.places[d][at[d]];
    }
    if (inner < 0) {
      out[0] = from[0];
      continue;
    }
    const std::vector<std::int64_t>& places = table.places[inner];
    const std::int64_t step = table.loops.back().step;
    for (std::int64_t i = 0; i < table.row(); ++i) {
      const std::int64_t index = at[inner] + i * step;
      const bool there = inside && index < static_cast<std::int64_t>(places.size());
      out[i] = there ? from[base + places[index]] : T{};
    }
  }
}

}  // namespace

std::int64_t RelayoutTable::rows() const {
  std::int64_t rows = 1;
  for (std::size_t k = 0; k + 1 < loops.size(); ++k) rows *= loops[k].size;
  return rows;
}

RelayoutTable relayout_table(const Layout& from, const Layout& to, const Shape& shape) {
  RelayoutTable table;
  const Shape result = apply_layout(to, shape);
  table.loops.resize(result.size());
  for (std::int32_t d = 0; d < static_cast<std::int32_t>(shape.size()); ++d) {
    const std::int32_t place = to.place_of(d);
    table.loops[place] = {result[place], d, d == to.blocked ? to.block : 1};
  }
  if (to.blocked >= 0) table.loops.back() = {to.block, to.blocked, 1};

  const std::vector<std::int64_t> strides = strides_of(apply_layout(from, shape));
  for (std::int32_t d = 0; d < static_cast<std::int32_t>(shape.size()); ++d) {
    std::vector<std::int64_t> places;
    const std::int64_t stride = strides[from.place_of(d)];
    for (std::int64_t i = 0; i < shape[d]; ++i) {
      places.push_back(d == from.blocked ? i / from.block * stride + i % from.block : i * stride);
    }
    table.places.push_back(std::move(places));
  }
  return table;
}

void relayout(const RelayoutTable& table, std::size_t element_bytes, const void* from, void* to,
              std::int64_t begin, std::int64_t end) {
  with_size(element_bytes, [&](auto element) {
    using T = decltype(element);
    gather(table, static_cast<const T*>(from), static_cast<T*>(to), begin, end);
  });
}

}  // namespace metronome
