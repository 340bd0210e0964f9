// Functions that are formulas of others beside libtorch's, and what they say of wrong operands.
#include "ops/language/derived.h"

#include <ATen/ops/ceil.h>
#include <ATen/ops/cosine_similarity.h>
#include <ATen/ops/floor.h>
#include <ATen/ops/floor_divide.h>
#include <ATen/ops/fmod.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/logsumexp.h>
#include <ATen/ops/norm.h>
#include <ATen/ops/one_hot.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/remainder.h>
#include <ATen/ops/round.h>
#include <ATen/ops/std.h>
#include <ATen/ops/tril.h>
#include <ATen/ops/triu.h>
#include <ATen/ops/trunc.h>
#include <ATen/ops/var.h>
#include <ATen/ops/zeros_like.h>

#include <limits>

#include "graph/ir/error.h"
#include "tests/doctest.h"
#include "tests/ops/beside_libtorch.h"

namespace metronome::derived_test {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

/// Both signs, whole and broken quotients, zero, infinities: all pairs.
std::vector<Given> pairs(bool trained) {
  const std::vector<double> all = {0,    1, -1,   2.5,   -2.5,      3,          -3,  0.1,
                                   -7.5, 8, 1e10, -1e10, kInfinity, -kInfinity, kNan};
  at::Tensor x = at::empty({15, 15}, at::TensorOptions(at::kDouble)), y = x.clone();
  for (std::size_t i = 0; i < all.size(); ++i) {
    x[static_cast<std::int64_t>(i)] = numbers(all);
    y[static_cast<std::int64_t>(i)] = all[i];
  }
  return {{x, trained}, {y, trained}};
}

const OfValues kRemainder = [](const Values& in) { return remainder(in[0], in[1]); };

}  // namespace

TEST_CASE("fmod, remainder, floor_divide of all pairs of edge values") {
  CHECK(beside_libtorch([](const Values& in) { return fmod(in[0], in[1]); },
                        [](const Tensors& in) { return at::fmod(in[0], in[1]); }, pairs(false),
                        kElementwise) == "");
  CHECK(beside_libtorch(
            kRemainder, [](const Tensors& in) { return at::remainder(in[0], in[1]); }, pairs(false),
            kElementwise) == "");
  CHECK(beside_libtorch([](const Values& in) { return floor_divide(in[0], in[1]); },
                        [](const Tensors& in) { return at::floor_divide(in[0], in[1]); },
                        pairs(false), kElementwise) == "");
}

TEST_CASE("fmod and remainder have libtorch's gradients, with numbers for operands too") {
  const std::vector<Given> operands = {{numbers_in(-9, 9, {40})}, {numbers_in(0.5, 4, {40})}};
  CHECK(beside_libtorch([](const Values& in) { return fmod(in[0], in[1]); },
                        [](const Tensors& in) { return at::fmod(in[0], in[1]); }, operands) == "");
  CHECK(beside_libtorch(
            kRemainder, [](const Tensors& in) { return at::remainder(in[0], in[1]); }, operands) ==
        "");
  CHECK(beside_libtorch([](const Values& in) { return remainder(in[0], in[1]); },
                        [](const Tensors& in) { return at::remainder(in[0], in[1]); },
                        {operands[0], {-operands[1].tensor}}) == "");
  for (const double y : {2.5, -2.5}) {
    CHECK(beside_libtorch([=](const Values& in) { return remainder(in[0], y); },
                          [=](const Tensors& in) { return at::remainder(in[0], y); },
                          {operands[0]}) == "");
    CHECK(beside_libtorch([=](const Values& in) { return floor_divide(in[0], y); },
                          [=](const Tensors& in) { return at::floor_divide(in[0], y); },
                          {{operands[0].tensor, false}}) == "");
  }
  CHECK(beside_libtorch([](const Values& in) { return floor_divide(in[0], 0.0); },
                        [](const Tensors& in) { return in[0] / 0; },
                        {{operands[0].tensor, false}}) == "");
}

TEST_CASE("no gradient flows through rounding") {
  const at::Tensor x = numbers({-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 0.3, -7, 1e10, kInfinity});
  CHECK(
      beside_libtorch([](const Values& in) { return in[0] + floor(in[0]) + ceil(in[0]); },
                      [](const Tensors& in) { return in[0] + at::floor(in[0]) + at::ceil(in[0]); },
                      {{x}}) == "");
  CHECK(
      beside_libtorch([](const Values& in) { return in[0] * round(in[0]) + trunc(in[0]); },
                      [](const Tensors& in) { return in[0] * at::round(in[0]) + at::trunc(in[0]); },
                      {{x}}) == "");
}

TEST_CASE("logsumexp neither overflows nor loses infinities") {
  const at::Tensor x = numbers_in(-3, 3, {4, 3, 5});
  const auto ours = [](Axes axes, bool keep) {
    return [=](const Values& in) { return logsumexp(in[0], axes, keep); };
  };
  const auto theirs = [](std::vector<std::int64_t> axes, bool keep) {
    return [=](const Tensors& in) { return at::logsumexp(in[0], axes, keep); };
  };
  CHECK(beside_libtorch(ours(1, false), theirs({1}, false), {{x}}) == "");
  CHECK(beside_libtorch(ours({0, 2}, true), theirs({0, 2}, true), {{x}}) == "");
  CHECK(beside_libtorch(ours({}, false), theirs({0, 1, 2}, false), {{x}}) == "");
  const at::Tensor large = numbers({1000, 999, -1000, 1e30, 0, -1e30, -1e4, -1e4, -1e4});
  // libtorch's gradient is exp(x - result), with a result near -1e4 that its type has rounded: in
  // f64 by 0.9e-12 at most.
  CHECK(beside_libtorch(ours(-1, false), theirs({-1}, false), {{large.reshape({3, 3})}},
                        {1e-4, 1e-12}) == "");
  const at::Tensor ends = numbers({kInfinity, 1, -kInfinity, 2, -kInfinity, -kInfinity, kNan, 0});
  CHECK(beside_libtorch(ours(-1, false), theirs({-1}, false), {{ends.reshape({4, 2}), false}}) ==
        "");
}

TEST_CASE("variance and deviation, with and without correction") {
  const at::Tensor x = numbers_in(-3, 3, {4, 3, 5}) + 10;
  for (const double correction : {1.0, 0.0, 2.0}) {
    for (const bool keep : {false, true}) {
      const VarOptions options{.correction = correction, .keep = keep};
      const std::vector<std::int64_t> axes = {0, 2};
      CHECK(beside_libtorch([=](const Values& in) { return var(in[0], axes, options); },
                            [=](const Tensors& in) {
                              return at::var(in[0], axes, at::Scalar(correction), keep);
                            },
                            {{x}}) == "");
      CHECK(beside_libtorch([=](const Values& in) { return stddev(in[0], axes, options); },
                            [=](const Tensors& in) {
                              return at::std(in[0], axes, at::Scalar(correction), keep);
                            },
                            {{x}}) == "");
    }
  }
  CHECK(beside_libtorch([](const Values& in) { return var(in[0]); },
                        [](const Tensors& in) { return at::var(in[0]); }, {{x}}) == "");
  CHECK(beside_libtorch([](const Values& in) { return stddev(in[0], 0); },
                        [](const Tensors& in) {
                          return at::std(in[0], at::IntArrayRef{0}, at::Scalar(1), false);
                        },
                        {{at::ones({3, 2}, at::TensorOptions(at::kDouble))}}) == "");
}

TEST_CASE("norms of several orders, flat at 0") {
  at::Tensor x = numbers_in(-3, 3, {4, 3, 5});
  x[1] = 0;
  for (const double p : {1.0, 1.5, 2.0, 3.0, kInfinity}) {
    CAPTURE(p);
    for (const bool keep : {false, true}) {
      CHECK(beside_libtorch([=](const Values& in) { return norm(in[0], p, -1, keep); },
                            [=](const Tensors& in) { return at::norm(in[0], p, {-1}, keep); },
                            {{x}}) == "");
    }
    CHECK(beside_libtorch([=](const Values& in) { return normalize(in[0], 1, {.p = p}); },
                          [=](const Tensors& in) {
                            const at::Tensor size = at::norm(in[0], p, {1}, true);
                            return in[0] / size.clamp_min(1e-12).expand_as(in[0]);
                          },
                          {{x}}) == "");
  }
  CHECK(beside_libtorch([](const Values& in) { return norm(in[0]); },
                        [](const Tensors& in) { return at::norm(in[0]); }, {{x}}) == "");
}

TEST_CASE("cosine_similarity") {
  at::Tensor a = numbers_in(-3, 3, {4, 3, 5}), b = numbers_in(-3, 3, {4, 3, 5});
  for (const std::int64_t axis : {0, 1, -1}) {
    CHECK(beside_libtorch(
              [=](const Values& in) { return cosine_similarity(in[0], in[1], axis); },
              [=](const Tensors& in) { return at::cosine_similarity(in[0], in[1], axis); },
              {{a}, {b}}) == "");
  }
  a[0] = 0;
  CHECK(beside_libtorch([](const Values& in) { return cosine_similarity(in[0], in[1], 2); },
                        [](const Tensors& in) { return at::cosine_similarity(in[0], in[1], 2); },
                        {{a, false}, {b, false}}) == "");
}

TEST_CASE("one_hot") {
  const at::Tensor index = wholes({0, 4, 2, 1, 3, 3}).reshape({2, 3});
  CHECK(beside_libtorch([](const Values& in) { return one_hot(in[0], 5); },
                        [](const Tensors& in) { return at::one_hot(in[0], 5); }, {{index}}) == "");
  CHECK(beside_libtorch([](const Values& in) { return one_hot(in[0], 5, bool_); },
                        [](const Tensors& in) { return at::one_hot(in[0], 5).to(at::kBool); },
                        {{index}}) == "");
  const Computed outside = by_graph([](const Values& in) { return one_hot(in[0], 2, f32); },
                                    {{wholes({-1, 2})}}, some_weights, f32);
  CHECK(outside.out.abs().sum().item<double>() == 0);
}

TEST_CASE("triangles") {
  at::Tensor x = numbers_in(-3, 3, {2, 4, 6});
  x[0][0][5] = kNan, x[0][3][0] = kInfinity;
  for (const std::int64_t diagonal : {-5, -3, -1, 0, 1, 2, 7}) {
    CHECK(beside_libtorch([=](const Values& in) { return tril(in[0], diagonal); },
                          [=](const Tensors& in) { return at::tril(in[0], diagonal); },
                          {{x}}) == "");
    CHECK(beside_libtorch([=](const Values& in) { return triu(in[0], diagonal); },
                          [=](const Tensors& in) { return at::triu(in[0], diagonal); },
                          {{x}}) == "");
  }
  const at::Tensor whole = wholes({1, 2, 3, 4}).reshape({2, 2});
  CHECK(beside_libtorch([](const Values& in) { return tril(in[0]); },
                        [](const Tensors& in) { return at::tril(in[0]); }, {{whole}}) == "");
}

TEST_CASE("constants like a value, to which no gradient flows") {
  const std::vector<std::pair<OfValues, OfTensors>> rows = {
      {[](const Values& in) { return zeros_like(in[0]); },
       [](const Tensors& in) { return at::zeros_like(in[0]); }},
      {[](const Values& in) { return ones_like(in[0]); },
       [](const Tensors& in) { return at::ones_like(in[0]); }},
      {[](const Values& in) { return full_like(in[0], 7); },
       [](const Tensors& in) { return at::full_like(in[0], 7); }},
  };
  for (const auto& [ours, theirs] : rows) {
    CHECK(beside_libtorch(ours, theirs, {{numbers_in(-3, 3, {2, 3}), false}}) == "");
    CHECK(beside_libtorch(ours, theirs, {{wholes({1, 2, 3, 4})}}) == "");
    // A product has the gradient of its other factor alone.
    CHECK(beside_libtorch([&](const Values& in) { return in[0] * ours(in); },
                          [&](const Tensors& in) { return in[0] * theirs(in); },
                          {{numbers_in(-3, 3, {2, 3})}}) == "");
  }
  Graph masks("masks");
  CHECK(ones_like(masks.input("mask", bool_, {3})).type() == Type{bool_, {3}});
  CHECK(report([](Graph& g) { full_like(input(g, "x", i64, {3}), 0.5, kHere); }) ==
        "model.cc:30: constant cannot be made\n"
        "  requires   a whole number that i64 can hold, but 0.5");
}

TEST_CASE("series are numbers") {
  using Numbers = std::vector<double>;
  CHECK(arange(0, 4) == Numbers{0, 1, 2, 3});
  CHECK(arange(1, 2, 0.25) == Numbers{1, 1.25, 1.5, 1.75});
  CHECK(arange(3, 0, -2) == Numbers{3, 1});
  CHECK(arange(2, 2).empty());
  CHECK(linspace(0, 1, 5) == Numbers{0, 0.25, 0.5, 0.75, 1});
  CHECK(linspace(2, 7, 1) == Numbers{2});
  CHECK(linspace(0, 0.3, 4).back() == 0.3);
  CHECK_THROWS_WITH_AS(arange(0, 4, -1, kHere),
                       "model.cc:30: arange cannot be made\n"
                       "  requires   a step that leads from 0 to 4, but -1",
                       GraphError);
  CHECK_THROWS_WITH_AS(arange(0, kInfinity, 1, kHere),
                       "model.cc:30: arange cannot be made\n"
                       "  requires   a finite end, but inf",
                       GraphError);
  CHECK_THROWS_WITH_AS(linspace(0, 4, 0, kHere),
                       "model.cc:30: linspace cannot be made\n"
                       "  requires   1 step or more, but 0",
                       GraphError);
}

TEST_CASE("what derived functions say of wrong operands") {
  CHECK(report([](Graph& g) { logsumexp(input(g, "x", f32, {4, 3}), 2, false, kHere); }) ==
        "model.cc:30: logsumexp cannot be computed\n"
        "  operand 0  f32[4, 3]  \"x\"  model.cc:10\n"
        "  requires   an axis from -2 to 1, but 2");
  CHECK(report([](Graph& g) { var(input(g, "x", f32, {4, 1}), 1, {}, kHere); }) ==
        "model.cc:30: var cannot be computed\n"
        "  operand 0  f32[4, 1]  \"x\"  model.cc:10\n"
        "  requires   more elements than the correction, 1, but 1");
  CHECK(report([](Graph& g) { stddev(input(g, "x", f32, {4, 2}), {1, -1}, {}, kHere); }) ==
        "model.cc:30: stddev cannot be computed\n"
        "  operand 0  f32[4, 2]  \"x\"  model.cc:10\n"
        "  requires   each axis once, but [1, -1]");
  CHECK(report([](Graph& g) { norm(input(g, "x", f32, {4}), 0.5, 0, false, kHere); }) ==
        "model.cc:30: norm cannot be computed\n"
        "  operand 0  f32[4]  \"x\"  model.cc:10\n"
        "  requires   a p of 1 or more, but 0.5");
  CHECK(report([](Graph& g) { normalize(input(g, "x", f32, {4}), 0, {.eps = 0}, kHere); }) ==
        "model.cc:30: normalize cannot be computed\n"
        "  operand 0  f32[4]  \"x\"  model.cc:10\n"
        "  requires   a finite eps above 0, but 0");
  CHECK(report([](Graph& g) { one_hot(input(g, "x", f32, {4}), 3, i64, kHere); }) ==
        "model.cc:30: one_hot cannot be computed\n"
        "  operand 0  f32[4]  \"x\"  model.cc:10\n"
        "  requires   an index of i32 or i64, but f32\n"
        "  way out    cast it: index.cast(mt::i64)");
  CHECK(report([](Graph& g) { one_hot(input(g, "x", i64, {4}), 0, i64, kHere); }) ==
        "model.cc:30: one_hot cannot be computed\n"
        "  operand 0  i64[4]  \"x\"  model.cc:10\n"
        "  requires   1 class or more, but 0");
  CHECK(report([](Graph& g) { tril(input(g, "x", f32, {4}), 0, kHere); }) ==
        "model.cc:30: tril cannot be computed\n"
        "  operand 0  f32[4]  \"x\"  model.cc:10\n"
        "  requires   two dimensions or more, but [4]");
  CHECK(report([](Graph& g) {
          remainder(Operand(input(g, "x", i64, {4}), kHere), Operand(3, kHere));
        }) ==
        "model.cc:30: fmod cannot join the graph as \"fmod\"\n"
        "  operand 0  i64[4]  \"x\"         model.cc:10\n"
        "  operand 1  i64[]   \"constant\"  model.cc:30\n"
        "  requires   a floating element type, but i64\n"
        "  way out    cast it: x.cast(mt::f32)");
}

}  // namespace metronome::derived_test
