// Losses of distances, rankings and distributions of numbers beside libtorch's, and what they say
// of wrong operands.
#include "ops/losses/distance_losses.h"

#include <ATen/ops/clamp_min.h>
#include <ATen/ops/cosine_embedding_loss.h>
#include <ATen/ops/floor.h>
#include <ATen/ops/hinge_embedding_loss.h>
#include <ATen/ops/huber_loss.h>
#include <ATen/ops/l1_loss.h>
#include <ATen/ops/log.h>
#include <ATen/ops/margin_ranking_loss.h>
#include <ATen/ops/mse_loss.h>
#include <ATen/ops/poisson_nll_loss.h>
#include <ATen/ops/round.h>
#include <ATen/ops/smooth_l1_loss.h>
#include <ATen/ops/square.h>
#include <ATen/ops/triplet_margin_loss.h>

#include <limits>
#include <numbers>

#include "graph/ir/error.h"
#include "tests/doctest.h"
#include "tests/ops/beside_libtorch.h"

namespace metronome::distance_losses_test {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct Joined {
  LossReduction ours;
  at::Reduction::Reduction theirs;
};
constexpr Joined kReductions[] = {{LossReduction::mean, at::Reduction::Mean},
                                  {LossReduction::sum, at::Reduction::Sum},
                                  {LossReduction::none, at::Reduction::None}};

at::Tensor signs() { return numbers({1, -1, 1, -1, -1, 1, 1}); }

}  // namespace

TEST_CASE("losses of differences, with every reduction") {
  // Halves, so that some differences are 0, 1 and 2 exactly: where the losses have their kinks.
  const at::Tensor x = at::round(numbers_in(-4, 4, {7, 9})) / 2,
                   y = at::round(numbers_in(-4, 4, {7, 9})) / 2;
  for (const auto& [ours, theirs] : kReductions) {
    CHECK(beside_libtorch([=](const Values& in) { return mse_loss(in[0], in[1], ours); },
                          [=](const Tensors& in) { return at::mse_loss(in[0], in[1], theirs); },
                          {{x}, {y}}) == "");
    CHECK(beside_libtorch([=](const Values& in) { return l1_loss(in[0], in[1], ours); },
                          [=](const Tensors& in) { return at::l1_loss(in[0], in[1], theirs); },
                          {{x}, {y}}) == "");
    for (const double number : {0.5, 1.0, 2.0}) {
      CHECK(beside_libtorch(
                [=](const Values& in) { return smooth_l1_loss(in[0], in[1], number, ours); },
                [=](const Tensors& in) { return at::smooth_l1_loss(in[0], in[1], theirs, number); },
                {{x}, {y}}) == "");
      CHECK(beside_libtorch(
                [=](const Values& in) {
                  return huber_loss(in[0], in[1], {.delta = number, .reduction = ours});
                },
                [=](const Tensors& in) { return at::huber_loss(in[0], in[1], theirs, number); },
                {{x}, {y}}) == "");
    }
    CHECK(beside_libtorch([=](const Values& in) { return smooth_l1_loss(in[0], in[1], 0, ours); },
                          [=](const Tensors& in) { return at::l1_loss(in[0], in[1], theirs); },
                          {{x}, {y}}) == "");
  }
}

TEST_CASE("triplet_margin_loss") {
  const std::vector<Given> rows = {
      {numbers_in(-1, 1, {9, 5})}, {numbers_in(-1, 1, {9, 5})}, {numbers_in(-1, 1, {9, 5})}};
  for (const auto& [ours, theirs] : kReductions) {
    for (const double p : {2.0, 1.0, 3.0, kInfinity}) {
      for (const bool swap : {false, true}) {
        CAPTURE(p);
        CHECK(beside_libtorch(
                  [=](const Values& in) {
                    return triplet_margin_loss(
                        in[0], in[1], in[2],
                        {.margin = 0.5, .p = p, .swap = swap, .reduction = ours});
                  },
                  [=](const Tensors& in) {
                    return at::triplet_margin_loss(in[0], in[1], in[2], 0.5, p, 1e-6, swap, theirs);
                  },
                  rows) == "");
      }
    }
  }
}

TEST_CASE("losses by signs") {
  const at::Tensor a = numbers_in(-2, 2, {7, 5}), b = numbers_in(-2, 2, {7, 5});
  at::Tensor c = numbers_in(-2, 2, {7}), d = numbers_in(-2, 2, {7});
  c[0] = 1, d[0] = 1, c[1] = 1, d[1] = 0.5;  // kinks, for margins of 0 and 0.5
  for (const auto& [ours, theirs] : kReductions) {
    for (const double margin : {0.0, 0.5}) {
      const MarginOptions options{.margin = margin, .reduction = ours};
      CHECK(
          beside_libtorch(
              [=](const Values& in) { return cosine_embedding_loss(in[0], in[1], in[2], options); },
              [=](const Tensors& in) {
                return at::cosine_embedding_loss(in[0], in[1], in[2], margin, theirs);
              },
              {{a}, {b}, {signs(), false}}) == "");
      CHECK(beside_libtorch(
                [=](const Values& in) { return margin_ranking_loss(in[0], in[1], in[2], options); },
                [=](const Tensors& in) {
                  return at::margin_ranking_loss(in[0], in[1], in[2], margin, theirs);
                },
                {{c}, {d}, {signs(), false}}) == "");
      CHECK(beside_libtorch(
                [=](const Values& in) { return hinge_embedding_loss(in[0], in[1], options); },
                [=](const Tensors& in) {
                  return at::hinge_embedding_loss(in[0], in[1], margin, theirs);
                },
                {{d}, {signs(), false}}) == "");
    }
  }
  CHECK(beside_libtorch([](const Values& in) { return hinge_embedding_loss(in[0], in[1]); },
                        [](const Tensors& in) { return at::hinge_embedding_loss(in[0], in[1]); },
                        {{c}, {signs(), false}}) == "");
}

TEST_CASE("cosine_embedding_loss takes whole numbers for signs") {
  const at::Tensor a = numbers_in(-2, 2, {3, 5}), b = numbers_in(-2, 2, {3, 5});
  CHECK(beside_libtorch(
            [](const Values& in) { return cosine_embedding_loss(in[0], in[1], in[2]); },
            [](const Tensors& in) { return at::cosine_embedding_loss(in[0], in[1], in[2]); },
            {{a}, {b}, {wholes({1, -1, -1})}}) == "");
}

TEST_CASE("poisson_nll_loss") {
  const at::Tensor x = numbers_in(0.1, 3, {4, 5});
  at::Tensor target = at::floor(numbers_in(0, 6, {4, 5}));
  target[0][0] = 1;
  for (const auto& [ours, theirs] : kReductions) {
    for (const bool log_input : {true, false}) {
      for (const bool full : {false, true}) {
        CHECK(beside_libtorch(
                  [=](const Values& in) {
                    return poisson_nll_loss(
                        in[0], in[1], {.log_input = log_input, .full = full, .reduction = ours});
                  },
                  [=](const Tensors& in) {
                    return at::poisson_nll_loss(in[0], in[1], log_input, full, 1e-8, theirs);
                  },
                  {{x}, {target, false}}) == "");
      }
    }
  }
}

TEST_CASE("gaussian_nll_loss is torch.nn's") {
  const at::Tensor x = numbers_in(-2, 2, {4, 5}), y = numbers_in(-2, 2, {4, 5});
  const auto check = [&](const at::Tensor& variance, bool full, const Joined& joined) {
    const auto ours = [=](const Values& in) {
      return gaussian_nll_loss(in[0], in[1], in[2],
                               {.full = full, .eps = 0.125, .reduction = joined.ours});
    };
    const auto theirs = [=](const Tensors& in) {
      const at::Tensor least = in[2] + (at::clamp_min(in[2], 0.125) - in[2]).detach();
      at::Tensor loss = 0.5 * (at::log(least) + at::square(in[0] - in[1]) / least);
      if (full) loss = loss + 0.5 * std::log(2 * std::numbers::pi);
      if (joined.theirs == at::Reduction::None) return loss;
      return joined.theirs == at::Reduction::Mean ? loss.mean() : loss.sum();
    };
    return beside_libtorch(ours, theirs, {{x}, {y}, {variance}});
  };
  at::Tensor variance = numbers_in(0.25, 2, {4, 5});
  variance[0][0] = 0, variance[1][1] = 0.0625;
  for (const Joined& joined : kReductions) {
    CHECK(check(variance, false, joined) == "");
    CHECK(check(variance, true, joined) == "");
    CHECK(check(numbers_in(0.25, 2, {4, 1}), true, joined) == "");
  }
}

TEST_CASE("what losses of distances say of wrong operands") {
  CHECK(report([](Graph& g) {
          huber_loss(input(g, "x", f32, {4}), input(g, "y", f32, {4}), {.delta = 0}, kHere);
        }) ==
        "model.cc:30: huber_loss cannot be computed\n"
        "  operand 0  f32[4]  \"x\"  model.cc:10\n"
        "  operand 1  f32[4]  \"y\"  model.cc:10\n"
        "  requires   a finite delta above 0, but 0");
  CHECK(report([](Graph& g) {
          mse_loss(input(g, "x", f32, {4}), input(g, "y", f64, {4}), LossReduction::sum, kHere);
        }) ==
        "model.cc:30: mse_loss cannot be computed\n"
        "  operand 0  f32[4]  \"x\"  model.cc:10\n"
        "  operand 1  f64[4]  \"y\"  model.cc:10\n"
        "  requires   equal element types, but f32 and f64\n"
        "  way out    cast operand 0 to f64: x.cast(mt::f64)");
  CHECK(report([](Graph& g) {
          smooth_l1_loss(input(g, "x", f32, {4}), input(g, "y", f32, {4}), -1, LossReduction::sum,
                         kHere);
        }) ==
        "model.cc:30: smooth_l1_loss cannot be computed\n"
        "  operand 0  f32[4]  \"x\"  model.cc:10\n"
        "  operand 1  f32[4]  \"y\"  model.cc:10\n"
        "  requires   a finite beta of 0 or more, but -1");
  CHECK(report([](Graph& g) {
          const Value x = input(g, "x", f32, {4, 5});
          triplet_margin_loss(x, x, x, {.p = 0.5}, kHere);
        }) ==
        "model.cc:30: triplet_margin_loss cannot be computed\n"
        "  operand 0  f32[4, 5]  \"x\"  model.cc:10\n"
        "  operand 1  f32[4, 5]  \"x\"  model.cc:10\n"
        "  operand 2  f32[4, 5]  \"x\"  model.cc:10\n"
        "  requires   a p of 1 or more, but 0.5");
  CHECK(report([](Graph& g) {
          const Value x = input(g, "x", f32, {4, 5});
          cosine_embedding_loss(x, x, input(g, "y", f32, {5}), {}, kHere);
        }) ==
        "model.cc:30: cosine_embedding_loss cannot be computed\n"
        "  operand 0  f32[4, 5]  \"x\"  model.cc:10\n"
        "  operand 1  f32[4, 5]  \"x\"  model.cc:10\n"
        "  operand 2  f32[5]     \"y\"  model.cc:10\n"
        "  requires   one y for each row, [4], but [5]");
  CHECK(report([](Graph& g) {
          const Value x = input(g, "x", f32, {4, 5});
          gaussian_nll_loss(x, x, input(g, "v", f32, {4}), {}, kHere);
        }) ==
        "model.cc:30: gaussian_nll_loss cannot be computed\n"
        "  operand 0  f32[4, 5]  \"x\"  model.cc:10\n"
        "  operand 1  f32[4, 5]  \"x\"  model.cc:10\n"
        "  operand 2  f32[4]     \"v\"  model.cc:10\n"
        "  requires   variance that broadcasts to [4, 5], but [4]");
  CHECK(report([](Graph& g) {
          hinge_embedding_loss(input(g, "x", f32, {4}), input(g, "y", f32, {4}),
                               {.margin = kInfinity}, kHere);
        }) ==
        "model.cc:30: hinge_embedding_loss cannot be computed\n"
        "  operand 0  f32[4]  \"x\"  model.cc:10\n"
        "  operand 1  f32[4]  \"y\"  model.cc:10\n"
        "  requires   a finite margin, but inf");
}

}  // namespace metronome::distance_losses_test
