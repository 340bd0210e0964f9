// Convolutions: what layers make, what libtorch says of transposes and paddings, kernels on any
// number of threads, and what is said of wrong arguments and operands.

#include <ATen/ops/conv2d.h>
#include <ATen/ops/conv3d.h>
#include <ATen/ops/conv_transpose1d.h>
#include <ATen/ops/conv_transpose2d.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "executor/metronome.h"
#include "ops/convolution/convolution.h"
#include "tests/aten.h"
#include "tests/doctest.h"
#include "tests/graph/mistake_of.h"
#include "tests/ops/declared.h"
#include "tests/ops/interpreter.h"

namespace metronome::convolution_test {
namespace {

using tests::storages;

Line at(int number) { return {"images.cc", number}; }

/// The shape of a layer's result, or "" where it refuses its operand.
std::string shape_of(const Layer& layer, Shape shape) {
  Graph g("images");
  const Value y = g.input("x", f32, std::move(shape)).through(layer);
  return y.poisoned() ? "" : to_string(y.shape());
}

TEST_CASE("conv2d makes a weight and a bias, both uniform in +-1/sqrt(channels x kernel)") {
  Graph g("images");
  const Value y = g.input("x", f32, {2, 4, 9, 8}).scope("stem", conv2d(6, {2, 3}, {.groups = 2}));
  CHECK(y.type() == Type{f32, {2, 6, 8, 6}});
  CHECK(storages(g) ==
        std::vector<std::string>{"f32[6, 2, 2, 3] stem/conv2d/weight", "f32[6] stem/conv2d/bias"});
  const double bound = 1 / std::sqrt(12.0);
  for (const std::string path : {"stem/conv2d/weight", "stem/conv2d/bias"}) {
    const Init& init = g.data().storage(g.data().find_storage(path).value()).init;
    CAPTURE(path);
    CHECK(init.kind == Init::Kind::uniform);
    CHECK(init.b == doctest::Approx(bound).epsilon(1e-15));
    CHECK(init.a == -init.b);
  }
}

TEST_CASE(
    "a transposed convolution's weight begins with the channels it reads, as PyTorch's does") {
  Graph g("images");
  const Value x = g.input("x", f32, {2, 4, 5, 5});
  const Value y = x.through(conv_transpose2d(6, 3, {.groups = 2}));
  CHECK(y.type() == Type{f32, {2, 6, 7, 7}});
  CHECK(storages(g) == std::vector<std::string>{"f32[4, 3, 3, 3] conv_transpose2d/weight",
                                                "f32[6] conv_transpose2d/bias"});
  const Init& init = g.data().storage(g.data().find_storage("conv_transpose2d/bias").value()).init;
  CHECK(init.b == doctest::Approx(1 / std::sqrt(27.0)).epsilon(1e-15));
}

TEST_CASE("layers without a bias, in one and three dimensions, in f64") {
  Graph g("images");
  g.input("x", f64, {2, 3, 7}).through(conv1d(4, 3, {.bias = false}));
  g.input("z", f64, {2, 3, 4, 5, 6}).through(conv_transpose3d(2, 2, {.bias = false}));
  CHECK(storages(g) == std::vector<std::string>{"f64[4, 3, 3] conv1d/weight",
                                                "f64[3, 2, 2, 2, 2] conv_transpose3d/weight"});
}

TEST_CASE("sizes follow stride, padding and dilation, one number for all or one for each") {
  const Shape x = {2, 3, 10, 11};
  CHECK(shape_of(conv2d(5, 3), x) == "[2, 5, 8, 9]");
  CHECK(shape_of(conv2d(5, 3, {.padding = 1}), x) == "[2, 5, 10, 11]");
  CHECK(shape_of(conv2d(5, 4, {.stride = 2, .padding = 1}), x) == "[2, 5, 5, 5]");
  CHECK(shape_of(conv2d(5, {3, 2}, {.stride = {2, 1}, .padding = {0, 1}}), x) == "[2, 5, 4, 12]");
  CHECK(shape_of(conv2d(5, 3, {.dilation = {2, 3}}), x) == "[2, 5, 6, 5]");
  CHECK(shape_of(conv2d(5, {4, 3}, {.padding = same, .dilation = 2}), x) == "[2, 5, 10, 11]");
  CHECK(shape_of(conv_transpose2d(5, 4, {.stride = 2, .padding = 1}), x) == "[2, 5, 20, 22]");
  CHECK(shape_of(conv_transpose2d(5, 3, {.stride = 2, .output_padding = 1}), x) ==
        "[2, 5, 22, 24]");
  CHECK(shape_of(conv1d(5, 3), {2, 3, 10}) == "[2, 5, 8]");
  CHECK(shape_of(conv3d(5, {1, 2, 3}), {2, 3, 4, 5, 6}) == "[2, 5, 4, 4, 4]");
  CHECK(shape_of(conv_transpose1d(5, 3), {2, 3, 10}) == "[2, 5, 12]");
}

/// Computes one expression of x and its weight by a plan.
at::Tensor run(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
               const std::function<Value(Value, Value, Value)>& expression) {
  Graph g("images");
  const auto input = [&](const char* name, const at::Tensor& t) {
    return g.input(name, f64, t.sizes().vec());
  };
  g.output("y", expression(input("x", x), input("weight", weight), input("bias", bias)));
  Executable step = compile(g, cpu_replay(), {.modes = {evaluate}, .tune = Tune::off});
  step.evaluate({{"x", x}, {"weight", weight}, {"bias", bias}});
  return step.read("y").clone();
}

at::Tensor numbers(std::vector<std::int64_t> sizes) {
  at::Tensor result = at::empty(sizes, at::kDouble);
  return result.copy_(at::sin(at::arange(result.numel(), at::kDouble) * 1.7).view(sizes));
}

TEST_CASE("transposed convolutions of every output padding are libtorch's") {
  const at::Tensor x = numbers({2, 4, 5, 6}), weight = numbers({4, 3, 3, 2}), bias = numbers({6});
  for (const std::int64_t stride : {1, 2, 3}) {
    for (const std::int64_t dilation : {1, 2, 3}) {
      for (std::int64_t more = 0; more < std::max(stride, dilation); ++more) {
        for (const std::int64_t padding : {0, 1}) {
          INFO(stride, " ", dilation, " ", more, " ", padding);
          const at::Tensor y = run(x, weight, bias, [&](Value a, Value w, Value b) {
            return conv_transpose2d(a, w, b,
                                    {.stride = stride,
                                     .padding = padding,
                                     .output_padding = more,
                                     .dilation = dilation,
                                     .groups = 2});
          });
          const at::Tensor expected =
              at::conv_transpose2d(x, weight, bias, {stride, stride}, {padding, padding},
                                   {more, more}, 2, {dilation, dilation});
          CHECK(y.sizes() == expected.sizes());
          CHECK(at::allclose(y, expected, 1e-12, 1e-12));
        }
      }
    }
  }
}

TEST_CASE("convolutions of values are libtorch's, the padding `same` too") {
  const at::Tensor x = numbers({2, 4, 7, 6}), weight = numbers({6, 2, 4, 3}), bias = numbers({6});
  const at::Tensor y = run(x, weight, bias, [](Value a, Value w, Value b) {
    return conv2d(a, w, b, {.padding = same, .dilation = {1, 2}, .groups = 2});
  });
  CHECK(at::allclose(y, at::conv2d(x, weight, bias, {1, 1}, "same", {1, 2}, 2), 1e-12, 1e-12));
  const at::Tensor z = run(x, weight, bias, [](Value a, Value w, Value) {
    return conv2d(a, w, {.stride = {2, 1}, .padding = {1, 2}, .groups = 2});
  });
  CHECK(at::allclose(z, at::conv2d(x, weight, {}, {2, 1}, {1, 2}, {1, 1}, 2), 1e-12, 1e-12));
  const at::Tensor t = numbers({2, 3, 8}), w1 = numbers({3, 5, 3});
  const at::Tensor one = run(
      t, w1, bias, [](Value a, Value w, Value) { return conv_transpose1d(a, w, {.stride = 2}); });
  CHECK(at::allclose(one, at::conv_transpose1d(t, w1, {}, {2}), 1e-12, 1e-12));
  const at::Tensor v = numbers({1, 2, 4, 5, 6}), w3 = numbers({3, 2, 2, 3, 1}), b3 = numbers({3});
  const at::Tensor three = run(
      v, w3, b3, [](Value a, Value w, Value b) { return conv3d(a, w, b, {.padding = {1, 0, 0}}); });
  CHECK(at::allclose(three, at::conv3d(v, w3, b3, {1, 1, 1}, {1, 0, 0}), 1e-12, 1e-12));
}

/// The bits that an own kernel leaves.
std::vector<std::byte> bits_of(const Op& op, const Types& in, const Candidate& choice,
                               const std::function<void(std::vector<at::Tensor>&)>& change = {}) {
  const Types out = op.infer(in);
  std::vector<at::Tensor> operands;
  for (const Type& type : in) {
    operands.push_back(numbers(type.shape).to(to_torch(type.element)));
  }
  if (change) change(operands);
  std::vector<void*> in_data;
  for (const at::Tensor& operand : operands) in_data.push_back(operand.data_ptr());
  std::vector<std::byte> result(out[0].bytes());
  CHECK(launch_kernel(op, in, out, in_data, {result.data()}, choice));
  return result;
}

template <class Op>
void check_threads() {
  int checked = 0;
  for (const Case& c : Op::cases()) {
    for (const Element element : {f32, f64}) {
      Types in;
      for (const CaseInput& input : c.inputs) in.push_back({element, input.type.shape});
      const Types out = c.op->infer(in);
      const std::vector<Candidate> one = kernels_of(*c.op, in, out, 1);
      const std::vector<Candidate> four = kernels_of(*c.op, in, out, 4);
      REQUIRE(one.size() == four.size());
      for (std::size_t i = 0; i < one.size(); ++i) {
        if (one[i].maker != Maker::own || four[i].threads == 1) continue;
        INFO(c.name, ", kernel ", name_of(one[i]));
        const bool same_bits = bits_of(*c.op, in, one[i]) == bits_of(*c.op, in, four[i]);
        CHECK(same_bits);
        ++checked;
      }
    }
  }
  CHECK(checked > 10);
}

TEST_CASE("the bits of own kernels do not depend on the number of threads") {
  check_threads<Convolution>();
  check_threads<TransposedConvolution>();
  check_threads<ConvolutionWeightGrad>();
}

/// By element of the result: 0 for a finite one, 1 for an infinity, 2 for a NaN.
std::vector<int> kinds_of(const Op& op, const Types& in, const Candidate& choice, float number) {
  const std::vector<std::byte> bytes =
      bits_of(op, in, choice, [&](std::vector<at::Tensor>& operands) {
        for (at::Tensor& operand : operands) {
          float* const at = operand.data_ptr<float>();
          for (std::int64_t i = 0; i < operand.numel(); ++i) at[i] = 0.5f + std::abs(at[i]);
        }
        operands[0].data_ptr<float>()[operands[0].numel() / 2] = number;
      });
  std::vector<float> numbers(bytes.size() / sizeof(float));
  std::memcpy(numbers.data(), bytes.data(), bytes.size());
  std::vector<int> kinds;
  for (const float x : numbers) kinds.push_back(std::isnan(x) ? 2 : std::isinf(x) ? 1 : 0);
  return kinds;
}

void check_not_finite(const ConvolutionWindow& window, const Shape& x, const Shape& weight) {
  const Shape y = Convolution{window}.infer(Types{{f32, x}, {f32, weight}})[0].shape;
  const std::pair<OpPtr, Types> tasks[] = {
      {make_op(Convolution{window}), {{f32, x}, {f32, weight}}},
      {make_op(TransposedConvolution{window}), {{f32, y}, {f32, weight}}},
      {make_op(ConvolutionWeightGrad{window}), {{f32, x}, {f32, y}}}};
  constexpr float kLargest = std::numeric_limits<float>::max();  // times 2 or more it is infinite
  for (const auto& [op, in] : tasks) {
    const std::vector<Candidate> candidates = kernels_of(*op, in, op->infer(in), 2);
    CHECK(name_of(candidates.back()) == "own 3");
    for (const float number : {std::numeric_limits<float>::infinity(), -kLargest,
                               std::numeric_limits<float>::quiet_NaN()}) {
      const std::vector<int> expected = kinds_of(*op, in, candidates[0], number);
      CHECK(std::ranges::count(expected, 0) > 0);
      CHECK(std::ranges::count(expected, 0) < std::ssize(expected));
      for (const Candidate& candidate : candidates) {
        INFO(op->name(), ", kernel ", name_of(candidate), ", ", number);
        const bool same = kinds_of(*op, in, candidate, number) == expected;
        CHECK(same);
      }
    }
  }
}

TEST_CASE("what is not finite reaches the elements that read it, and no others, by each kernel") {
  check_not_finite({{1, 1}, {1, 1}, {1, 1}, {1, 1}}, {2, 17, 9, 11}, {18, 17, 3, 3});
  check_not_finite({{2, 2}, {1, 1}, {1, 1}, {1, 1}}, {2, 17, 10, 12}, {18, 17, 4, 4});
}

TEST_CASE("large f32 convolutions are oneDNN's, all others our own") {
  const auto makers = [](Element element, Shape x, Shape weight) {
    const Convolution op{plain_window(2)};
    const Types in = {{element, std::move(x)}, {element, std::move(weight)}};
    std::string names;
    for (const Candidate& c : kernels_of(*make_op(op), in, op.infer(in), 2)) {
      names += name_of(c) + ", ";
    }
    return names;
  };
  CHECK(makers(f32, {16, 32, 20, 20}, {32, 32, 3, 3}).starts_with("onednn, "));
  CHECK(makers(f32, {16, 32, 20, 20}, {32, 32, 3, 3}).ends_with("own 1, own 3, "));
  CHECK(makers(f64, {16, 32, 20, 20}, {32, 32, 3, 3}) == "own 1, ");
  CHECK(makers(f32, {2, 8, 8, 8}, {8, 8, 3, 3}) == "own 2, own 1, ");
  CHECK(makers(f32, {2, 3, 8, 8}, {8, 3, 3, 3}) == "own, own 2, own 1, ");
}

std::string mistake_of(const std::function<Value(Graph&)>& declare) {
  Graph g("images");
  CHECK(declare(g).poisoned());
  CHECK(storages(g).empty());
  return testing::mistake_of(g);
}

std::string mistake_of(const Layer& layer, Shape shape, Element element = f32) {
  return mistake_of([&](Graph& g) {
    return g.input("x", element, std::move(shape), at(1)).through(layer, at(2));
  });
}

/// Returns what a layer requires of an operand [2, 4, 5, 5], behind "requires".
std::string required(const Layer& layer) {
  const std::string all = mistake_of(layer, {2, 4, 5, 5}), word = "  requires   ";
  return all.substr(all.find(word) + word.size());
}

TEST_CASE("a layer on an operand of another rank or element type") {
  CHECK(mistake_of(conv2d(8, 3), {2, 4, 5}) ==
        "images.cc:2: conv2d cannot be applied\n"
        "  operand 0  f32[2, 4, 5]  \"x\"  images.cc:1\n"
        "  requires   an operand [N, C, spatial...] of 2 spatial dimensions, but [2, 4, 5]");
  CHECK(mistake_of(conv_transpose1d(8, 3), {2, 4}) ==
        "images.cc:2: conv_transpose1d cannot be applied\n"
        "  operand 0  f32[2, 4]  \"x\"  images.cc:1\n"
        "  requires   an operand [N, C, spatial...] of 1 spatial dimension, but [2, 4]");
  CHECK(mistake_of(conv2d(8, 3), {2, 4, 5, 5}, i32) ==
        "images.cc:2: conv2d cannot be applied\n"
        "  operand 0  i32[2, 4, 5, 5]  \"x\"  images.cc:1\n"
        "  requires   a floating element type, but i32\n"
        "  way out    cast it: x.cast(mt::f32)");
  CHECK(mistake_of(conv2d(8, 1), {2, 4, 0, 5}) ==
        "images.cc:2: conv2d cannot be applied\n"
        "  operand 0  f32[2, 4, 0, 5]  \"x\"  images.cc:1\n"
        "  requires   an operand that is empty in its batch alone, but [2, 4, 0, 5]");
}

TEST_CASE("a layer with wrong numbers") {
  CHECK(required(conv2d(0, 3)) == "a number of outputs of 1 or more, but 0");
  CHECK(required(conv2d(8, {3, 0})) == "a kernel of 1 or more, but [3, 0]");
  CHECK(required(conv2d(8, {3, 3, 3})) ==
        "one number as kernel, or one for each of 2 spatial dimensions, but [3, 3, 3]");
  CHECK(required(conv2d(8, 3, {.stride = 0})) == "a stride of 1 or more, but [0, 0]");
  CHECK(required(conv2d(8, 3, {.padding = {1, -1}})) == "a padding of 0 or more, but [1, -1]");
  CHECK(required(conv2d(8, 3, {.dilation = 0})) == "a dilation of 1 or more, but [0, 0]");
  CHECK(required(conv2d(8, 3, {.groups = 0})) == "groups of 1 or more, but 0");
  CHECK(required(conv2d(9, 3, {.groups = 2})) ==
        "a number of outputs that the groups divide, but 9 in 2 groups");
  CHECK(required(conv2d(9, 3, {.groups = 3})) ==
        "a number of channels that the groups divide, but 4 in 3 groups");
  CHECK(required(conv2d(8, 3, {.stride = 2, .padding = same})) ==
        "a stride of 1 for the padding `same`, but [2, 2]\n"
        "  way out    give the padding in numbers");
  CHECK(required(conv2d(8, 3, {.padding = std::int64_t{1} << 31})) ==
        "a padding of -2147483647 to 2147483647, but [2147483648, 2147483648]");
  CHECK(required(conv2d(std::int64_t{1} << 62, 3)) ==
        "a value of at most 128 TiB, 140737488355328 bytes, but f32[4611686018427387904, 4, 3, 3] "
        "takes 6.64e+20");
}

TEST_CASE("a kernel that is larger than its input, and a padding that leaves nothing") {
  CHECK(required(conv2d(8, {3, 6})) ==
        "a kernel no larger than the padded input, but it spans [3, 6] elements of [5, 5]");
  CHECK(required(conv2d(8, 3, {.padding = {1, 0}, .dilation = {2, 3}})) ==
        "a kernel no larger than the padded input, but it spans [5, 7] elements of [7, 5]");
  CHECK(required(conv_transpose2d(8, 3, {.padding = {0, 4}})) ==
        "a padding that leaves an element of the result, but it cuts [0, 8] elements of [7, 7]");
  CHECK(required(conv_transpose2d(8, 3, {.stride = 2, .output_padding = {0, 2}})) ==
        "an output padding below the stride or the dilation, but [0, 2] of stride [2, 2] and "
        "dilation [1, 1]");
}

TEST_CASE("functions on operands that do not fit") {
  const auto conv = [](Shape weight, Shape bias, ConvArguments arguments) {
    return mistake_of([&](Graph& g) {
      const Value x = g.input("x", f32, {2, 4, 5, 5}, at(1));
      const Value w = g.input("w", f32, weight, at(2)), b = g.input("b", f32, bias, at(3));
      return conv2d(x, w, b, arguments, at(4));
    });
  };
  CHECK(conv({8, 3, 3, 3}, {8}, {}) ==
        "images.cc:4: convolution cannot join the graph as \"convolution\"\n"
        "  operand 0  f32[2, 4, 5, 5]  \"x\"  images.cc:1\n"
        "  operand 1  f32[8, 3, 3, 3]  \"w\"  images.cc:2\n"
        "  operand 2  f32[8]           \"b\"  images.cc:3\n"
        "  requires   as many channels as the weight reads, 3 in each of 1 group, but 4");
  const auto required = [](const std::string& all) {
    const std::string word = "  requires   ";
    return all.substr(all.find(word) + word.size());
  };
  CHECK(required(conv({8, 4, 3}, {8}, {})) ==
        "a weight of as many dimensions as the operand, 4, but [8, 4, 3]");
  CHECK(required(conv({8, 0, 3, 3}, {8}, {})) ==
        "a weight of one element or more, but [8, 0, 3, 3]");
  CHECK(required(conv({9, 2, 3, 3}, {9}, {.groups = 2})) ==
        "outputs that the groups divide, but 9 in 2 groups");
  CHECK(required(conv({8, 4, 3, 3}, {7}, {})) == "a bias of shape [8], but [7]");
  CHECK(required(conv({8, 4, 3, 3}, {8}, {.stride = {1, 2, 3}})) ==
        "one number as stride, or one for each of 2 spatial dimensions, but [1, 2, 3]");
}

}  // namespace
}  // namespace metronome::convolution_test
