// Losses of classes and probabilities beside libtorch's, and what they say of wrong operands.
#include "ops/losses/class_losses.h"

#include <ATen/ops/binary_cross_entropy.h>
#include <ATen/ops/binary_cross_entropy_with_logits.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/kl_div.h>
#include <ATen/ops/log_softmax.h>
#include <ATen/ops/nll_loss.h>
#include <ATen/ops/nll_loss_nd.h>
#include <ATen/ops/pow.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/softmax.h>

#include <limits>

#include "graph/ir/error.h"
#include "ops/mean_losses/mean_losses.h"
#include "ops/pick/pick.h"
#include "ops/softmax/softmax.h"
#include "tests/doctest.h"
#include "tests/ops/beside_libtorch.h"

namespace metronome::class_losses_test {
namespace {

constexpr LossReduction kReductions[] = {LossReduction::mean, LossReduction::sum,
                                         LossReduction::none};

/// libtorch's number for it.
std::int64_t to_torch(LossReduction reduction) {
  switch (reduction) {
    case LossReduction::mean:
      return at::Reduction::Mean;
    case LossReduction::sum:
      return at::Reduction::Sum;
    case LossReduction::none:
      break;
  }
  return at::Reduction::None;
}

at::Tensor reduced_tensor(const at::Tensor& x, LossReduction reduction) {
  if (reduction == LossReduction::none) return x;
  return reduction == LossReduction::sum ? x.sum() : x.mean();
}

const at::Tensor& targets() {
  static const at::Tensor kTargets = wholes({0, 3, -1, 4, 2, -1, 1});
  return kTargets;
}

}  // namespace

TEST_CASE("the gradient of picked logarithms has the bits of its two ops, in one kernel") {
  constexpr std::int64_t kRows = 130;
  for (const std::int64_t classes : {1, 5, 16, 2051}) {
    for (const Element index : {i32, i64}) {
      const auto compiled = [&](bool reads_rows) {
        Graph g("picked");
        const Value gradient = g.input("gradient", f32, {kRows});
        const Value target = g.input("target", index, {kRows});
        const Value y = log_softmax(g.input("x", f32, {kRows, classes}));
        const Value rows = apply(PickGrad{classes, -1}, {gradient, target}, Line{});
        g.output("dx", apply(SoftmaxGrad{-1, true}, {rows, y}, Line{}));
        if (reads_rows) g.output("rows", rows);
        return compile(g, cpu_replay(), {.modes = {evaluate}, .threads = 2});
      };
      Executable whole = compiled(false), apart = compiled(true);
      // Some rows are sure of a class, some are ignored, some have no gradient, and one is NaN.
      const at::Tensor x = numbers_in(-30, 5, {kRows, classes});
      at::Tensor gradient = numbers_in(-2, 2, {kRows}), target = at::arange(kRows) * 7 % classes;
      gradient.slice(0, 0, kRows, 9).zero_();
      gradient[3].fill_(std::numeric_limits<double>::quiet_NaN());
      target.slice(0, 1, kRows, 5).fill_(-1);
      const std::vector<Feed> feeds = {{"gradient", gradient.to(at::kFloat)},
                                       {"target", target.to(index == i32 ? at::kInt : at::kLong)},
                                       {"x", x.to(at::kFloat)}};
      whole.evaluate(feeds), apart.evaluate(feeds);
      CAPTURE(classes);
      const at::Tensor dx = whole.read("dx"), of_two = apart.read("dx"), nan = dx.isnan();
      CHECK(at::equal(nan, of_two.isnan()));
      CHECK(at::equal(dx.masked_fill(nan, 0).view(at::kInt),
                      of_two.masked_fill(nan, 0).view(at::kInt)));
      CHECK(whole.report().plan(evaluate).kernels + 1 == apart.report().plan(evaluate).kernels);
    }
  }
}

TEST_CASE("cross entropy with smoothing, weights, ignored rows and every reduction") {
  const at::Tensor logits = numbers_in(-5, 5, {7, 5}), weight = numbers({1, 0.2, 3, 0.5, 2});
  for (const LossReduction reduction : kReductions) {
    for (const double smoothing : {0.0, 0.1, 1.0}) {
      CAPTURE(smoothing);
      const auto ours = [=](const Values& in) {
        return cross_entropy_loss(in[0], in[1],
                                  {.ignore_index = -1,
                                   .label_smoothing = smoothing,
                                   .weight = in.size() > 2 ? in[2] : Value(),
                                   .reduction = reduction});
      };
      const auto theirs = [=](const Tensors& in) {
        return at::cross_entropy_loss(in[0], in[1], in.size() > 2 ? in[2] : at::Tensor(),
                                      to_torch(reduction), -1, smoothing);
      };
      CHECK(beside_libtorch(ours, theirs, {{logits}, {targets()}}) == "");
      CHECK(beside_libtorch(ours, theirs, {{logits}, {targets()}, {weight, false}}) == "");
    }
  }
}

TEST_CASE("cross entropy of a sequence takes classes last") {
  const at::Tensor logits = numbers_in(-5, 5, {2, 3, 4});
  const at::Tensor of = wholes({0, 1, 2, 3, 1, -100}).reshape({2, 3});
  const auto ours = [](const Values& in) {
    return cross_entropy_loss(in[0], in[1], {.label_smoothing = 0.2});
  };
  const auto theirs = [](const Tensors& in) {
    return at::cross_entropy_loss(in[0].transpose(1, 2), in[1], {}, at::Reduction::Mean, -100, 0.2);
  };
  CHECK(beside_libtorch(ours, theirs, {{logits}, {of}}) == "");
}

TEST_CASE("cross entropy of images takes classes in dimension 1, whatever the sizes") {
  const at::Tensor weight = numbers({1, 0.2, 3});
  // Height and width equal to the classes, too.
  for (const auto& [height, width] : {std::pair(2, 4), std::pair(3, 3)}) {
    const at::Tensor logits = numbers_in(-5, 5, {2, 3, height, width});
    const at::Tensor of =
        at::arange(2 * height * width, at::kLong).remainder(3).reshape({2, height, width});
    for (const LossReduction reduction : kReductions) {
      for (const double smoothing : {0.0, 0.1}) {
        const auto ours = [=](const Values& in) {
          return cross_entropy_loss(in[0], in[1],
                                    {.ignore_index = 1,
                                     .label_smoothing = smoothing,
                                     .weight = in.size() > 2 ? in[2] : Value(),
                                     .reduction = reduction,
                                     .axis = 1});
        };
        const auto theirs = [=](const Tensors& in) {
          return at::cross_entropy_loss(in[0], in[1], in.size() > 2 ? in[2] : at::Tensor(),
                                        to_torch(reduction), 1, smoothing);
        };
        CHECK(beside_libtorch(ours, theirs, {{logits}, {of}}) == "");
        CHECK(beside_libtorch(ours, theirs, {{logits}, {of}, {weight, false}}) == "");
      }
      const auto ours = [=](const Values& in) {
        return nll_loss(in[0], in[1], {.reduction = reduction, .axis = -3});
      };
      const auto theirs = [=](const Tensors& in) {
        return at::nll_loss_nd(in[0], in[1], {}, to_torch(reduction));
      };
      CHECK(beside_libtorch(ours, theirs, {{logits}, {of}}) == "");
    }
    const auto right = [](const Values& in) { return accuracy(in[0], in[1], {.axis = 1}); };
    const Computed share = by_graph(right, {{logits, false}, {of}}, some_weights, f32);
    CHECK(share.out.item<float>() ==
          doctest::Approx(logits.argmax(1).eq(of).to(at::kFloat).mean().item<float>()));
  }
}

TEST_CASE("classes that may lie in two dimensions are refused until it is said which") {
  const std::string told =
      "model.cc:30: cross_entropy_loss cannot be computed\n"
      "  operand 0  f32[2, 3, 3]  \"x\"  model.cc:10\n"
      "  operand 1  i64[2, 3]     \"y\"  model.cc:10\n"
      "  requires   classes along one dimension: targets [2, 3] fit the last one and dimension 1\n"
      "  way out    say which: {.axis = 1} for classes in dimension 1, as PyTorch has them, {.axis "
      "= -1} for the last one";
  const auto declared = [](Graph& g, CrossEntropyOptions options) {
    return cross_entropy_loss(input(g, "x", f32, {2, 3, 3}), input(g, "y", i64, {2, 3}), options,
                              kHere);
  };
  CHECK(report([&](Graph& g) { declared(g, {}); }) == told);
  CHECK(report([&](Graph& g) { declared(g, {.label_smoothing = 0.1}); }) == told);
  for (const std::int64_t axis : {1, 2, -1, -2}) {
    Graph g("said");
    CHECK(declared(g, {.axis = axis}).shape().empty());
  }
  CHECK(report([](Graph& g) {
          accuracy(input(g, "x", f32, {2, 3, 3}), input(g, "y", i64, {2, 3}), {}, kHere);
        }).find("fit the last one and dimension 1") != std::string::npos);
  CHECK(report([&](Graph& g) {
          declared(g, {.axis = 3});
        }).ends_with("\n  requires   an axis from -3 to 2, but 3"));
  CHECK(report([](Graph& g) {
          cross_entropy_loss(input(g, "x", f32, {2, 5, 3}), input(g, "y", i64, {2, 3}), {}, kHere);
        })
            .ends_with("\n  requires   one target for each row of logits, [2, 5], but [2, 3]\n"
                       "  way out    if classes lie in dimension 1, as PyTorch has them: {.axis = "
                       "1}"));
  CHECK(report([](Graph& g) {
          cross_entropy_loss(input(g, "x", f32, {2, 5, 3}), input(g, "y", i64, {10}), {}, kHere);
        })
            .ends_with("\n  requires   one target for each row of logits, [2, 5], but [10]\n"
                       "  way out    nothing has to be flattened; here: targets.reshape({2, 5})"));
}

TEST_CASE("cross entropy whose rows are all ignored is not a number") {
  const at::Tensor logits = numbers_in(-5, 5, {2, 5}), none = wholes({-100, -100});
  const auto ours = [](const Values& in) {
    return cross_entropy_loss(in[0], in[1], {.label_smoothing = 0.2});
  };
  const Computed computed = by_graph(ours, {{logits, false}, {none}}, some_weights, f32);
  CHECK(std::isnan(computed.out.item<double>()));
}

TEST_CASE("without options cross entropy stays one op") {
  Graph g("plain");
  const Value x = g.input("x", f32, {7, 5}), y = g.input("y", i64, {7});
  CHECK(cross_entropy_loss(x, y).node().op->as<CrossEntropyLoss>() != nullptr);
  CHECK(cross_entropy_loss(x, y, {.ignore_index = 3}).node().op->as<CrossEntropyLoss>() != nullptr);
  CHECK(mse_loss(x, x, LossReduction::mean).node().op->as<MseLoss>() != nullptr);
}

TEST_CASE("nll_loss") {
  const at::Tensor x = at::log_softmax(numbers_in(-5, 5, {7, 5}), -1);
  const at::Tensor weight = numbers({1, 0.2, 3, 0.5, 2});
  for (const LossReduction reduction : kReductions) {
    const auto ours = [=](const Values& in) {
      return nll_loss(
          in[0], in[1],
          {.ignore_index = -1, .weight = in.size() > 2 ? in[2] : Value(), .reduction = reduction});
    };
    const auto theirs = [=](const Tensors& in) {
      return at::nll_loss(in[0], in[1], in.size() > 2 ? in[2] : at::Tensor(), to_torch(reduction),
                          -1);
    };
    CHECK(beside_libtorch(ours, theirs, {{x}, {targets()}}) == "");
    CHECK(beside_libtorch(ours, theirs, {{x}, {targets()}, {weight, false}}) == "");
  }
}

TEST_CASE("kl_div") {
  const at::Tensor x = at::log_softmax(numbers_in(-3, 3, {4, 5}), -1);
  at::Tensor target = at::softmax(numbers_in(-3, 3, {4, 5}), -1);
  for (const LossReduction reduction : kReductions) {
    for (const bool log_target : {false, true}) {
      const auto ours = [=](const Values& in) {
        return kl_div(in[0], in[1], {.log_target = log_target, .reduction = reduction});
      };
      const auto theirs = [=](const Tensors& in) {
        return at::kl_div(in[0], in[1], to_torch(reduction), log_target);
      };
      CHECK(beside_libtorch(ours, theirs, {{x}, {log_target ? target.log() : target}}) == "");
      if (log_target) continue;
      at::Tensor some = target.clone();
      some[0][0] = 0, some[3][4] = 0;
      CHECK(beside_libtorch(ours, theirs, {{x}, {some, false}}) == "");
    }
  }
}

TEST_CASE("binary_cross_entropy, at 0 and 1 too") {
  at::Tensor x = numbers_in(0, 1, {3, 4}), target = numbers_in(0, 1, {3, 4});
  const at::Tensor weight = numbers({1, 2, 0.5, 0});
  const auto check = [&](bool target_trained, Tolerance allowed) {
    for (const LossReduction reduction : kReductions) {
      const auto ours = [=](const Values& in) {
        return binary_cross_entropy(
            in[0], in[1], {.weight = in.size() > 2 ? in[2] : Value(), .reduction = reduction});
      };
      const auto theirs = [=](const Tensors& in) {
        return at::binary_cross_entropy(in[0], in[1], in.size() > 2 ? in[2] : at::Tensor(),
                                        to_torch(reduction));
      };
      CHECK(beside_libtorch(ours, theirs, {{x}, {target, target_trained}}, allowed) == "");
      CHECK(beside_libtorch(ours, theirs, {{x}, {target, false}, {weight, false}}, allowed) == "");
    }
  };
  check(true, kSums);
  x[0] = numbers({0, 1, 0, 1}), target[0] = numbers({0, 1, 1, 0});
  // libtorch divides by 1e-12 as f32 has it, in f64 too.
  check(false, {kSums.f32, 1e-8});
}

TEST_CASE("bce_with_logits_loss with weights") {
  at::Tensor x = numbers_in(-5, 5, {3, 4});
  x[0] = numbers({90, -90, 1e4, -1e4});
  const at::Tensor target = numbers_in(0, 1, {3, 4});
  const Given weight{numbers({1, 2, 0.5, 0}), false}, positive{numbers({3, 0.1, 1, 2}), false};
  for (const LossReduction reduction : kReductions) {
    const auto check = [&](bool weighed, bool by_class) {
      std::vector<Given> operands = {{x}, {target}};
      if (weighed) operands.push_back(weight);
      if (by_class) operands.push_back(positive);
      const auto ours = [=](const Values& in) {
        return bce_with_logits_loss(in[0], in[1],
                                    {.weight = weighed ? in[2] : Value(),
                                     .pos_weight = by_class ? in.back() : Value(),
                                     .reduction = reduction});
      };
      const auto theirs = [=](const Tensors& in) {
        return at::binary_cross_entropy_with_logits(in[0], in[1], weighed ? in[2] : at::Tensor(),
                                                    by_class ? in.back() : at::Tensor(),
                                                    to_torch(reduction));
      };
      return beside_libtorch(ours, theirs, operands);
    };
    CHECK(check(false, false) == "");
    CHECK(check(true, false) == "");
    CHECK(check(false, true) == "");
    CHECK(check(true, true) == "");
  }
}

TEST_CASE("sigmoid_focal_loss is torchvision's") {
  const at::Tensor x = numbers_in(-5, 5, {3, 4});
  const at::Tensor target = numbers({1, 0, 1, 0, 0, 1, 1, 1, 0, 0, 0.3, 1}).reshape({3, 4});
  for (const double gamma : {0.0, 1.5, 2.0}) {
    for (const double alpha : {0.25, -1.0}) {
      const auto ours = [=](const Values& in) {
        return sigmoid_focal_loss(in[0], in[1], {.alpha = alpha, .gamma = gamma});
      };
      const auto theirs = [=](const Tensors& in) {
        const at::Tensor p = at::sigmoid(in[0]), &t = in[1];
        const at::Tensor entropy = at::binary_cross_entropy_with_logits(in[0], t, {}, {}, 0);
        const at::Tensor loss = entropy * at::pow(1 - (p * t + (1 - p) * (1 - t)), gamma);
        return alpha >= 0 ? (alpha * t + (1 - alpha) * (1 - t)) * loss : loss;
      };
      CHECK(beside_libtorch(ours, theirs, {{x}, {target, false}}) == "");
    }
  }
  for (const LossReduction reduction : kReductions) {
    const auto ours = [=](const Values& in) {
      return sigmoid_focal_loss(in[0], in[1], {.gamma = 0, .reduction = reduction});
    };
    const auto theirs = [=](const Tensors& in) {
      const at::Tensor entropy = at::binary_cross_entropy_with_logits(in[0], in[1], {}, {}, 0);
      return reduced_tensor((0.25 * in[1] + 0.75 * (1 - in[1])) * entropy, reduction);
    };
    CHECK(beside_libtorch(ours, theirs, {{x}, {target, false}}) == "");
  }
}

TEST_CASE("what losses of classes say of wrong operands") {
  CHECK(report([](Graph& g) {
          nll_loss(input(g, "x", f32, {7, 5}), input(g, "y", i32, {7}), {}, kHere);
        }) ==
        "model.cc:30: nll_loss cannot be computed\n"
        "  operand 0  f32[7, 5]  \"x\"  model.cc:10\n"
        "  operand 1  i32[7]     \"y\"  model.cc:10\n"
        "  requires   targets of i64, but i32\n"
        "  way out    cast them: targets.cast(mt::i64)");
  CHECK(report([](Graph& g) {
          nll_loss(input(g, "x", f32, {7, 5}), input(g, "y", i64, {5}), {}, kHere);
        }) ==
        "model.cc:30: nll_loss cannot be computed\n"
        "  operand 0  f32[7, 5]  \"x\"  model.cc:10\n"
        "  operand 1  i64[5]     \"y\"  model.cc:10\n"
        "  requires   one target for each row of logits, [7], but [5]");
  CHECK(report([](Graph& g) {
          cross_entropy_loss(input(g, "x", f32, {7, 5}), input(g, "y", i64, {7}),
                             {.label_smoothing = 1.5}, kHere);
        }) ==
        "model.cc:30: cross_entropy_loss cannot be computed\n"
        "  operand 0  f32[7, 5]  \"x\"  model.cc:10\n"
        "  operand 1  i64[7]     \"y\"  model.cc:10\n"
        "  requires   a label_smoothing from 0 to 1, but 1.5");
  CHECK(report([](Graph& g) {
          const Value weight = input(g, "w", f64, {5});
          cross_entropy_loss(input(g, "x", f32, {7, 5}), input(g, "y", i64, {7}),
                             {.weight = weight}, kHere);
        }) ==
        "model.cc:30: cross_entropy_loss cannot be computed\n"
        "  operand 0  f32[7, 5]  \"x\"  model.cc:10\n"
        "  operand 1  i64[7]     \"y\"  model.cc:10\n"
        "  operand 2  f64[5]     \"w\"  model.cc:10\n"
        "  requires   a weight for each class, f32[5], but f64[5]");
  CHECK(report([](Graph& g) {
          kl_div(input(g, "x", f32, {7, 5}), input(g, "y", f32, {5}), {}, kHere);
        }) ==
        "model.cc:30: kl_div cannot be computed\n"
        "  operand 0  f32[7, 5]  \"x\"  model.cc:10\n"
        "  operand 1  f32[5]     \"y\"  model.cc:10\n"
        "  requires   equal shapes, but [7, 5] and [5]");
  CHECK(report([](Graph& g) {
          const Value weight = input(g, "w", f32, {3});
          bce_with_logits_loss(input(g, "x", f32, {7, 5}), input(g, "y", f32, {7, 5}),
                               {.pos_weight = weight}, kHere);
        }) ==
        "model.cc:30: bce_with_logits_loss cannot be computed\n"
        "  operand 0  f32[7, 5]  \"x\"  model.cc:10\n"
        "  operand 1  f32[7, 5]  \"y\"  model.cc:10\n"
        "  operand 2  f32[3]     \"w\"  model.cc:10\n"
        "  requires   pos_weight that broadcasts to [7, 5], but [3]");
  CHECK(report([](Graph& g) {
          const Value weight = input(g, "w", f64, {5});
          binary_cross_entropy(input(g, "x", f32, {7, 5}), input(g, "y", f32, {7, 5}),
                               {.weight = weight}, kHere);
        }) ==
        "model.cc:30: binary_cross_entropy cannot be computed\n"
        "  operand 0  f32[7, 5]  \"x\"  model.cc:10\n"
        "  operand 1  f32[7, 5]  \"y\"  model.cc:10\n"
        "  operand 2  f64[5]     \"w\"  model.cc:10\n"
        "  requires   weight of f32, but f64\n"
        "  way out    cast it: weight.cast(mt::f32)");
  CHECK(report([](Graph& g) {
          sigmoid_focal_loss(input(g, "x", f32, {7}), input(g, "y", f32, {7}), {.gamma = -1},
                             kHere);
        }) ==
        "model.cc:30: sigmoid_focal_loss cannot be computed\n"
        "  operand 0  f32[7]  \"x\"  model.cc:10\n"
        "  operand 1  f32[7]  \"y\"  model.cc:10\n"
        "  requires   a finite gamma of 0 or more, but -1");
  CHECK(report([](Graph& g) {
          kl_div(input(g, "x", f32, {0, 5}), input(g, "y", f32, {0, 5}), {}, kHere);
        }) ==
        "model.cc:30: kl_div cannot be computed\n"
        "  operand 0  f32[0, 5]  \"x\"  model.cc:10\n"
        "  operand 1  f32[0, 5]  \"y\"  model.cc:10\n"
        "  requires   one element or more, as the mean of none is not a number, but [0, 5]");
}

}  // namespace metronome::class_losses_test
