// Feeds, storages and results as the caller's own numbers, without a tensor of libtorch.
#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "executor/metronome.h"
#include "graph/ir/error.h"
#include "tests/doctest.h"
#include "tests/error_of.h"
#include "tests/executor/targets.h"

namespace metronome::spans_test {
namespace {

using tests::error_of;
using tests::plain_options;
using tests::targets;

/// y = w x, and what y picks.
struct Scaled {
  Graph g{"scaled"};
  Value x = g.input("x", f32, {2, 3}), at = g.input("at", i64, {2});
  Value y = x * g.parameter("w", {f32, {3}}, ones());
  Scaled() {
    g.output("y", y);
    g.output("picked", index_select(y, 0, at));
  }
};

std::vector<float> read(const Executable& step, const char* name) {
  const Tensor tensor = step.read_tensor(name);
  const auto numbers = to_span<float>(tensor);
  return {numbers.begin(), numbers.end()};
}

TEST_CASE("spans are fed, read, got and set") {
  const Scaled scaled;
  for (const Target& target : targets()) {
    Executable step = compile(scaled.g, target, plain_options());
    const std::array<float, 3> weight = {1, 2, -1};
    step.set("w", from_span(weight, {3}));
    std::vector<float> x = {1, 2, 3, 4, 5, 6};
    const std::vector<std::int64_t> at = {1, 0};
    step.run({{scaled.x, from_span(x, {2, 3})}, {"at", from_span(at, {2})}});
    x.assign(6, 0);  // it was copied
    CHECK(read(step, "y") == std::vector<float>{1, 4, -3, 4, 10, -6});
    CHECK(read(step, "picked") == std::vector<float>{4, 10, -6, 1, 4, -3});
    const Tensor w = step.get_tensor("w");
    CHECK(to_span<float>(w)[1] == 2);
    CHECK(to_span<float>(step.read_tensor(scaled.y)).size() == 6);
  }
}

TEST_CASE("a tensor with strides shows a part of the caller's numbers") {
  const Scaled scaled;
  Executable step = compile(scaled.g, cpu_replay(), plain_options());
  std::vector<float> columns = {1, 4, 2, 5, 3, 6};
  Tensor x = from_span(columns, {2, 3});
  x.strides = {1, 2};
  const std::vector<std::int64_t> at = {0, 0};
  step.run({{"x", x}, {"at", from_span(at, {2})}});
  CHECK(read(step, "y") == std::vector<float>{1, 2, 3, 4, 5, 6});
}

TEST_CASE("wrong spans") {
  const Scaled scaled;
  Executable step = compile(scaled.g, cpu_replay(), plain_options());
  std::vector<float> five(5);
  std::vector<double> six(6);
  const auto run = [&](const Tensor& x) {
    return error_of<RunError>([&] { step.run({{"x", x}}); });
  };
  CHECK(error_of<RunError>([&] { from_span(five, {2, 3}); }) ==
        "a tensor f32[2, 3] has 6 numbers, but 5 are given");
  CHECK(run(from_span(five, {5})) ==
        "graph \"scaled\": feed of \"x\": requires f32[2, 3], but the tensor is f32[5]");
  CHECK(run(from_span(six, {2, 3})) ==
        "graph \"scaled\": feed of \"x\": requires f32[2, 3], but the tensor is f64[2, 3]; give "
        "tensor.to(at::kFloat)");
  Tensor bare = {.sizes = {2, 3}, .strides = {3, 1}};
  CHECK(run(bare) ==
        "graph \"scaled\": feed of \"x\": requires f32[2, 3], but the tensor is f32[2, 3] without "
        "numbers");
  bare.strides = {1};
  CHECK(run(bare) ==
        "graph \"scaled\": feed of \"x\": requires f32[2, 3], but the tensor is of 2 sizes and 1 "
        "strides");
  CHECK(error_of<RunError>([&] { to_span<double>(step.get_tensor("w")); }) ==
        "a span of f64 is asked for, but the tensor is f32[3]");
  Tensor turned = from_span(six, {2, 3});
  turned.strides = {1, 2};
  CHECK(error_of<RunError>([&] { to_span<double>(turned); }) ==
        "a span of f64 is asked for, but the tensor is f64[2, 3], not contiguous");
}

}  // namespace
}  // namespace metronome::spans_test
