// Tensors of engines: which elements they show, in which bytes, and how they are copied.
#include "executor/support/tensor.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <numeric>
#include <vector>

#include "executor/engine/block.h"
#include "executor/engine/engine.h"
#include "executor/engine/tensor_copy.h"
#include "graph/ir/error.h"

namespace metronome::tensor_test {
namespace {

/// The numbers 0, 1, 2, ... in memory.
template <class T>
std::vector<T> counted(std::size_t count) {
  std::vector<T> numbers(count);
  std::iota(numbers.begin(), numbers.end(), T{0});
  return numbers;
}

/// A tensor that borrows them, from element `first` on.
template <class T>
Tensor over(std::vector<T>& numbers, Element element, Shape sizes, Shape strides,
            std::int64_t first = 0) {
  return {.owner = {},
          .data = reinterpret_cast<std::byte*>(numbers.data() + first),
          .element = element,
          .sizes = std::move(sizes),
          .strides = std::move(strides)};
}

template <class T>
std::vector<T> copied(const Tensor& tensor) {
  std::vector<T> out(static_cast<std::size_t>(tensor.numel()));
  copy_row_major(reinterpret_cast<std::byte*>(out.data()), tensor);
  return out;
}

TEST_CASE("sizes, bytes and what lies one after the other") {
  auto numbers = counted<double>(24);
  const Tensor whole = over(numbers, f64, {2, 3, 4}, {12, 4, 1});
  CHECK(whole.numel() == 24);
  CHECK(whole.bytes() == 24 * 8);
  CHECK(whole.type() == Type{f64, {2, 3, 4}});
  CHECK(whole.is_contiguous());
  CHECK(contiguous_strides({2, 3, 4}) == Shape{12, 4, 1});
  CHECK(contiguous_strides({}).empty());
  CHECK(contiguous_strides({2, 0, 4}) == Shape{4, 4, 1});
  const auto contiguous = [&](Shape sizes, Shape strides) {
    return over(numbers, f64, std::move(sizes), std::move(strides)).is_contiguous();
  };
  CHECK(contiguous({}, {}));                  // a scalar
  CHECK(contiguous({1, 3, 1}, {77, 1, -5}));  // a stride of one element says nothing
  CHECK(contiguous({0, 3}, {5, 9}));          // nothing lies anywhere
  CHECK_FALSE(contiguous({3, 2}, {1, 3}));
  CHECK_FALSE(contiguous({3}, {2}));
  CHECK_FALSE(contiguous({3}, {0}));
  CHECK_FALSE(contiguous({3}, {-1}));
}

TEST_CASE("elements are copied row-major, whatever their strides") {
  auto numbers = counted<std::int32_t>(24);
  const auto copy = [&](Shape sizes, Shape strides, std::int64_t first = 0) {
    return copied<std::int32_t>(over(numbers, i32, std::move(sizes), std::move(strides), first));
  };
  using Numbers = std::vector<std::int32_t>;
  CHECK(copy({}, {}, 7) == Numbers{7});
  CHECK(copy({0, 3}, {3, 1}).empty());
  CHECK(copy({2, 3}, {3, 1}) == Numbers{0, 1, 2, 3, 4, 5});
  CHECK(copy({3, 2}, {1, 3}) == Numbers{0, 3, 1, 4, 2, 5});  // transposed
  CHECK(copy({2, 3}, {0, 1}) == Numbers{0, 1, 2, 0, 1, 2});  // expanded
  CHECK(copy({3}, {-2}, 6) == Numbers{6, 4, 2});             // backwards
  CHECK(copy({2, 1, 2}, {4, 9, 2}) == Numbers{0, 2, 4, 6});  // every second one
  CHECK(copy({2, 2, 3}, {12, 4, 1}, 1) == Numbers{1, 2, 3, 5, 6, 7, 13, 14, 15, 17, 18, 19});
  CHECK(copy({2, 3, 4}, {1, 8, 2}) == Numbers{0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22,
                                              1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23});
}

TEST_CASE("elements of each size, in matrices wider than a cache line") {
  const auto transposed = [](auto number, Element element) {
    using T = decltype(number);
    constexpr std::int64_t kRows = 19, kColumns = 150;
    std::vector<T> numbers(kRows * kColumns), expected;
    for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<T>(i % 101);
    for (std::int64_t j = 0; j < kColumns; ++j) {
      for (std::int64_t i = 0; i < kRows; ++i) expected.push_back(numbers[i * kColumns + j]);
    }
    CHECK(copied<T>(over(numbers, element, {kColumns, kRows}, {1, kColumns})) == expected);
  };
  transposed(std::uint8_t{}, bool_);
  transposed(std::int32_t{}, i32);
  transposed(float{}, f32);
  transposed(std::int64_t{}, i64);
  transposed(double{}, f64);
}

TEST_CASE("the bytes that a tensor reaches") {
  auto numbers = counted<float>(24);
  const auto reaches = [&](const Tensor& tensor, std::int64_t first, std::int64_t end) {
    const auto* begin = reinterpret_cast<const std::byte*>(numbers.data());
    const Extent extent = extent_of(tensor);
    return extent.begin == begin + 4 * first && extent.end == begin + 4 * end;
  };
  CHECK(reaches(over(numbers, f32, {2, 3}, {3, 1}, 1), 1, 7));
  CHECK(reaches(over(numbers, f32, {3, 2}, {1, 8}), 0, 11));
  CHECK(reaches(over(numbers, f32, {3}, {-2}, 6), 2, 7));
  CHECK(reaches(over(numbers, f32, {5}, {0}, 4), 4, 5));
  CHECK(reaches(over(numbers, f32, {}, {}, 4), 4, 5));
  const Extent none = extent_of(over(numbers, f32, {0, 3}, {3, 1}));
  CHECK_FALSE(none.overlaps(extent_of(over(numbers, f32, {24}, {1}))));
  CHECK_FALSE(
      extent_of(over(numbers, f32, {2}, {1})).overlaps(extent_of(over(numbers, f32, {2}, {1}, 2))));
  CHECK(
      extent_of(over(numbers, f32, {2}, {2})).overlaps(extent_of(over(numbers, f32, {2}, {1}, 2))));
}

TEST_CASE("a tensor is copied over its own bytes") {
  auto numbers = counted<float>(9);
  const Tensor turned = over(numbers, f32, {3, 3}, {1, 3});
  executor::copy_into(turned.data, turned);
  CHECK(numbers == std::vector<float>{0, 3, 6, 1, 4, 7, 2, 5, 8});
  executor::copy_into(turned.data, over(numbers, f32, {8}, {1}, 1));
  CHECK(numbers == std::vector<float>{3, 6, 1, 4, 7, 2, 5, 8, 8});
}

TEST_CASE("the last of all tensors over some bytes frees them, once") {
  int freed = 0;
  auto numbers = counted<float>(6);
  Tensor view;
  {
    const std::shared_ptr<std::byte> bytes(reinterpret_cast<std::byte*>(numbers.data()),
                                           [&](std::byte*) { ++freed; });
    const executor::Block block(bytes, 6 * sizeof(float));
    const Tensor whole = executor::tensor_in({&block, 2 * sizeof(float)}, {f32, {2, 2}});
    CHECK(copied<float>(whole) == std::vector<float>{2, 3, 4, 5});
    view = whole;
  }
  CHECK(freed == 0);
  view.sizes = {2};
  view.strides = {1};
  CHECK(copied<float>(view) == std::vector<float>{2, 3});
  view = executor::clone(view);
  CHECK(freed == 1);
  CHECK(copied<float>(view) == std::vector<float>{2, 3});
}

TEST_CASE("what does not fit is refused, in words") {
  auto numbers = counted<float>(6);
  const Type required = {f32, {3, 2}};
  const auto refused = [&](const CallerTensor& offered, const char* message) {
    CHECK_FALSE(executor::fits(offered, required));
    CHECK_THROWS_WITH_AS(
        executor::refuse(offered, to_string(required), "feed of \"x\"", "; pad it"), message,
        RunError);
  };
  CallerTensor offered = {over(numbers, f32, {3, 2}, {2, 1})};
  CHECK(executor::fits(offered, required));
  offered.tensor.device = cuda_device(1);
  refused(offered,
          "feed of \"x\": requires f32[3, 2], but the tensor is on cuda:1; move it to the host");
  refused({over(numbers, f32, {2, 3}, {3, 1})},
          "feed of \"x\": requires f32[3, 2], but the tensor is f32[2, 3]; pad it");
  refused({over(numbers, i32, {3, 2}, {2, 1})},
          "feed of \"x\": requires f32[3, 2], but the tensor is i32[3, 2]; pad it");
  refused({.instead = "Byte[3, 2]"},
          "feed of \"x\": requires f32[3, 2], but the tensor is Byte[3, 2]");
}

}  // namespace
}  // namespace metronome::tensor_test
