// A tensor as engines know it, whichever library it came from or goes to.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <ranges>
#include <span>
#include <string>
#include <utility>

#include "executor/support/device.h"
#include "graph/ir/type.h"

namespace metronome {

/// Strided elements in memory, and what keeps them: what DLPack's tensor says. A copy of it shows
/// the same bytes.
struct Tensor {
  /// Keeps the bytes; null where they are lent and outlive the tensor.
  std::shared_ptr<void> owner = {};
  std::byte* data = nullptr;  ///< the first element; may be null where there are none
  Device device = {};
  Element element = f32;
  Shape sizes = {};    ///< outermost first; none for a scalar
  Shape strides = {};  ///< in elements, one for each size; 0 and less are allowed
  /// On a CUDA device: the stream (a `cudaStream_t`) whose work the bytes come after, and which is
  /// made to wait for whoever uses them; null: the default stream.
  void* stream = nullptr;

  std::int64_t numel() const { return metronome::numel(sizes); }
  /// Returns the bytes of all elements, each counted even if several share one place.
  std::size_t bytes() const { return static_cast<std::size_t>(numel()) * size_of(element); }
  Type type() const { return {element, sizes}; }
  /// True where the elements lie row-major, one after the other.
  bool is_contiguous() const;
};

/// The element type of numbers in C++; there is none for others.
template <class T>
struct ElementOf;
template <>
struct ElementOf<float> {
  static constexpr Element value = f32;
};
template <>
struct ElementOf<double> {
  static constexpr Element value = f64;
};
template <>
struct ElementOf<std::int32_t> {
  static constexpr Element value = i32;
};
template <>
struct ElementOf<std::int64_t> {
  static constexpr Element value = i64;
};
template <>
struct ElementOf<bool> {
  static constexpr Element value = bool_;
};

/// Row-major numbers that the caller keeps (a span, a vector, an array), as a tensor of that shape,
/// to be fed or set: when the call has returned, the caller may change them or let them go. Throws
/// RunError if there are more or fewer than the sizes say.
Tensor tensor_over(const void* numbers, std::size_t count, const Type& type);
template <std::ranges::contiguous_range Numbers>
Tensor from_span(const Numbers& numbers, Shape sizes) {
  constexpr Element kElement = ElementOf<std::ranges::range_value_t<Numbers>>::value;
  return tensor_over(std::ranges::data(numbers), std::ranges::size(numbers),
                     {kElement, std::move(sizes)});
}
/// The numbers of a contiguous tensor on the host, as long as it is kept. Throws RunError for one
/// of another element type, on a device, or with strides.
const std::byte* numbers_of(const Tensor& tensor, Element element);
template <class T>
std::span<const T> to_span(const Tensor& tensor) {
  return {reinterpret_cast<const T*>(numbers_of(tensor, ElementOf<T>::value)),
          static_cast<std::size_t>(tensor.numel())};
}

/// Those of elements that lie row-major, one after the other: {12, 4, 1} for [2, 3, 4].
Shape contiguous_strides(const Shape& sizes);
/// A tensor of contiguous elements at `data`.
Tensor contiguous_tensor(std::shared_ptr<void> owner, std::byte* data, const Type& type);

/// Writes the elements row-major to `to`, host memory of `from.bytes()` that shares no byte with
/// them. They lie on the host too.
void copy_row_major(std::byte* to, const Tensor& from);

/// The bytes from a tensor's first element in memory to its last one; empty where it has none.
struct Extent {
  const std::byte* begin = nullptr;
  const std::byte* end = nullptr;

  bool overlaps(const Extent& other) const { return begin < other.end && other.begin < end; }
};
Extent extent_of(const Tensor& tensor);

/// Another library's tensor, as Metronome sees it.
struct CallerTensor {
  Tensor tensor = {};
  /// A description of it if it is no `Tensor`: "undefined", "Byte[2]", "Sparse; give
  /// tensor.to_dense()". Empty if it is one.
  std::string instead = {};
  /// `instead` says an element type alone ("Byte[2]"): the tensor's sizes are set.
  bool of_other_element = false;
};

}  // namespace metronome
