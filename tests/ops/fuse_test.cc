// Fused groups give what their members give one by one, bit for bit: CUDA's kernels on the host.
#include "graph/passes/fuse.h"

#include <cstdint>
#include <deque>
#include <functional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "graph/group.h"
#include "graph/passes/differentiate.h"
#include "graph/passes/fold.h"
#include "graph/passes/for_mode.h"
#include "graph/passes/lower.h"
#include "graph/passes/materialize.h"
#include "graph/passes/prune.h"
#include "graph/passes/share.h"
#include "graph/passes/update.h"
#include "graph/passes/verify.h"
#include "graph/scope.h"
#include "ops/dropout.h"
#include "ops/functions.h"
#include "ops/init.h"
#include "ops/layer_norm.h"
#include "ops/reduce.h"
#include "ops/softmax.h"
#include "tests/doctest.h"
#include "tests/ops/cuda_interpreter.h"
#include "tests/ops/random_program.h"

namespace metronome {
namespace {

Settings fusing() {
  Settings settings;
  settings.fuses = [](const Op& op) { return cuda_table().has(op); };
  return settings;
}

/// What an input or a storage holds, the same for the same name.
std::vector<std::byte> numbers(const Type& type, const std::string& name) {
  std::mt19937 random(static_cast<std::uint32_t>(std::hash<std::string>()(name)));
  std::vector<std::byte> bytes(type.bytes());
  with_type(type.element, [&](auto* element) {
    using T = std::remove_pointer_t<decltype(element)>;
    for (std::int64_t i = 0; i < type.numel(); ++i) {
      const double number = static_cast<double>(random() % 4096) / 1024 - 2;
      const T rounded = std::is_same_v<T, bool> ? T(number < 0) : static_cast<T>(number);
      std::memcpy(bytes.data() + i * sizeof(T), &rounded, sizeof(T));
    }
  });
  return bytes;
}

class Run {
 public:
  explicit Run(const Graph& graph, const RunOrder& order = {}, bool views = false)
      : graph_(graph), interpreter_(graph, order, views) {
    for (const Node& node : graph.nodes()) {
      if (const Input* input = node.op->as<Input>()) feed(input->input, input->type);
      if (const Read* read = node.op->as<Read>()) {
        const Storage& storage = graph.storage(read->storage);
        feed(storage.path, storage.type);
      }
    }
    interpreter_.run();
  }

  /// Bytes of every readable and assigned value.
  std::vector<std::vector<std::byte>> results() const {
    std::vector<std::vector<std::byte>> all;
    for (const Readable& r : graph_.readables()) all.push_back(interpreter_.bytes(r.value));
    for (const Assignment& a : graph_.assignments()) all.push_back(interpreter_.bytes(a.value));
    return all;
  }

  /// How many outputs of groups may be written over an operand; checks that each may be.
  int check_in_place() {
    int rights = 0;
    for (std::int32_t i = 0; i < static_cast<std::int32_t>(graph_.nodes().size()); ++i) {
      const Node& node = graph_.nodes()[i];
      if (node.op->as<Group>() == nullptr) continue;
      for (const InPlace& right : node.op->in_place()) {
        CAPTURE(node.op->attributes());
        CAPTURE(right.output);
        CAPTURE(right.input);
        CHECK(interpreter_.same_in_place(i, right));
        ++rights;
      }
    }
    return rights;
  }

 private:
  void feed(const std::string& name, const Type& type) {
    blocks_.push_back(numbers(type, name));
    interpreter_.set(name, blocks_.back().data());
  }

  const Graph& graph_;
  std::deque<std::vector<std::byte>> blocks_;
  CudaInterpreter interpreter_;
};

/// Checks that fusing keeps the bits, also with threads in other orders and unaligned operands.
/// Returns the fused graph's groups as text.
std::vector<std::string> check_fused(const Graph& graph) {
  graph.validate();
  const Graph before = materialize(graph, {});
  const Graph after = fuse(before, fusing());
  verify(after, "fuse");
  CAPTURE(after.print());
  const auto expected = Run(before).results();
  Run run(after);
  CHECK((run.results() == expected));
  run.check_in_place();
  CHECK((Run(after, {RunOrder::Kind::reverse}).results() == expected));
  CHECK((Run(after, {}, true).results() == expected));

  std::vector<std::string> groups;
  for (const Node& node : after.nodes()) {
    if (node.op->as<Group>() != nullptr) groups.push_back(node.op->attributes());
  }
  return groups;
}

using Groups = std::vector<std::string>;

TEST_CASE("maps: operands of every way to be broadcast, in packs and one by one") {
  for (const std::int64_t columns : {8, 7}) {
    CAPTURE(columns);
    Graph g("maps");
    const Value x = g.input("x", f32, {4, 3, columns});
    const Value last = g.input("last", f32, {columns});
    const Value first = g.input("first", f32, {4, 1, 1});
    const Value middle = g.input("middle", f32, {3, 1});
    const Value apart = g.input("apart", f32, {4, 1, columns});
    const Value one = g.input("one", f32, {});
    const Value y = (x + last) * first - middle;
    g.output("y", gelu(y) / (square(apart) + 1.5));
    g.output("z", y * one);
    CHECK(check_fused(g) == Groups{"square add", "add mul sub gelu div mul"});
  }
}

TEST_CASE("maps: every element type") {
  Graph g("types");
  const Value x = g.input("x", f32, {6, 20});
  const Value i = (x * 4.0).cast(i32), l = i.cast(i64) * 3.0;
  const Value d = l.cast(f64) / 7.0;
  const Value b = d > 0.25;
  g.output("i", minimum(i, 3));
  g.output("l", maximum(-l, -5.0));
  g.output("d", where(b, exp(d), d));
  g.output("b", b);
  g.output("x", x + d.cast(f32));
  CHECK(check_fused(g).size() == 1);
}

TEST_CASE("maps: dropout draws the numbers of its key") {
  Graph g("dropout");
  const Value x = g.input("x", f32, {5, 8});
  const Value dropped = apply(Dropout{0.4}, {g.seed(), g.replay(), x}, Line{});
  g.output("y", dropped * 2.0 + x);
  CHECK(check_fused(g) == Groups{"dropout mul add"});
}

TEST_CASE("maps: single numbers become one kernel, whether or not they belong together") {
  Graph g("numbers");
  const Value a = g.input("a", f64, {}), b = g.input("b", f64, {});
  g.output("y", sqrt(abs(a)) + 1.0);
  g.output("z", pow(0.9, b));
  CHECK(check_fused(g) == Groups{"abs sqrt add pow"});
}

TEST_CASE("a reduction: its operand made as it is read, its result mapped as it is written") {
  for (const Shape& shape : {Shape{6, 40}, Shape{3, 9}, Shape{2, 9000}}) {
    CAPTURE(to_string(shape));
    Graph g("norm");
    const Value x = g.input("x", f32, shape), skip = g.input("skip", f32, shape);
    const Value bias = g.input("bias", f32, {shape[1]});
    const Value gamma = g.input("gamma", f32, {shape[1]}), beta = g.input("beta", f32, {shape[1]});
    const Value h = gelu(x + bias);
    const Value y = apply(LayerNorm{}, {h, gamma, beta}, Line{});
    g.output("h", h);
    g.output("y", skip + y * h);
    g.output("norm", y);
    CHECK(check_fused(g) == Groups{"add gelu layer_norm mul add"});
  }
}

TEST_CASE("a reduction: two operands that are walked over") {
  for (const Shape& shape : {Shape{7, 40}, Shape{300, 12}}) {
    CAPTURE(to_string(shape));
    Graph g("norm_grad");
    const Value a = g.input("a", f64, shape), b = g.input("b", f64, shape);
    const Value mean = g.input("mean", f64, {shape[0]}), rstd = g.input("rstd", f64, {shape[0]});
    const Value gamma = g.input("gamma", f64, {shape[1]});
    const Value upper = a * 0.5, x = a + b;
    const Values all = apply_all(LayerNormGrad{}, {upper, x, mean, rstd, gamma}, 3, Line{});
    g.output("x", x);
    g.output("dx", tanh(all[0]) - a);
    g.output("dgamma", all[1]);
    CHECK(check_fused(g) == Groups{"mul add layer_norm_grad tanh sub"});
  }
}

TEST_CASE("a reduction: softmax along every axis, and its gradient") {
  for (const std::int64_t axis : {0, 1, 2}) {
    for (const bool log : {false, true}) {
      Graph g("softmax");
      const Value x = g.input("x", f32, {4, 5, 6}), upper = g.input("g", f32, {4, 5, 6});
      const Value y = apply(Softmax{axis, log}, {x * 3.0}, Line{});
      g.output("y", y + 1.0);
      g.output("dx", -apply(SoftmaxGrad{axis, log}, {upper + x, x}, Line{}));
      CHECK(check_fused(g) == Groups{"mul softmax add", "add softmax_grad neg"});
    }
  }
}

TEST_CASE("a reduction: sums over any axes feed on maps, and what those leave is stored") {
  const std::vector<std::vector<std::int64_t>> forms = {{0}, {1}, {2}, {0, 1}, {0, 2}, {0, 1, 2}};
  for (const auto& axes : forms) {
    for (const Element element : {f32, f64}) {
      CAPTURE(fmt::format("{}", fmt::join(axes, ", ")));
      Graph g("sum");
      const Value x = g.input("x", element, {5, 12, 33}), y = g.input("y", element, {5, 12, 33});
      const Value d = x - y;
      g.output("loss", mean(square(d), axes));
      g.output("gradient", d * 2.0);
      CHECK(check_fused(g) == Groups{"sub square mean mul"});
    }
  }
}

TEST_CASE("a reduction: in two kernels") {
  Graph g("sum");
  const Value x = g.input("x", f32, {300, 257});
  g.output("columns", sum(tanh(x), {0}));
  g.output("all", max(-x));
  CHECK(check_fused(g) == Groups{"tanh sum", "neg max"});
}

TEST_CASE("random programs: the same bits") {
  for (std::uint32_t seed = 0; seed < 4; ++seed) {
    CAPTURE(seed);
    Graph whole = for_mode(RandomProgram(seed).make(), {});
    for (const auto pass : {lower, differentiate, update, fold, share, prune, materialize}) {
      whole = pass(whole, {});
    }
    const Graph after = fuse(whole, fusing());
    verify(after, "fuse");
    CHECK(after.nodes().size() < whole.nodes().size());
    CHECK((Run(after).results() == Run(whole).results()));
  }
}

}  // namespace
}  // namespace metronome
