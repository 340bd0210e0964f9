#include "ops/pool/max_pool.h"

#include <fmt/format.h>

#include <limits>

#include "graph/emit/scope.h"
#include "graph/ir/error.h"
#include "ops/rules/require.h"

namespace metronome {
namespace {

/// Winners are counted in i32.
constexpr std::int64_t kMostTaps = std::numeric_limits<std::int32_t>::max();

void require_taps(const Spatial& kernel) {
  std::int64_t taps = 1;
  for (const std::int64_t size : kernel) {
    if (size > kMostTaps / taps) {
      throw Requirement{
          fmt::format("a kernel of at most {} elements, but {}", kMostTaps, to_string(kernel))};
    }
    taps *= size;
  }
}

struct MaxPoolForm {
  std::string name;
  Shape x;
  Windows windows;
};

Windows plain(Spatial kernel, Spatial stride) {
  const Spatial none(kernel.size(), 0), near(kernel.size(), 1);
  return {std::move(kernel), std::move(stride), none, near};
}

std::vector<MaxPoolForm> max_pool_forms() {
  return {
      {"halves", {2, 3, 6, 8}, plain({2, 2}, {2, 2})},
      {"halves of short odd rows", {2, 3, 7, 11}, plain({2, 2}, {2, 2})},
      {"halves, two of a row", {2, 3, 4, 4}, plain({2, 2}, {2, 2})},
      {"halves of eight channels", {3, 8, 6, 10}, plain({2, 2}, {2, 2})},
      {"halves of slabs of four channels", {2, 4, 3, 4, 6}, plain({1, 2, 2}, {1, 2, 2})},
      {"odd sizes", {2, 2, 7, 9}, plain({2, 3}, {2, 2})},
      {"halves of long odd rows", {2, 3, 7, 43}, plain({2, 2}, {2, 2})},
      {"halves of slabs", {2, 2, 3, 4, 16}, plain({1, 2, 2}, {1, 2, 2})},
      {"overlapping", {1, 2, 8, 7}, plain({3, 3}, {1, 1})},
      {"padded", {2, 2, 5, 7}, {{3, 3}, {2, 2}, {1, 1}, {1, 1}}},
      {"stride beyond the kernel", {2, 2, 9, 10}, plain({2, 2}, {3, 4})},
      {"ceil_mode, a part of a window", {1, 2, 5, 6}, {{2, 3}, {2, 2}, {0, 0}, {1, 1}, true}},
      {"ceil_mode, the last window dropped", {1, 2, 4, 3}, {{2, 2}, {3, 2}, {1, 1}, {1, 1}, true}},
      {"dilated", {1, 2, 9, 11}, {{3, 2}, {1, 2}, {1, 1}, {2, 3}}},
      {"one window", {3, 2, 4, 5}, plain({4, 5}, {1, 1})},
      {"one element", {4, 3, 1, 1}, plain({1, 1}, {1, 1})},
      {"one dimension", {2, 3, 17}, {{4}, {3}, {2}, {1}, true}},
      {"three dimensions", {1, 2, 5, 4, 6}, {{2, 3, 2}, {2, 1, 2}, {1, 1, 0}, {1, 1, 1}}},
      {"three dimensions, ceil_mode",
       {1, 1, 5, 5, 5},
       {{2, 2, 2}, {2, 2, 2}, {0, 0, 0}, {1, 2, 1}, true}},
      {"no image", {0, 3, 6, 6}, plain({2, 2}, {2, 2})},
      {"threads", {4, 8, 33, 35}, {{3, 3}, {2, 2}, {1, 1}, {1, 1}}},
  };
}

}  // namespace

Types MaxPool::infer(std::span<const Type> in) const {
  require_images(in[0], windows.kernel.size());
  const Spatial sizes = spatial_of(in[0], windows.kernel.size());
  const Type result = with_spatial(in[0], count_of(windows, sizes));
  require_taps(windows.kernel);
  return {result, {i32, result.shape}};
}

Values MaxPool::vjp(const Vjp& v) const {
  if (!v.grad().present()) return Values(1);
  return {apply(MaxPoolGrad{windows, spatial_of(v.in(0).type(), windows.kernel.size())},
                {v.grad(), v.out(1)}, {})};
}

std::vector<Case> MaxPool::cases() {
  std::vector<Case> cases;
  for (MaxPoolForm& g : max_pool_forms()) {
    cases.push_back({.name = g.name, .op = make_op(MaxPool{g.windows}), .inputs = {{{f32, g.x}}}});
  }
  // The choice among equal elements; too many elements for differences, which ties spoil.
  CaseInput equals{{f32, {2, 3, 9, 10}}, {.kind = Fillings::Kind::integers, .low = 0, .high = 3}};
  const Windows padded{{3, 3}, {2, 1}, {1, 1}, {1, 1}};
  cases.push_back({.name = "equals", .op = make_op(MaxPool{padded}), .inputs = {equals}});
  equals.type.shape = {1, 2, 6, 38};
  cases.push_back({.name = "equals, halves",
                   .op = make_op(MaxPool{plain({2, 2}, {2, 2})}),
                   .inputs = {equals}});
  equals.type.shape = {2, 4, 8, 10};
  cases.push_back({.name = "equals, halves of four channels",
                   .op = make_op(MaxPool{plain({2, 2}, {2, 2})}),
                   .inputs = {equals}});
  return cases;
}

std::string MaxPoolGrad::attributes() const {
  return fmt::format("{}, size={}", windows.text(), to_string(size));
}

Types MaxPoolGrad::infer(std::span<const Type> in) const {
  require_images(in[0], windows.kernel.size());
  const Type result = with_spatial(in[0], size);
  require_images(result, windows.kernel.size());
  if (in[0] != with_spatial(in[0], count_of(windows, size)) || in[1] != Type{i32, in[0].shape}) {
    throw Requirement{"the operands of its max pool"};
  }
  return {result};
}

std::vector<Case> MaxPoolGrad::cases() {
  std::vector<Case> cases;
  for (const MaxPoolForm& g : max_pool_forms()) {
    const std::size_t n = g.windows.kernel.size();
    const Type x{f32, g.x};
    const Type y = with_spatial(x, count_of(g.windows, spatial_of(x, n)));
    const double taps = static_cast<double>(numel(g.windows.kernel));
    CaseInput winners{
        {i32, y.shape},
        {.kind = Fillings::Kind::integers, .low = 0, .high = taps, .differentiable = false}};
    cases.push_back({.name = g.name,
                     .op = make_op(MaxPoolGrad{g.windows, spatial_of(x, n)}),
                     .inputs = {{y}, winners},
                     .sums = true,
                     .gradient = false});
  }
  return cases;
}

}  // namespace metronome
