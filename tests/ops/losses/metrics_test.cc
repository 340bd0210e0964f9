// Overlaps of masks and perplexity beside formulas of libtorch's, and what they say of wrong
// operands.
#include "ops/losses/metrics.h"

#include <ATen/ops/cross_entropy_loss.h>

#include "graph/ir/error.h"
#include "tests/doctest.h"
#include "tests/ops/beside_libtorch.h"

namespace metronome::metrics_test {
namespace {

/// As monai.losses.DiceLoss computes it: sums over all dimensions but the first two.
at::Tensor dice_of(const at::Tensor& p, const at::Tensor& t, double smooth) {
  const auto planes = [](const at::Tensor& x) { return x.flatten(2).sum(-1); };
  return ((2 * planes(p * t) + smooth) / (planes(p) + planes(t) + smooth)).mean();
}

at::Tensor iou_of(const at::Tensor& p, const at::Tensor& t, double smooth) {
  const at::Tensor common = (p * t).flatten(2).sum(-1);
  const at::Tensor either = p.flatten(2).sum(-1) + t.flatten(2).sum(-1) - common;
  return ((common + smooth) / (either + smooth)).mean();
}

TEST_CASE("overlaps of probabilities, and their gradients") {
  const at::Tensor p = numbers_in(0, 1, {2, 3, 4, 5}), t = numbers_in(0, 1, {2, 3, 4, 5});
  for (const double smooth : {1e-5, 1.0}) {
    const OverlapOptions options = {.smooth = smooth};
    const std::vector<Given> given = {{p}, {t, false}};
    CHECK(beside_libtorch([=](const Values& in) { return dice_loss(in[0], in[1], options); },
                          [=](const Tensors& in) { return 1 - dice_of(in[0], in[1], smooth); },
                          given) == "");
    CHECK(beside_libtorch([=](const Values& in) { return metrics::dice(in[0], in[1], options); },
                          [=](const Tensors& in) { return dice_of(in[0], in[1], smooth); },
                          given) == "");
    CHECK(beside_libtorch([=](const Values& in) { return metrics::iou(in[0], in[1], options); },
                          [=](const Tensors& in) { return iou_of(in[0], in[1], smooth); },
                          given) == "");
  }
}

TEST_CASE("overlaps of masks of bool; two empty ones overlap wholly") {
  at::Tensor p = at::zeros({2, 2, 3}, at::kBool), t = at::zeros({2, 2, 3}, at::kBool);
  p[0][0][0] = true, p[0][0][1] = true, t[0][0][1] = true, t[0][0][2] = true;  // one of three
  p[1][1].fill_(true), t[1][1].fill_(true);
  const auto expected = [&](double common) {
    return [=](const Tensors&) { return at::full({}, (common + 3) / 4, at::kFloat); };
  };
  const Tolerance allowed{1e-5, 1e-5};
  CHECK(beside_libtorch([](const Values& in) { return metrics::dice(in[0], in[1]).cast(f32); },
                        expected(0.5), {{p}, {t}}, allowed) == "");
  CHECK(beside_libtorch([](const Values& in) { return metrics::iou(in[0], in[1]).cast(f32); },
                        expected(1.0 / 3), {{p}, {t}}, allowed) == "");
}

TEST_CASE("perplexity") {
  const at::Tensor logits = numbers_in(-3, 3, {7, 5}), targets = wholes({0, 3, -1, 4, 2, -1, 1});
  CHECK(
      beside_libtorch(
          [](const Values& in) { return metrics::perplexity(in[0], in[1], {.ignore_index = -1}); },
          [](const Tensors& in) {
            return at::cross_entropy_loss(in[0], in[1], {}, at::Reduction::Mean, -1).exp();
          },
          {{logits}, {targets}}) == "");
}

TEST_CASE("what are no masks") {
  CHECK(report([](Graph& g) {
          metrics::iou(input(g, "x", f32, {7, 5}), input(g, "y", f32, {7, 5}), {}, kHere);
        }) ==
        "model.cc:30: iou cannot be computed\n"
        "  operand 0  f32[7, 5]  \"x\"  model.cc:10\n"
        "  operand 1  f32[7, 5]  \"y\"  model.cc:10\n"
        "  requires   masks [N, C, spatial...] of one element or more, but [7, 5]\n"
        "  way out    reshape them, to one channel: [N, 1, pixels]");
  CHECK(report([](Graph& g) {
          dice_loss(input(g, "x", f32, {7, 1, 5}), input(g, "y", bool_, {7, 1, 5}), {}, kHere);
        }).starts_with("model.cc:30: dice_loss cannot be computed"));
  CHECK(report([](Graph& g) {
          metrics::dice(input(g, "x", f32, {7, 1, 5}), input(g, "y", f32, {7, 1, 5}), {.smooth = 0},
                        kHere);
        }) ==
        "model.cc:30: dice cannot be computed\n"
        "  operand 0  f32[7, 1, 5]  \"x\"  model.cc:10\n"
        "  operand 1  f32[7, 1, 5]  \"y\"  model.cc:10\n"
        "  requires   a finite smooth above 0, but 0");
}

}  // namespace
}  // namespace metronome::metrics_test
