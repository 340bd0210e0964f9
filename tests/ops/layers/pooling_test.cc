// Pooling layers: defaults and shapes as PyTorch's, values and gradients as libtorch's, and what
// they say of wrong numbers. Kernels: tests/ops/kernels/conformance_test.cc.
#include <ATen/ops/adaptive_avg_pool2d.h>
#include <ATen/ops/avg_pool1d.h>
#include <ATen/ops/avg_pool2d.h>
#include <ATen/ops/avg_pool3d.h>
#include <ATen/ops/max_pool1d.h>
#include <ATen/ops/max_pool2d.h>
#include <ATen/ops/max_pool3d.h>

#include <cmath>
#include <limits>

#include "ops/layers/pooling.h"
#include "ops/layers/resize.h"
#include "ops/pool/max_pool_planes.h"
#include "tests/aten.h"
#include "tests/ops/layer_runs.h"

namespace metronome::pooling_test {
namespace {

TEST_CASE("a pool steps by its kernel unless a stride is given") {
  CHECK(shape_after(max_pool2d(2), {8, 16, 32, 32}) == Shape{8, 16, 16, 16});
  CHECK(shape_after(max_pool2d({3, 2}), {8, 16, 32, 32}) == Shape{8, 16, 10, 16});
  CHECK(shape_after(max_pool2d(3, {.stride = 1}), {8, 16, 32, 32}) == Shape{8, 16, 30, 30});
  CHECK(shape_after(max_pool2d(3, {.stride = {1, 2}, .padding = 1}), {8, 16, 32, 32}) ==
        Shape{8, 16, 32, 16});
  CHECK(shape_after(max_pool2d(3, {.dilation = 2}), {8, 16, 32, 32}) == Shape{8, 16, 10, 10});
  CHECK(shape_after(max_pool1d(2), {8, 16, 9}) == Shape{8, 16, 4});
  CHECK(shape_after(max_pool1d(2, {.ceil_mode = true}), {8, 16, 9}) == Shape{8, 16, 5});
  CHECK(shape_after(max_pool3d(2), {8, 16, 4, 6, 8}) == Shape{8, 16, 2, 3, 4});
  CHECK(shape_after(avg_pool2d(3, {.stride = 2, .padding = 1}), {8, 16, 16, 16}) ==
        Shape{8, 16, 8, 8});
  CHECK(shape_after(avg_pool1d(4), {2, 3, 17}) == Shape{2, 3, 4});
  CHECK(shape_after(avg_pool3d({1, 2, 2}), {2, 3, 5, 4, 4}) == Shape{2, 3, 5, 2, 2});
}

TEST_CASE("with ceil_mode a window that begins behind the elements is dropped") {
  // Windows of 2, 3 apart, with a padding of 1, begin at -1, 2 and 5. If there are 4 or 5 elements,
  // nothing but padding stands at 5.
  const Layer pool = max_pool1d(2, {.stride = 3, .padding = 1, .ceil_mode = true});
  CHECK(shape_after(pool, {1, 1, 4}) == Shape{1, 1, 2});
  CHECK(shape_after(pool, {1, 1, 5}) == Shape{1, 1, 2});
  CHECK(shape_after(pool, {1, 1, 6}) == Shape{1, 1, 3});
}

TEST_CASE("adaptive pools make the sizes asked for") {
  CHECK(shape_after(adaptive_avg_pool1d(4), {2, 3, 17}) == Shape{2, 3, 4});
  CHECK(shape_after(adaptive_avg_pool2d(1), {2, 3, 7, 5}) == Shape{2, 3, 1, 1});
  CHECK(shape_after(adaptive_avg_pool2d({3, 1}), {2, 3, 7, 5}) == Shape{2, 3, 3, 1});
  CHECK(shape_after(adaptive_avg_pool3d(2), {2, 3, 7, 5, 4}) == Shape{2, 3, 2, 2, 2});
}

TEST_CASE("pools agree with libtorch") {
  const at::Tensor line = scattered({2, 3, 17}), image = scattered({2, 3, 9, 8}),
                   volume = scattered({1, 2, 5, 6, 7});
  const auto near = [](const at::Tensor& a, const at::Tensor& b) {
    return at::allclose(a, b, 1e-13, 1e-14);
  };
  CHECK(result_of(max_pool1d(3), line).equal(at::max_pool1d(line, {3})));
  CHECK(result_of(max_pool2d(3, {.stride = 2, .padding = 1}), image)
            .equal(at::max_pool2d(image, {3, 3}, {2, 2}, {1, 1})));
  CHECK(result_of(max_pool3d(2), volume).equal(at::max_pool3d(volume, {2, 2, 2})));
  CHECK(near(result_of(avg_pool1d(3, {.padding = 1}), line), at::avg_pool1d(line, {3}, {3}, {1})));
  CHECK(near(result_of(avg_pool2d(3, {.padding = 1, .count_include_pad = false}), image),
             at::avg_pool2d(image, {3, 3}, {3, 3}, {1, 1}, false, false)));
  CHECK(near(result_of(avg_pool2d(2, {.divisor_override = 3}), image),
             at::avg_pool2d(image, {2, 2}, {2, 2}, {0, 0}, false, true, 3)));
  CHECK(near(result_of(avg_pool3d(2, {.ceil_mode = true}), volume),
             at::avg_pool3d(volume, {2, 2, 2}, {2, 2, 2}, {0, 0, 0}, true)));
  CHECK(
      near(result_of(adaptive_avg_pool2d({4, 3}), image), at::adaptive_avg_pool2d(image, {4, 3})));
  CHECK(near(result_of(adaptive_avg_pool2d(1), image), at::adaptive_avg_pool2d(image, {1, 1})));
}

TEST_CASE("gradients of pools agree with libtorch's autograd") {
  const auto check = [](const Layer& layer, const auto& torch) {
    const at::Tensor x = scattered({2, 3, 9, 8});
    const at::Tensor own = x.clone().requires_grad_(true);
    const at::Tensor y = torch(own), weights = scattered(y.sizes());
    (y * weights).sum().backward();
    CHECK(at::allclose(gradient_of(layer, x, weights), own.grad(), 1e-12, 1e-14));
  };
  check(max_pool2d(3, {.stride = 2, .padding = 1}),
        [](const at::Tensor& x) { return at::max_pool2d(x, {3, 3}, {2, 2}, {1, 1}); });
  check(avg_pool2d(3, {.stride = 1, .padding = 1}),
        [](const at::Tensor& x) { return at::avg_pool2d(x, {3, 3}, {1, 1}, {1, 1}); });
  check(adaptive_avg_pool2d({4, 3}),
        [](const at::Tensor& x) { return at::adaptive_avg_pool2d(x, {4, 3}); });
  check(adaptive_avg_pool2d(1),
        [](const at::Tensor& x) { return at::adaptive_avg_pool2d(x, {1, 1}); });
}

TEST_CASE("a NaN wins, also of infinities, and -infinity wins of padding") {
  constexpr double inf = std::numeric_limits<double>::infinity(), nan = std::nan("");
  const at::Tensor x = at::tensor({1.0, nan, inf, 2.0, -inf, -inf}, at::kDouble).reshape({1, 1, 6});
  const at::Tensor y = result_of(max_pool1d(2), x).flatten();
  CHECK(std::isnan(y[0].item<double>()));
  CHECK(y[1].item<double>() == inf);
  CHECK(y[2].item<double>() == -inf);
  const at::Tensor weights = at::ones({1, 1, 3}, at::kDouble);
  const at::Tensor gradient = gradient_of(max_pool1d(2), x, weights).flatten();
  CHECK(gradient.equal(at::tensor({0.0, 1.0, 1.0, 0.0, 1.0, 0.0}, at::kDouble)));
}

TEST_CASE("the first of equal elements gets the gradient") {
  const at::Tensor x = at::ones({1, 1, 2, 4}, at::kDouble);
  const at::Tensor gradient = gradient_of(max_pool2d(2), x, at::ones({1, 1, 1, 2}, at::kDouble));
  CHECK(
      gradient.flatten().equal(at::tensor({1.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0}, at::kDouble)));
}

// Outside of the kernels' builds METRONOME_ISA is no macro, and so the namespace's name.
TEST_CASE("planes are walked by a table where it is small") {
  const auto by_planes = [](METRONOME_ISA::WindowLine height, METRONOME_ISA::WindowLine width) {
    return METRONOME_ISA::by_planes({METRONOME_ISA::WindowLine{}, height, width});
  };
  const METRONOME_ISA::WindowLine halved{.in = 8, .out = 4, .kernel = 2, .stride = 2};
  CHECK(by_planes(halved, halved));
  const METRONOME_ISA::WindowLine wide{.in = 1024, .out = 512, .kernel = 2, .stride = 2};
  CHECK(by_planes(wide, halved));
  CHECK_FALSE(by_planes(halved, wide));
  const METRONOME_ISA::WindowLine overlapping{.in = 64, .out = 8, .kernel = 57};
  CHECK_FALSE(by_planes(overlapping, overlapping));
  // 64 windows of one element, but a table for the gradient would have 2^32 entries.
  const METRONOME_ISA::WindowLine sparse{.in = 65536, .out = 8, .kernel = 1, .stride = 8192};
  CHECK_FALSE(by_planes(sparse, sparse));
}

TEST_CASE("a pool of values of too few dimensions") {
  CHECK(mistake_of(max_pool2d(2), f32, {3, 8, 8}) ==
        "net.cc:2: max_pool cannot join the graph as \"max_pool\"\n"
        "  operand 0  f32[3, 8, 8]  \"x\"  net.cc:1\n"
        "  requires   an operand [N, C, H, W], but [3, 8, 8]");
  CHECK(mistake_of(adaptive_avg_pool1d(1), f32, {3, 8}) ==
        "net.cc:2: adaptive_avg_pool1d cannot be applied\n"
        "  operand 0  f32[3, 8]  \"x\"  net.cc:1\n"
        "  requires   an operand [N, C, L], but [3, 8]");
}

TEST_CASE("a pool of integers") {
  CHECK(mistake_of(avg_pool1d(2), i64, {1, 3, 8}) ==
        "net.cc:2: avg_pool cannot join the graph as \"avg_pool\"\n"
        "  operand 0  i64[1, 3, 8]  \"x\"  net.cc:1\n"
        "  requires   a floating element type, but i64\n"
        "  way out    cast it: x.cast(mt::f32)");
}

TEST_CASE("wrong numbers of a pool") {
  const auto requires_ = [](const Layer& layer, Shape shape = {2, 3, 8, 9}) {
    const std::string all = mistake_of(layer, f32, std::move(shape)), word = "  requires   ";
    return all.substr(all.find(word) + word.size());
  };
  CHECK(requires_(max_pool2d(0)) == "a kernel from 1 to 2^30, but [0, 0]");
  CHECK(requires_(max_pool2d(2, {.stride = {1, 0}})) == "a stride from 1 to 2^30, but [1, 0]");
  CHECK(requires_(max_pool2d(2, {.dilation = -1})) == "a dilation from 1 to 2^30, but [-1, -1]");
  CHECK(requires_(avg_pool2d(3, {.padding = -1})) == "a padding from 0 to 2^30, but [-1, -1]");
  CHECK(requires_(max_pool2d({3, 2}, {.padding = {1, 2}})) ==
        "a padding of at most half the kernel, but padding [1, 2] and kernel [3, 2]");
  CHECK(requires_(max_pool2d({1, 2, 3})) == "one kernel or 2, but [1, 2, 3]");
  CHECK(requires_(avg_pool2d(2, {.stride = {1, 2, 3}})) == "one stride or 2, but [1, 2, 3]");
  CHECK(requires_(adaptive_avg_pool2d({1, 2, 3})) == "one size or 2, but [1, 2, 3]");
  CHECK(requires_(adaptive_avg_pool2d({0, 2})) == "an output size from 1 to 2^30, but [0, 2]");
  CHECK(requires_(avg_pool2d(2, {.divisor_override = 0})) == "a divisor other than 0");
  CHECK(requires_(max_pool2d({2, 10})) ==
        "windows that fit into [8, 9] with padding [0, 0], but a window takes 10 of dimension 3");
  CHECK(requires_(max_pool2d(3, {.padding = 1, .dilation = 5})) ==
        "windows that fit into [8, 9] with padding [1, 1], but a window takes 11 of dimension 2");
  CHECK(requires_(max_pool2d({1 << 16, 1 << 15}, {.padding = {1 << 15, 1 << 14}})) ==
        "a kernel of at most 2147483647 elements, but [65536, 32768]");
  // 2^66 elements, which 64 bits do not count.
  CHECK(requires_(max_pool3d(1 << 22, {.padding = 1 << 21}), {1, 1, 8, 8, 8}) ==
        "a kernel of at most 2147483647 elements, but [4194304, 4194304, 4194304]");
  CHECK(requires_(max_pool2d(2), {2, 0, 8, 8}) == "C, H, W from 1 to 2^30, but [2, 0, 8, 8]");
  CHECK(requires_(avg_pool2d(2), {2, 3, 8, 0}) == "C, H, W from 1 to 2^30, but [2, 3, 8, 0]");
}

}  // namespace
}  // namespace metronome::pooling_test
