#include "ops/pool/avg_pool.h"

#include <fmt/format.h>

#include <utility>

#include "graph/emit/scope.h"
#include "graph/ir/error.h"
#include "ops/rules/require.h"

namespace metronome {
namespace {

struct AvgPoolForm {
  std::string name;
  Shape x;
  Averaging averaging;
};

Averaging over(Spatial kernel, Spatial stride, Spatial padding = {}) {
  const std::size_t n = kernel.size();
  if (padding.empty()) padding = Spatial(n, 0);
  return {{std::move(kernel), std::move(stride), std::move(padding), Spatial(n, 1)}};
}
Averaging without_pad(Averaging a) {
  a.count_include_pad = false;
  return a;
}
Averaging with_ceil_mode(Averaging a) {
  a.windows.ceil_mode = true;
  return a;
}
Averaging with_divisor(Averaging a, std::int64_t divisor) {
  a.divisor = divisor;
  return a;
}

std::vector<AvgPoolForm> avg_pool_forms() {
  return {
      {"halves", {2, 3, 6, 8}, over({2, 2}, {2, 2})},
      {"odd sizes", {2, 2, 7, 9}, over({2, 3}, {2, 2})},
      {"overlapping", {1, 2, 8, 7}, over({3, 3}, {1, 1})},
      {"padded", {2, 2, 5, 7}, over({3, 3}, {2, 2}, {1, 1})},
      {"padding that does not count", {2, 2, 5, 7}, without_pad(over({3, 3}, {2, 2}, {1, 1}))},
      {"stride beyond the kernel", {2, 2, 9, 10}, over({2, 2}, {3, 4})},
      {"ceil_mode, a part of a window", {1, 2, 5, 6}, with_ceil_mode(over({2, 3}, {2, 2}))},
      {"ceil_mode, beyond the padding", {1, 2, 6, 6}, with_ceil_mode(over({3, 3}, {2, 2}, {1, 1}))},
      {"ceil_mode, beyond padding that does not count",
       {1, 2, 6, 6},
       with_ceil_mode(without_pad(over({3, 3}, {2, 2}, {1, 1})))},
      {"ceil_mode, the last window dropped",
       {1, 2, 4, 3},
       with_ceil_mode(over({2, 2}, {3, 2}, {1, 1}))},
      {"a divisor", {1, 2, 5, 6}, with_divisor(over({2, 3}, {2, 2}, {1, 0}), 5)},
      {"one element", {4, 3, 1, 1}, over({1, 1}, {1, 1})},
      {"one dimension", {2, 3, 17}, with_ceil_mode(over({4}, {3}, {2}))},
      {"three dimensions", {1, 2, 5, 4, 6}, over({2, 3, 2}, {2, 1, 2}, {1, 1, 0})},
      {"three dimensions, a divisor", {1, 2, 4, 4, 4}, with_divisor(over({2, 2, 2}, {2, 2, 2}), 3)},
      {"no image", {0, 3, 6, 6}, over({2, 2}, {2, 2})},
      {"threads", {4, 8, 33, 35}, over({3, 3}, {2, 2}, {1, 1})},
  };
}

struct AdaptiveSizes {
  std::string name;
  Shape x;
  Spatial out;
};

std::vector<AdaptiveSizes> adaptive_sizes() {
  return {
      {"to one", {2, 3, 6, 7}, {1, 1}},
      {"even parts", {2, 2, 6, 8}, {3, 4}},
      {"overlapping parts", {1, 2, 7, 10}, {3, 4}},
      {"as it is", {1, 2, 3, 4}, {3, 4}},
      {"larger than the operand", {1, 2, 3, 2}, {5, 7}},
      {"one dimension", {2, 3, 17}, {5}},
      {"three dimensions", {1, 2, 5, 4, 6}, {2, 3, 4}},
      {"no image", {0, 3, 6, 6}, {2, 2}},
      {"threads", {4, 8, 33, 35}, {7, 6}},
  };
}

}  // namespace

std::string Averaging::text() const {
  std::string text = windows.text();
  if (!count_include_pad) text += ", count_include_pad=false";
  return divisor ? fmt::format("{}, divisor={}", text, *divisor) : text;
}

Spatial Averaging::counts(const Spatial& sizes) const {
  if (divisor && *divisor == 0) throw Requirement{"a divisor other than 0"};
  return count_of(windows, sizes);
}

Types AvgPool::infer(std::span<const Type> in) const {
  const std::size_t n = averaging.windows.kernel.size();
  require_images(in[0], n);
  return {with_spatial(in[0], averaging.counts(spatial_of(in[0], n)))};
}

Values AvgPool::vjp(const Vjp& v) const {
  if (!v.grad().present()) return Values(1);
  const std::size_t n = averaging.windows.kernel.size();
  return {apply(AvgPoolGrad{averaging, spatial_of(v.in(0).type(), n)}, {v.grad()}, {})};
}

std::vector<Case> AvgPool::cases() {
  std::vector<Case> cases;
  for (const AvgPoolForm& g : avg_pool_forms()) {
    cases.push_back({.name = g.name,
                     .op = make_op(AvgPool{g.averaging}),
                     .inputs = {{{f32, g.x}}},
                     .sums = true});
  }
  return cases;
}

std::string AvgPoolGrad::attributes() const {
  return fmt::format("{}, size={}", averaging.text(), to_string(size));
}

Types AvgPoolGrad::infer(std::span<const Type> in) const {
  require_images(in[0], size.size());
  const Type result = with_spatial(in[0], size);
  require_images(result, size.size());
  if (in[0] != with_spatial(in[0], averaging.counts(size))) {
    throw Requirement{"the gradient of its average pool"};
  }
  return {result};
}

std::vector<Case> AvgPoolGrad::cases() {
  std::vector<Case> cases;
  for (const AvgPoolForm& g : avg_pool_forms()) {
    const Type x{f32, g.x};
    const Spatial size = spatial_of(x, g.averaging.windows.kernel.size());
    cases.push_back({.name = g.name,
                     .op = make_op(AvgPoolGrad{g.averaging, size}),
                     .inputs = {{with_spatial(x, g.averaging.counts(size))}},
                     .sums = true,
                     .gradient = false});
  }
  return cases;
}

Types AdaptiveAvgPool::infer(std::span<const Type> in) const {
  require_images(in[0], out.size());
  const Type result = with_spatial(in[0], out);
  for (const std::int64_t n : out) {
    if (n < 1 || n > std::int64_t{1} << 30) {
      throw Requirement{fmt::format("an output size from 1 to 2^30, but {}", to_string(out))};
    }
  }
  return {result};
}

Values AdaptiveAvgPool::vjp(const Vjp& v) const {
  if (!v.grad().present()) return Values(1);
  return {apply(AdaptiveAvgPoolGrad{spatial_of(v.in(0).type(), out.size())}, {v.grad()}, {})};
}

std::vector<Case> AdaptiveAvgPool::cases() {
  std::vector<Case> cases;
  for (const AdaptiveSizes& s : adaptive_sizes()) {
    cases.push_back({.name = s.name,
                     .op = make_op(AdaptiveAvgPool{s.out}),
                     .inputs = {{{f32, s.x}}},
                     .sums = true});
  }
  return cases;
}

Types AdaptiveAvgPoolGrad::infer(std::span<const Type> in) const {
  require_images(in[0], size.size());
  const Type result = with_spatial(in[0], size);
  require_images(result, size.size());
  return {result};
}

std::vector<Case> AdaptiveAvgPoolGrad::cases() {
  std::vector<Case> cases;
  for (const AdaptiveSizes& s : adaptive_sizes()) {
    const Type x{f32, s.x};
    cases.push_back({.name = s.name,
                     .op = make_op(AdaptiveAvgPoolGrad{spatial_of(x, s.out.size())}),
                     .inputs = {{with_spatial(x, s.out)}},
                     .sums = true,
                     .gradient = false});
  }
  return cases;
}

}  // namespace metronome
