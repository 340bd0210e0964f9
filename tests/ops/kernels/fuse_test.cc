// Fused groups give what their members give one by one, bit for bit: CUDA's kernels on the host.
#include "graph/passes/fuse.h"

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "graph/check/verify.h"
#include "graph/compounds/group.h"
#include "graph/emit/scope.h"
#include "graph/passes/fold.h"
#include "graph/passes/for_mode.h"
#include "graph/passes/lower.h"
#include "graph/passes/materialize.h"
#include "graph/passes/prune.h"
#include "graph/passes/share.h"
#include "graph/passes/training/differentiate.h"
#include "graph/passes/training/update.h"
#include "ops/dropout/dropout.h"
#include "ops/expr/functions.h"
#include "ops/language/init.h"
#include "ops/language/layers.h"
#include "ops/layer_norm/layer_norm.h"
#include "ops/losses/losses.h"
#include "ops/optimizers/optimizers.h"
#include "ops/reduce/reduce.h"
#include "ops/softmax/softmax.h"
#include "tests/doctest.h"
#include "tests/executor/settings_of.h"
#include "tests/gpu/device_runs.h"
#include "tests/gpu/host_device.h"
#include "tests/ops/interpreter.h"
#include "tests/ops/random_program.h"

namespace metronome::fuse_test {
namespace {

Settings fusing() { return settings_of(null(), train); }

/// That fusing kept the bits, whatever order threads run in.
void check_same(const ir::Graph& before, const ir::Graph& after) {
  static HostDevice first, second({RunOrder::Kind::reverse});
  const std::vector<DevicePool*> pools = {&first.pool, &second.pool};
  CAPTURE(after.print());
  CHECK(other_bits(pools, before, after, numbers_for(before)).value_or("") == "");
}

/// Returns the values that leave a graph, as bytes, run by the CPU's kernels.
std::vector<std::string> bytes_left(const ir::Graph& graph, int threads, bool views) {
  Interpreter interpreter(graph, threads, views);
  for (const auto& [name, numbers] : numbers_for(graph)) interpreter.set(name, numbers);
  interpreter.run();
  std::vector<std::string> all;
  for (const ValueId id : results_of(graph)) {
    const at::Tensor tensor = interpreter.tensor(id);
    all.emplace_back(static_cast<const char*>(tensor.data_ptr()), tensor.nbytes());
  }
  return all;
}

/// That groups of a CPU keep the bits, also such as it would not make for itself.
void check_same_on_cpu(const ir::Graph& before) {
  Settings settings = settings_of(cpu_replay(), train);
  for (const bool launches_cost : {false, true}) {
    settings.fuse.launches_cost = launches_cost;
    const ir::Graph after = passes::fuse(before, settings);
    check::verify(after, "fuse");
    CAPTURE(after.print());
    for (const bool views : {false, true}) {
      const std::vector<std::string> expected = bytes_left(before, 1, views);
      for (const int threads : {1, 3}) CHECK(bytes_left(after, threads, views) == expected);
    }
  }
}

using Groups = std::vector<std::string>;

/// Checks that fusing keeps the bits. Returns the fused graph's groups as text.
Groups check_step(const ir::Graph& before) {
  const ir::Graph after = passes::fuse(before, fusing());
  check::verify(after, "fuse");
  check_same(before, after);
  check_same_on_cpu(before);

  Groups groups;
  for (const Node& node : after.nodes()) {
    if (const Group* group = node.op->as<Group>()) groups.push_back(group->names());
  }
  return groups;
}

Groups check_fused(const Graph& graph) {
  graph.validate();
  return check_step(passes::materialize(graph, {}));
}

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
  const Value once = apply(Dropout{0.4}, {g.seed(), g.replay(), x}, Line{});
  const Value again = apply(Dropout{0.4}, {g.seed(), g.replay(), x}, Line{});
  g.output("y", once * 2.0 + again);
  g.output("sum", sum(apply(Dropout{0.4}, {g.seed(), g.replay(), once}, Line{})));
  CHECK(check_fused(g) == Groups{"dropout dropout mul add dropout sum"});
}

TEST_CASE("maps: single numbers become one kernel, whether or not they belong together") {
  Graph g("numbers");
  const Value a = g.input("a", f64, {}), b = g.input("b", f64, {});
  g.output("y", sqrt(abs(a)) + 1.0);
  g.output("z", pow(0.9, b));
  CHECK(check_fused(g) == Groups{"abs sqrt add pow"});
}

TEST_CASE("maps: ranges of operands and of results, of every axis, in packs and one by one") {
  struct Form {
    Shape shape;
    std::int64_t axis, begin, end;
  };
  const Form forms[] = {{{4, 12}, 1, 4, 8},      {{4, 12}, 1, 3, 8},   {{5, 7}, 1, 6, 7},
                        {{3, 6, 8}, 1, 2, 5},    {{3, 6, 5}, 1, 2, 5}, {{3, 6, 8}, 2, 4, 8},
                        {{2, 3, 4, 8}, 2, 1, 3}, {{1, 6, 4}, 2, 0, 3}};
  for (const Element element : {f32, f64, i32}) {
    for (const Form& form : forms) {
      CAPTURE(to_string(Type{element, form.shape}));
      CAPTURE(form.begin);
      Graph g("ranges");
      const Value whole = g.input("whole", element, form.shape);
      const Value part = whole.slice(form.axis, form.begin, form.end);
      const Value other = g.input("other", element, part.type().shape);
      const Value y = part * other, z = other - part;
      g.output("y", y);
      g.output("beside", concat({z, y, other}, form.axis));
      CHECK(check_fused(g) == Groups{"slice mul sub concat"});
    }
  }
}

TEST_CASE("maps: a range that is broadcast") {
  Graph g("broadcast");
  const Value x = g.input("x", f32, {2, 6, 8}), weights = g.input("weights", f32, {6, 3});
  const Value middle = g.input("middle", f32, {2, 3, 8});
  g.output("y", x * weights.slice(1, 2, 3));
  g.output("z", middle.slice(1, 1, 2) - x);
  CHECK(check_fused(g) == Groups{"slice mul slice sub"});
}

TEST_CASE("maps: four gates of an lstm's step, and their gradients side by side") {
  Graph g("gates");
  const Value x = g.input("x", f32, {5, 32}), cell = g.input("cell", f32, {5, 8});
  const Values gate = chunk(x, 4, 1);
  const Value next = sigmoid(gate[1]) * cell + sigmoid(gate[0]) * tanh(gate[2]);
  g.output("hidden", sigmoid(gate[3]) * tanh(next));
  g.output("all", concat({next, cell}, 1));
  g.validate();
  CHECK(check_step(passes::materialize(passes::lower(g, {}), {})) ==
        Groups{"slice tanh slice sigmoid mul slice sigmoid mul add tanh slice sigmoid mul concat"});
}

TEST_CASE("a reduction: between ranges that are read and ranges that are written") {
  for (const Shape& shape : {Shape{6, 40}, Shape{3, 9}}) {
    CAPTURE(to_string(shape));
    Graph g("norm");
    const Value x = g.input("x", f32, {shape[0], 2 * shape[1]});
    const Value gamma = g.input("gamma", f32, {shape[1]}), beta = g.input("beta", f32, {shape[1]});
    const Value left = x.slice(1, 0, shape[1]), right = x.slice(1, shape[1], 2 * shape[1]);
    const Value h = left * sigmoid(right);
    const Value y = apply(LayerNorm{}, {h, gamma, beta}, Line{});
    g.output("beside", concat({gelu(y), h}, 1));
    CHECK(check_fused(g) == Groups{"slice sigmoid slice mul layer_norm gelu concat"});
  }
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

/// A training step as it is before fusing.
ir::Graph step_of(const Graph& declared) {
  declared.validate();
  ir::Graph step = passes::for_mode(declared, {});
  for (const auto pass : {passes::lower, passes::differentiate, passes::update, passes::fold,
                          passes::share, passes::prune, passes::materialize}) {
    step = pass(step, {});
  }
  return step;
}

std::string text(const Groups& groups) { return fmt::format("{}", fmt::join(groups, "; ")); }

TEST_CASE("training: norms and softmaxes with their gradients, on odd shapes") {
  for (const Shape& shape : {Shape{37, 13}, Shape{5, 1031}, Shape{1, 3}}) {
    for (const Element element : {f32, f64}) {
      CAPTURE(to_string(Type{element, shape}));
      Graph g("norms");
      const Value x = g.input("x", element, shape), t = g.input("t", element, shape);
      const Value bias = g.parameter("bias", {element, {shape[1]}}, {});
      const Value h = gelu(x + bias).through(layer_norm()) + x;
      g.minimize(mean(square(softmax(h * 0.5) - t)), Sgd{});
      CHECK(text(check_step(step_of(g))) ==
            "add gelu layer_norm add mul; mul; softmax sub square square_grad; softmax_grad mul; "
            "layer_norm_grad gelu_grad; increment increment");
    }
  }
}

TEST_CASE("training: losses with their gradients, on odd shapes") {
  struct Loss {
    std::function<Value(Graph&, Value x, Value t)> of;
    std::string groups;
  };
  const Loss losses[] = {
      {[](Graph&, Value x, Value t) { return mse_loss(x, t); },
       "mul; add tanh sub square mean square_grad tanh_grad; increment increment"},
      {[](Graph&, Value x, Value t) { return l1_loss(x, t); },
       "mul; add tanh sub abs mean abs_grad tanh_grad; increment increment"},
      {[](Graph&, Value x, Value t) { return smooth_l1_loss(x, t); },
       "mul; add tanh sub abs sub square mul less where mean where where mul square_grad "
       "accumulate abs_grad tanh_grad; increment increment"},
      {[](Graph&, Value x, Value t) { return bce_with_logits_loss(x, sigmoid(t)); },
       "mul; add tanh sigmoid bce_with_logits mean bce_with_logits_grad "
       "tanh_grad; increment increment"},
      {[](Graph& g, Value x, Value) {
         return cross_entropy_loss(x, abs(g.input("labels", i64, {x.type().shape[0]})));
       },
       "add tanh softmax; abs not_equal cast sum; neg div quotient_grad increment increment; "
       "softmax_grad tanh_grad"},
  };
  for (const Loss& loss : losses) {
    for (const Shape& shape : {Shape{37, 13}, Shape{3, 4099}}) {
      Graph g("loss");
      const Value x = g.input("x", f32, shape), t = g.input("t", f32, shape);
      const Value bias = g.parameter("bias", {f32, {shape[1]}}, {});
      g.minimize(loss.of(g, tanh(x + bias), t), Sgd{});
      CAPTURE(g.print());
      CHECK(text(check_step(step_of(g))) == loss.groups);
    }
  }
}

TEST_CASE("a group over nothing still makes its sums of nothing") {
  Graph before("nothing");
  const Value a = before.input("a", f32, {0, 6}), b = before.input("b", f32, {0, 6});
  const Value mean = before.input("mean", f32, {0}), rstd = before.input("rstd", f32, {0});
  const Value gamma = before.input("gamma", f32, {6});
  const Values all = apply_all(LayerNormGrad{}, {a * b, b, mean, rstd, gamma}, 3, Line{});
  for (int k = 0; k < 3; ++k) before.output("y" + std::to_string(k), all[k]);

  // `fuse` leaves such ops alone.
  Group group;
  group.domain = {0, 6};
  for (int i = 0; i < 5; ++i) group.inputs.push_back(before.data().nodes()[i].types[0]);
  const Node &product = all[0].node(), &mul = before.data().node(product.inputs[0]);
  group.members = {{mul.op, {{-1, 0}, {-1, 1}}, mul.types},
                   {product.op, {{0, 0}, {-1, 1}, {-1, 2}, {-1, 3}, {-1, 4}}, product.types}};
  group.outputs = {{1, 0}, {1, 1}, {1, 2}};
  ir::Graph after = ir::Graph::like(before);
  Node node{.op = make_op(group), .path = "group"};
  for (int i = 0; i < 5; ++i) node.inputs.push_back(after.append(before.data().nodes()[i]));
  const ValueId first = after.append(node);
  for (int k = 0; k < 3; ++k) after.set_readable(k, {first.node, k});
  check_same(before, after);
}

TEST_CASE("random programs: the same bits") {
  for (std::uint32_t seed = 0; seed < 6; ++seed) {
    CAPTURE(seed);
    const ir::Graph whole = step_of(random_graph(seed, random_programs::Language::steady));
    CHECK_FALSE(check_step(whole).empty());
  }
}

}  // namespace
}  // namespace metronome::fuse_test
