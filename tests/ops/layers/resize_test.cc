// Values of other sizes: shapes, numbers beside libtorch's, and what is said of wrong ones.
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/pixel_shuffle.h>
#include <ATen/ops/pixel_unshuffle.h>
#include <ATen/ops/upsample_bilinear2d.h>
#include <ATen/ops/upsample_bilinear2d_backward.h>
#include <ATen/ops/upsample_nearest2d.h>
#include <ATen/ops/upsample_nearest2d_backward.h>

#include "ops/layers/resize.h"
#include "tests/aten.h"
#include "tests/ops/layer_runs.h"

namespace metronome::resize_test {
namespace {

std::string requires_(const Layer& layer, Shape shape) {
  const std::string all = mistake_of(layer, f32, std::move(shape)), word = "  requires   ";
  return all.substr(all.find(word) + word.size());
}

bool near(const at::Tensor& a, const at::Tensor& b) { return at::allclose(a, b, 1e-13, 1e-14); }

TEST_CASE("flatten joins all dimensions but the first, or those asked for") {
  CHECK(shape_after(flatten(), {8, 16, 3, 2}) == Shape{8, 96});
  CHECK(shape_after(flatten(), {8, 16}) == Shape{8, 16});
  CHECK(shape_after(flatten(0), {8, 16, 3}) == Shape{384});
  CHECK(shape_after(flatten(-3, -2), {8, 16, 3, 2}) == Shape{8, 48, 2});
  CHECK(shape_after(flatten(0), {}) == Shape{1});
  CHECK(requires_(flatten(2, 1), {8, 16, 3}) ==
        "a start that is not behind the end, but 2 and 1 of [8, 16, 3]");
  CHECK(requires_(flatten(3), {8, 16, 3}) == "an axis from -3 to 2, but 3");
  CHECK(requires_(flatten(0, -4), {8, 16, 3}) == "an axis from -3 to 2, but -4");
}

TEST_CASE("flatten of a start behind the end, whole") {
  CHECK(mistake_of(flatten(2, 1), f32, {8, 16, 3}) ==
        "net.cc:2: flatten cannot be applied\n"
        "  operand 0  f32[8, 16, 3]  \"x\"  net.cc:1\n"
        "  requires   a start that is not behind the end, but 2 and 1 of [8, 16, 3]");
}

TEST_CASE("pad takes the last dimension's widths first, and cuts where they are negative") {
  const at::Tensor x = scattered({2, 3, 4, 5});
  CHECK(result_of(pad({1, 2}), x).equal(at::constant_pad_nd(x, {1, 2})));
  CHECK(result_of(pad({1, 1, -2, 0}, 0.5), x).equal(at::constant_pad_nd(x, {1, 1, -2, 0}, 0.5)));
  CHECK(result_of(pad({0, 0, 0, 0, 1, 0, 0, 3}, -1), x)
            .equal(at::constant_pad_nd(x, {0, 0, 0, 0, 1, 0, 0, 3}, -1)));
  CHECK(result_of(pad({}), x).equal(x));
}

TEST_CASE("the gradient of a pad is what lies inside of it") {
  const at::Tensor x = scattered({2, 3, 4}), weights = scattered({2, 4, 4});
  const at::Tensor gradient = gradient_of(pad({-1, 1, 1, 0}), x, weights);
  CHECK(gradient.equal(at::constant_pad_nd(weights, {1, -1, -1, 0})));
}

TEST_CASE("wrong widths of a pad") {
  CHECK(requires_(pad({1}), {2, 3}) == "two widths for each of 2 dimensions at most, but 1");
  CHECK(requires_(pad({1, 1, 1, 1, 1, 1}), {2, 3}) ==
        "two widths for each of 2 dimensions at most, but 6");
  CHECK(mistake_of(pad({-2, -2}), f32, {2, 3}) ==
        "net.cc:2: pad cannot join the graph as \"pad\"\n"
        "  operand 0  f32[2, 3]  \"x\"  net.cc:1\n"
        "  requires   no more cut off than is there, but low [0, -2] and high [0, -2] of [2, 3]");
  CHECK(requires_(pad({-4, 4}), {2, 3}) ==
        "no more cut off than is there, but low [0, -4] and high [0, 4] of [2, 3]");
}

TEST_CASE("interpolate makes a size, or a multiple of the size") {
  CHECK(shape_after(upsample({.scale_factor = 2}), {2, 3, 4, 5}) == Shape{2, 3, 8, 10});
  CHECK(shape_after(upsample({.scale_factor = {1.5, 0.5}}), {2, 3, 5, 5}) == Shape{2, 3, 7, 2});
  CHECK(shape_after(upsample({.size = 7}), {2, 3, 4, 5}) == Shape{2, 3, 7, 7});
  CHECK(shape_after(upsample({.size = {7, 3}}), {2, 3, 4, 5}) == Shape{2, 3, 7, 3});
  CHECK(shape_after(upsample({.scale_factor = 3}), {2, 3, 4}) == Shape{2, 3, 12});
  CHECK(shape_after(upsample({.scale_factor = 2}), {2, 3, 1, 2, 3}) == Shape{2, 3, 2, 4, 6});
}

TEST_CASE("interpolate agrees with libtorch") {
  constexpr Interpolation bilinear = Interpolation::bilinear;
  const at::Tensor x = scattered({2, 3, 4, 5});
  CHECK(result_of(upsample({.scale_factor = 2}), x).equal(at::upsample_nearest2d(x, {8, 10})));
  CHECK(result_of(upsample({.size = {7, 3}}), x).equal(at::upsample_nearest2d(x, {7, 3})));
  CHECK(near(result_of(upsample({.scale_factor = 2, .mode = bilinear}), x),
             at::upsample_bilinear2d(x, {8, 10}, false, 2.0, 2.0)));
  CHECK(near(result_of(upsample({.scale_factor = {1.7, 2.3}, .mode = bilinear}), x),
             at::upsample_bilinear2d(x, {6, 11}, false, 1.7, 2.3)));
  CHECK(near(result_of(upsample({.size = {7, 9}, .mode = bilinear, .align_corners = true}), x),
             at::upsample_bilinear2d(x, {7, 9}, true)));
}

TEST_CASE("gradients of interpolation agree with libtorch's") {
  constexpr Interpolation bilinear = Interpolation::bilinear;
  const at::Tensor x = scattered({2, 3, 4, 5}), weights = scattered({2, 3, 7, 9});
  CHECK(near(gradient_of(upsample({.size = {7, 9}}), x, weights),
             at::upsample_nearest2d_backward(weights, {7, 9}, x.sizes())));
  CHECK(near(gradient_of(upsample({.size = {7, 9}, .mode = bilinear}), x, weights),
             at::upsample_bilinear2d_backward(weights, {7, 9}, x.sizes(), false)));
}

TEST_CASE("wrong numbers of an interpolation") {
  constexpr Interpolation bilinear = Interpolation::bilinear;
  CHECK(mistake_of(upsample({}), f32, {2, 3, 4, 5}) ==
        "net.cc:2: interpolate cannot be applied\n"
        "  operand 0  f32[2, 3, 4, 5]  \"x\"  net.cc:1\n"
        "  requires   either a size or a scale_factor, but none");
  CHECK(requires_(upsample({.size = 2, .scale_factor = 2}), {2, 3, 4, 5}) ==
        "either a size or a scale_factor, but both");
  CHECK(requires_(upsample({.size = {1, 2, 3}}), {2, 3, 4, 5}) == "one size or 2, but [1, 2, 3]");
  CHECK(requires_(upsample({.size = 0}), {2, 3, 4, 5}) ==
        "an output size from 1 to 2^29, but [0, 0]");
  CHECK(requires_(upsample({.scale_factor = 0.1}), {2, 3, 4, 5}) ==
        "an output size from 1 to 2^29, but 4 times 0.1");
  CHECK(requires_(upsample({.scale_factor = -1}), {2, 3, 4, 5}) ==
        "a finite scale_factor above 0, but -1");
  CHECK(requires_(upsample({.scale_factor = 2}), {3, 4}) ==
        "an operand [N, C, spatial...], but [3, 4]");
  CHECK(requires_(upsample({.scale_factor = 2, .mode = bilinear}), {2, 3, 4}) ==
        "two spatial dimensions for bilinear, but [2, 3, 4]");
  CHECK(requires_(upsample({.scale_factor = 2, .align_corners = true}), {2, 3, 4, 5}) ==
        "align_corners with bilinear only, but nearest");
}

TEST_CASE("pixel_shuffle moves channels into squares, and pixel_unshuffle back") {
  const at::Tensor x = scattered({2, 8, 3, 5});
  CHECK(result_of(pixel_shuffle(2), x).equal(at::pixel_shuffle(x, 2)));
  const at::Tensor y = scattered({2, 3, 6, 9});
  CHECK(result_of(pixel_unshuffle(3), y).equal(at::pixel_unshuffle(y, 3)));
  CHECK(shape_after(pixel_shuffle(2), {12, 3, 5}) == Shape{3, 6, 10});
  CHECK(shape_after(pixel_shuffle(3), {4, 2, 9, 1, 1}) == Shape{4, 2, 1, 3, 3});
}

TEST_CASE("wrong factors of pixel_shuffle and pixel_unshuffle") {
  CHECK(requires_(pixel_shuffle(2), {2, 6, 3, 5}) == "channels that 4 divides, but 6");
  CHECK(requires_(pixel_shuffle(0), {2, 6, 3, 5}) == "a factor from 1 to 2^15, but 0");
  CHECK(requires_(pixel_shuffle(2), {6, 3}) == "an operand [..., C, H, W], but [6, 3]");
  CHECK(requires_(pixel_unshuffle(2), {2, 6, 4, 5}) ==
        "a height and a width that 2 divides, but 4 and 5");
}

}  // namespace
}  // namespace metronome::resize_test
