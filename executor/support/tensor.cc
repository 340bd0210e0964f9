#include "executor/support/tensor.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "graph/ir/error.h"

namespace metronome {
namespace {

struct Dimension {
  std::int64_t size;
  std::int64_t stride;  // bytes
};

/// The dimensions but those of one element, and with those made one that follow each other in
/// memory.
std::vector<Dimension> merge_dimensions(const Tensor& tensor) {
  const auto element = static_cast<std::int64_t>(size_of(tensor.element));
  std::vector<Dimension> dims;
  for (std::size_t d = 0; d < tensor.sizes.size(); ++d) {
    const Dimension dim = {tensor.sizes[d], tensor.strides[d] * element};
    if (dim.size == 1) continue;
    if (!dims.empty() && dims.back().stride == dim.size * dim.stride) {
      dims.back() = {dims.back().size * dim.size, dim.stride};
    } else {
      dims.push_back(dim);
    }
  }
  return dims;
}

template <std::size_t kElement>
std::byte* copy_line(std::byte* to, const std::byte* from, const Dimension& dim) {
  if (dim.stride == kElement) {
    std::memcpy(to, from, static_cast<std::size_t>(dim.size) * kElement);
    return to + static_cast<std::size_t>(dim.size) * kElement;
  }
  for (std::int64_t i = 0; i < dim.size; ++i, to += kElement) {
    std::memcpy(to, from + i * dim.stride, kElement);
  }
  return to;
}

/// Part by part of the lines: what a cache line brings for one line serves the next lines too, as
/// of a transposed matrix.
template <std::size_t kElement>
std::byte* copy_lines(std::byte* to, const std::byte* from, const Dimension& outer,
                      const Dimension& inner) {
  const std::int64_t part = 64 / kElement;
  const std::int64_t line = inner.size * static_cast<std::int64_t>(kElement);
  for (std::int64_t j = 0; j < inner.size; j += part) {
    const Dimension some = {std::min(part, inner.size - j), inner.stride};
    for (std::int64_t i = 0; i < outer.size; ++i) {
      copy_line<kElement>(to + i * line + j * static_cast<std::int64_t>(kElement),
                          from + i * outer.stride + j * inner.stride, some);
    }
  }
  return to + outer.size * line;
}

/// Returns where what it wrote ends.
template <std::size_t kElement>
std::byte* copy(std::byte* to, const std::byte* from, std::span<const Dimension> dims) {
  if (dims.empty()) {
    std::memcpy(to, from, kElement);
    return to + kElement;
  }
  if (dims.size() == 1) return copy_line<kElement>(to, from, dims[0]);
  if (dims.size() == 2 && dims[1].stride != kElement) {
    return copy_lines<kElement>(to, from, dims[0], dims[1]);
  }
  for (std::int64_t i = 0; i < dims[0].size; ++i) {
    to = copy<kElement>(to, from + i * dims[0].stride, dims.subspan(1));
  }
  return to;
}

}  // namespace

bool Tensor::is_contiguous() const {
  std::int64_t expected = 1;
  bool follows = true;
  for (std::size_t d = sizes.size(); d-- > 0;) {
    if (sizes[d] == 0) return true;
    follows = follows && (sizes[d] == 1 || strides[d] == expected);
    expected *= sizes[d];
  }
  return follows;
}

Shape contiguous_strides(const Shape& sizes) {
  Shape strides(sizes.size());
  std::int64_t stride = 1;
  for (std::size_t d = sizes.size(); d-- > 0;) {
    strides[d] = stride;
    stride *= std::max<std::int64_t>(sizes[d], 1);
  }
  return strides;
}

Tensor contiguous_tensor(std::shared_ptr<void> owner, std::byte* data, const Type& type) {
  return {.owner = std::move(owner),
          .data = data,
          .element = type.element,
          .sizes = type.shape,
          .strides = contiguous_strides(type.shape)};
}

void copy_row_major(std::byte* to, const Tensor& from) {
  if (from.numel() == 0) return;
  const std::vector<Dimension> dims = merge_dimensions(from);
  switch (size_of(from.element)) {
    case 1:
      copy<1>(to, from.data, dims);
      return;
    case 2:
      copy<2>(to, from.data, dims);
      return;
    case 4:
      copy<4>(to, from.data, dims);
      return;
    case 8:
      copy<8>(to, from.data, dims);
      return;
  }
  throw InternalError("an element of neither 1, 2, 4 nor 8 bytes");
}

Extent extent_of(const Tensor& tensor) {
  if (tensor.numel() == 0) return {};
  std::int64_t least = 0, most = 0;
  for (std::size_t d = 0; d < tensor.sizes.size(); ++d) {
    const std::int64_t last = (tensor.sizes[d] - 1) * tensor.strides[d];
    (last < 0 ? least : most) += last;
  }
  const auto element = static_cast<std::int64_t>(size_of(tensor.element));
  return {tensor.data + least * element, tensor.data + (most + 1) * element};
}

Tensor tensor_over(const void* numbers, std::size_t count, const Type& type) {
  if (static_cast<std::int64_t>(count) != type.numel()) {
    throw RunError(fmt::format("a tensor {} has {} numbers, but {} are given", to_string(type),
                               type.numel(), count));
  }
  // Feeds are copied, so that nothing is written here.
  auto* const data = static_cast<std::byte*>(const_cast<void*>(numbers));
  return contiguous_tensor(nullptr, data, type);
}

const std::byte* numbers_of(const Tensor& tensor, Element element) {
  const auto refuse = [&](std::string_view what) {
    throw RunError(fmt::format("a span of {} is asked for, but the tensor is {}{}",
                               name_of(element), to_string(tensor.type()), what));
  };
  if (tensor.element != element) refuse("");
  if (tensor.device.kind != Device::Kind::cpu) refuse(" on a device");
  if (!tensor.is_contiguous()) refuse(", not contiguous");
  return tensor.data;
}

}  // namespace metronome
