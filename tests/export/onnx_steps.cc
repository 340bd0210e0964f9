// Models of steps and of numbers at the edges, for onnx_cases.
#include <ATen/core/Tensor.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/tensor.h>
#include <fmt/format.h>

#include <limits>
#include <string>
#include <vector>

#include "executor/onnx/model.h"
#include "ops/elementwise/elementwise.h"
#include "tests/aten.h"
#include "tests/export/onnx_case_writer.h"

namespace metronome::tests {
namespace {

CompileOptions steps(std::vector<Mode> modes) {
  CompileOptions options = onnx_evaluation();
  options.modes = std::move(modes);
  return options;
}

void write_state(OnnxCaseWriter& writer) {
  Graph g("counter");
  const Value x = g.input("x", f32, {2, 3}), h = g.state("h", {f32, {2, 3}}, zeros());
  const Value next = tanh(x.through(linear(3)) + h);
  g.feed(h, next);
  g.output("y", next * 2.0);
  const std::vector<Feed> feeds = {{"x", at::ones({2, 3})}};
  Executable advances = compile(g, cpu_replay(), steps({advance}));
  advances.set("h", at::ones({2, 3}) * 0.5);
  writer.write_model("advances", advances);
  writer.write_arrays("advances.0", g, advances, feeds, {.states = States::advance});
  writer.write_arrays("advances.1", g, advances, feeds, {.states = States::advance});
  Executable stays = compile(g, cpu_replay(), steps({evaluate}));
  stays.set("h", at::ones({2, 3}) * 0.5);
  writer.write_model("stays", stays);
  writer.write_arrays("stays.0", g, stays, feeds);
}

void write_average(OnnxCaseWriter& writer) {
  Graph g("averaged");
  const Value x = g.input("x", f32, {2, 3});
  const Value y = x.through(linear(3));
  g.output("y", y);
  g.minimize(mean(square(y)), Sgd{.lr = 0.5});
  const Average average = g.average("linear", {.decay = 0.5});
  Executable step = compile(g, cpu_replay(), steps({train, evaluate}));
  const std::vector<Feed> feeds = {{"x", at::ones({2, 3})}};
  for (int i = 0; i < 3; ++i) step.run(feeds);
  writer.write_model("plain", step);
  writer.write_arrays("plain.0", g, step, feeds);
  writer.write_model("averaged", step, {.with = average});
  writer.write_arrays("averaged.0", g, step, feeds, {.with = average});
}

/// Outputs that are inputs, weights, constants and each other.
void write_names(OnnxCaseWriter& writer) {
  Graph g("names");
  const Value x = g.input("x", f32, {2, 3}), w = g.parameter("w", {f32, {3}}, ones());
  const Value sum = x + w;
  g.output("an input", x);
  g.output("a weight", w);
  g.output("sum", sum);
  g.output("the same", sum);
  g.output("a number", full_like(sum, 3.0));
  g.output("add/Add", sum * 2.0);
  const std::vector<Feed> feeds = {{"x", at::ones({2, 3})}};
  writer.write("names", g, feeds);
}

/// Two weights and their sum, by hand: a model of 2 GB is too large for a test.
void write_beside(OnnxCaseWriter& writer) {
  const at::Tensor a = at::ones({1000}) * 3, b = at::ones({1000}) * 4;
  onnx::OnnxModel model{.name = "beside"};
  for (const auto& [name, tensor] : {std::pair{"a", a}, std::pair{"b", b}}) {
    const auto* begin = static_cast<const std::byte*>(tensor.const_data_ptr());
    model.initializers.push_back({name, {f32, {1000}}, {begin, begin + tensor.nbytes()}});
  }
  model.nodes.push_back({.op = "Add", .name = "sum", .inputs = {"a", "b"}, .outputs = {"y"}});
  model.outputs.push_back({"y", f32, {{1000}}});
  onnx::write_model(model, writer.file("beside.onnx").string(), 1000);
  ArraysFile(writer.file("beside.0")).add("out", "y", a + b);
}

// ---- edges --------------------------------------------------------------------------------------

constexpr double kFar = std::numeric_limits<double>::infinity();
constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

const std::vector<double>& edges() {
  static const std::vector<double> all = {0,    -0.0,  1,  -1,  0.5,  -0.5,  2,    2.5,
                                          1e-9, -1e-9, 30, -30, kFar, -kFar, kNone};
  return all;
}

at::Tensor tensor_of(const std::vector<double>& numbers, Shape shape, Element element) {
  return at::tensor(numbers, at::kDouble).reshape(shape).to(to_torch(element));
}

/// A function of all pairs of edges.
void write_function(OnnxCaseWriter& writer, Function function, Element element) {
  const FunctionRow& row = row_of(function);
  const auto count = static_cast<std::int64_t>(edges().size());
  Graph g("edge");
  const Value x = g.input("x", element, {count, 1});
  std::vector<Feed> feeds = {{"x", tensor_of(edges(), {count, 1}, element)}};
  if (row.operands == 1) {
    g.output("y", elementwise(function, {x}, {}, -0.75, 1.25));
  } else {
    const Value z = g.input("z", element, {count});
    feeds.push_back({"z", tensor_of(edges(), {count}, element)});
    g.output("y", elementwise(function, {x, z}));
  }
  writer.write(fmt::format("{}-{}", row.name, name_of(element)), g, feeds);
}

/// Functions that look for the largest, of rows that hold NaN and infinities.
void write_order(OnnxCaseWriter& writer, Element element) {
  const std::vector<double> numbers = {1, kNone, 3, kFar, kNone, kFar,  2,  3,     3,
                                       1, -kFar, 2, 0,    -1,    kNone, -2, -kFar, 5};
  Graph g("order");
  const Value x = g.input("x", element, {3, 6});
  g.output("max", max(x, 1));
  g.output("min", min(x, 0));
  g.output("argmax", argmax(x, 1));
  g.output("pool", max_pool1d(x.reshape({1, 3, 6}), 2));
  g.output("softmax", softmax(x));
  for (const bool descending : {false, true}) {
    const std::string how = descending ? "down" : "up";
    const Sorted all = sort(x, 1, descending);
    g.output("sorted " + how, all.values);
    g.output("places " + how, all.indices);
    const Sorted first = topk(x, 3, 1, descending);
    g.output("first " + how, first.values);
    g.output("their places " + how, first.indices);
  }
  const std::vector<Feed> feeds = {{"x", tensor_of(numbers, {3, 6}, element)}};
  writer.write(fmt::format("order-{}", name_of(element)), g, feeds);
}

/// Indices out of range read zeros.
void write_indices(OnnxCaseWriter& writer) {
  Graph g("indices");
  const Value table = g.input("table", f32, {3, 2}), at = g.input("at", i64, {4});
  const Value row = at.reshape({4, 1});
  g.output("rows", embedding_lookup(table, at));
  g.output("gathered", gather(table, 0, row));
  g.output("added", scatter_add(table, 0, row, full_like(gather(table, 0, row), 1.0)));
  g.output("picked", pick(expand(table.slice(1, 0, 1).reshape({1, 3}), {4, 3}), at));
  const std::vector<Feed> feeds = {{"table", tensor_of({1, 2, 3, 4, 5, 6}, {3, 2}, f32)},
                                   {"at", tensor_of({0, -1, 2, 3}, {4}, i64)}};
  writer.write("indices", g, feeds);
}

}  // namespace

void write_steps(OnnxCaseWriter& writer) {
  write_state(writer);
  write_average(writer);
  write_names(writer);
  write_beside(writer);
}

void write_edges(OnnxCaseWriter& writer) {
  for (std::size_t i = 0; i < std::size(kRows); ++i) {
    const FunctionRow& row = kRows[i];
    const bool takes_numbers = row.elements != Elements::booleans && row.operands < 3;
    if (!takes_numbers || row.name.find("_grad") != row.name.npos) continue;
    for (const Element element : {f32, f64}) {
      write_function(writer, static_cast<Function>(i), element);
    }
  }
  for (const Element element : {f32, f64}) write_order(writer, element);
  write_indices(writer);
}

}  // namespace metronome::tests
