// The ways out that messages of ops, layers and losses name, taken: what a message advises
// compiles, runs, and gives the numbers that were wanted.
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "executor/metronome.h"
#include "executor/metronome/op.h"
#include "graph/ir/error.h"
#include "ops/dropout/dropout.h"
#include "tests/aten.h"
#include "tests/doctest.h"
#include "tests/executor/options.h"
#include "tests/executor/way_out.h"

namespace metronome::ways_out_of_ops_test {
namespace {

using tests::compiled;
using tests::error_of;
using tests::four;
using tests::names_way_out;
using tests::plain_options;
using tests::six;
using tests::WayOut;

TEST_CASE("no operand of a graph: begin with Graph::input or Graph::parameter") {
  const std::pair<const char*, std::function<Value(Value)>> ops[] = {
      {"exp", [](Value x) { return exp(x); }},
      {"linear", [](Value x) { return linear(2)(x); }},
      {"norm", [](Value x) { return norm(x); }},
      {"conv1d", [](Value x) { return conv1d(2, 1)(x); }},
      {"scaled_dot_product_attention",
       [](Value x) { return scaled_dot_product_attention(x, x, x); }},
      {"gru", [](Value x) { return gru(2)(x).hidden; }},
  };
  for (const auto& [name, op] : ops) {
    CAPTURE(name);
    const std::string message = error_of([&] { op(Value()); });
    CAPTURE(message);
    CHECK(names_way_out(message, "begin with Graph::input or Graph::parameter"));
    Graph g("g");
    g.output("of_input", op(g.input("x", f32, {2, 2, 2})));
    g.output("of_parameter", op(g.parameter("w", {f32, {2, 2, 2}}, ones())));
    Executable step = compiled(g);
    step.run({{"x", at::ones({2, 2, 2}, at::kFloat)}});
    CHECK(step.read("of_input").sizes() == step.read("of_parameter").sizes());
  }
}

TEST_CASE("data in a step: positions that are cast, rows that are reshaped") {
  Graph refused("g"), taken("g");
  shuffled(refused.input("p", f32, {2}), "order", 5);
  CHECK(names_way_out(error_of([&] { compiled(refused); }), "cast them: x.cast(mt::i64)"));
  taken.output("rows", shuffled(taken.input("p", f32, {2}).cast(i64), "order", 5));
  Executable step = compiled(taken);
  step.run({{"p", at::zeros({2}, at::kFloat)}});
  CHECK(step.read("rows")[0].equal(step.read("rows")[1]));

  Graph scalar("g"), row("g");
  const ReplayBuffer none("replay", 4, {{"r", scalar.input("r", f32, {})}});
  CHECK(names_way_out(error_of([&] { compiled(scalar); }), "reshape it to [1]"));
  const ReplayBuffer memory("replay", 4, {{"r", row.input("r", f32, {}).reshape({1})}});
  row.output("size", memory.size());
  Executable keeps = compiled(row);
  keeps.run({{"r", at::ones({}, at::kFloat)}});
  CHECK(keeps.get("replay/r")[0].item<float>() == 1);
}

TEST_CASE("a replay buffer in a branch: outside of branches and loops") {
  const auto declare = [](Graph& g, bool inside) {
    const Value x = g.input("x", f32, {2}), which = g.input("which", i32, {});
    const auto keep = [&] { ReplayBuffer("replay", 8, {{"x", x}}); };
    if (!inside) keep();
    const auto branch = [&](Value h) {
      if (inside) keep();
      return h;
    };
    g.output("y", x.choose(which, {branch, [](Value h) { return h * 2.0; }}));
  };
  Graph refused("g"), taken("g");
  declare(refused, true), declare(taken, false);
  CHECK(
      names_way_out(error_of([&] { compiled(refused); }), "make it outside of branches and loops"));
  Executable step = compiled(taken);
  for (int i = 0; i < 3; ++i) {
    step.run({{"x", at::ones({2}, at::kFloat)}, {"which", at::ones({}, at::kInt)}});
  }
  CHECK(step.get("replay/written").item<std::int64_t>() == 6);
}

TEST_CASE("a replay buffer in a loop: make it behind the loop, of mt::concat of all its rows") {
  const auto declare = [](Graph& g, bool inside) {
    const Value state = g.state("s", {f32, {1}}, ones());
    Values rows;
    g.unroll(3, state, [&](Value s, int) {
      const Value next = s * 2.0;
      rows.push_back(next);
      if (inside) ReplayBuffer("replay", 8, {{"s", next}});
      return Unrolled{next, next};
    });
    if (!inside) ReplayBuffer("replay", 8, {{"s", concat(rows, 0)}});
  };
  Graph refused("g"), taken("g");
  declare(refused, true), declare(taken, false);
  CHECK(names_way_out(error_of([&] { compiled(refused); }),
                      "make it behind the loop, of mt::concat of all its rows"));
  Executable step = compiled(taken);
  step.run();
  CHECK(step.get("replay/s")[2].item<float>() == 8);
}

TEST_CASE("a vector by Muon: an objective of its own") {
  const auto declare = [](Graph& g) {
    const Value w = g.parameter("w", {f32, {2, 2}}, ones()),
                b = g.parameter("b", {f32, {2}}, ones());
    return sum(w) + sum(b);
  };
  Graph refused("g"), taken("g");
  refused.minimize(declare(refused), Muon{});
  CHECK(error_of([&] { compiled(refused); })
            .find("way out    train other parameters by an objective of their own over the same "
                  "loss") != std::string::npos);
  const Value loss = declare(taken);
  taken.minimize(loss, Muon{}, {.name = "matrices", .parameters = {"w"}});
  taken.minimize(loss, Sgd{.lr = 0.5}, {.name = "vectors", .parameters = {"b"}});
  Executable step = compiled(taken);
  step.run();
  CHECK(step.get("b")[0].item<float>() == 0.5F);
}

TEST_CASE("element types: what is cast or compared is computed with") {
  const WayOut rows[] = {
      // floating, of integers and of halves; a number, of bool; an op without a kernel for halves
      {"cast it: x.cast(mt::f32)",
       [](Graph& g) { exp(four(g, i64)); },
       [](Graph& g) { g.output("y", exp(four(g, i64).cast(f32) * 0.0)); },
       {1, 1, 1, 1}},
      {"cast it: x.cast(mt::f32)",
       [](Graph& g) { exp(four(g, bf16)); },
       [](Graph& g) { g.output("y", exp(four(g, bf16).cast(f32) * 0.0)); },
       {1, 1, 1, 1}},
      {"cast it: x.cast(mt::f32)",
       [](Graph& g) { abs(four(g) > 2.0); },
       [](Graph& g) { g.output("y", abs((four(g) > 2.0).cast(f32))); },
       {0, 0, 1, 1}},
      {"cast it: x.cast(mt::f32)",
       [](Graph& g) { cumsum(four(g, f16), 0); },
       [](Graph& g) { g.output("y", cumsum(four(g, f16).cast(f32), 0)); },
       {1, 3, 6, 10}},
      {"cast it: x.cast(mt::f32); or look up rows: mt::embedding(vocabulary, width)",
       [](Graph& g) { linear(1, {.bias = false, .weight_init = ones()})(four(g, i64)); },
       [](Graph& g) {
         const Layer sum = linear(1, {.bias = false, .weight_init = ones()});
         g.output("y", sum(four(g, i64).cast(f32)));
       },
       {10}},
      {"cast it: x.cast(mt::f32); or look up rows: mt::embedding(vocabulary, width)",
       [](Graph& g) { four(g, i64).through(linear(1)); },
       [](Graph& g) { g.output("y", four(g, i64).through(embedding(5, 2)) * 0.0); },
       std::vector<double>(8, 0.0)},
      {"cast it: index.cast(mt::i64)",
       [](Graph& g) { gather(four(g), 0, g.constant({3, 0}, {f32, {2}})); },
       [](Graph& g) {
         g.output("y", gather(four(g), 0, g.constant({3, 0}, {f32, {2}}).cast(i64)));
       },
       {4, 1}},
      {"cast operand 1 to f64: x.cast(mt::f64)",
       [](Graph& g) { four(g, f64) + four(g, f32); },
       [](Graph& g) { g.output("y", four(g, f64) + four(g, f32).cast(f64)); },
       {2, 4, 6, 8}},
      {"cast operands 0, 1 to f64: x.cast(mt::f64)",
       [](Graph& g) { scaled_dot_product_attention(six(g), six(g), six(g, f64)); },
       [](Graph& g) {
         const Value zeros = (six(g) * 0.0).cast(f64);
         g.output("y", scaled_dot_product_attention(zeros, zeros, six(g, f64)));
       },
       {2.5, 3.5, 4.5, 2.5, 3.5, 4.5}},
      {"compare it: mt::not_equal(x, 0)",
       [](Graph& g) { logical_not(g.constant({0, 2}, {f32, {2}})); },
       [](Graph& g) { g.output("y", logical_not(not_equal(g.constant({0, 2}, {f32, {2}}), 0))); },
       {1, 0}},
      {"compare it: mt::not_equal(x, 0)",
       [](Graph& g) { where(g.constant({0, 2, 0, 1}, {i32, {4}}), four(g), 7.0); },
       [](Graph& g) {
         const Value x = g.constant({0, 2, 0, 1}, {i32, {4}});
         g.output("y", where(not_equal(x, 0), four(g), 7.0));
       },
       {7, 2, 7, 4}},
      {"cast it: mask.cast(mt::f32)",
       [](Graph& g) {
         const Value x = six(g), mask = g.constant({0, 0, 0, 0}, {f64, {2, 2}});
         scaled_dot_product_attention(x * 0.0, x, x, {.attn_mask = mask});
       },
       [](Graph& g) {
         const Value x = six(g), mask = g.constant({0, 0, 0, 0}, {f64, {2, 2}});
         g.output("y", scaled_dot_product_attention(x * 0.0, x, x, {.attn_mask = mask.cast(f32)}));
       },
       {2.5, 3.5, 4.5, 2.5, 3.5, 4.5}},
      {"cast it: weight.cast(mt::f32)",
       [](Graph& g) { bce_with_logits_loss(four(g), four(g), {.weight = g.constant(0, f64)}); },
       [](Graph& g) {
         const Value weight = g.constant(0, f64);
         g.output("y", bce_with_logits_loss(four(g), four(g), {.weight = weight.cast(f32)}));
       },
       {0}},
  };
  for (const WayOut& row : rows) tests::check(row);
}

TEST_CASE("numbers beside values") {
  const WayOut rows[] = {
      {"cast the value first: x.cast(mt::f64)",
       [](Graph& g) { clamp(four(g), 0, 1e300); },
       [](Graph& g) { g.output("y", clamp(four(g).cast(f64), 2, 1e300)); },
       {2, 2, 3, 4}},
      {"cast the value first: x.cast(mt::f64)",
       [](Graph& g) { four(g) * 1e300; },
       [](Graph& g) { g.output("y", four(g).cast(f64) * 1e300 * 1e-300); },
       {1, 2, 3, 4}},
      {"cast the value first: x.cast(mt::f32)",
       [](Graph& g) { four(g, i32) * 0.5; },
       [](Graph& g) { g.output("y", four(g, i32).cast(f32) * 0.5); },
       {0.5, 1, 1.5, 2}},
      {"say the type: g.constant(2, mt::f32)",
       [](Graph& g) { where(four(g) > 2.0, 2.0, 3.0); },
       [](Graph& g) { g.output("y", where(four(g) > 2.0, g.constant(2, f32), 3.0)); },
       {3, 3, 2, 2}},
      {"g.seed(), g.replay()",
       [](Graph& g) { apply(Dropout{0.0}, {g.constant(1, f32), g.replay(), four(g)}, {}); },
       [](Graph& g) { g.output("y", apply(Dropout{0.0}, {g.seed(), g.replay(), four(g)}, {})); },
       {1, 2, 3, 4}},
  };
  for (const WayOut& row : rows) tests::check(row);
}

TEST_CASE("shapes") {
  const WayOut rows[] = {
      {"x.reshape({1})",
       [](Graph& g) { linear(2, {.bias = false, .weight_init = ones()})(sum(four(g))); },
       [](Graph& g) {
         const Value x = sum(four(g));
         g.output("y", linear(2, {.bias = false, .weight_init = ones()})(x.reshape({1})));
       },
       {10, 10}},
      {"give it a dimension: reshape({1})",
       [](Graph& g) { four(g).slices(2, [](Value h) { return sum(h); }); },
       [](Graph& g) {
         g.output("y", four(g).slices(2, [](Value h) { return sum(h).reshape({1}); }));
       },
       {3, 7}},
      {"mt::rowwise is for layers that treat leading dimensions alike",
       [](Graph& g) { six(g).each(rowwise([](Value h) { return sum(h); })); },
       [](Graph& g) { g.output("y", six(g).each([](Value h) { return sum(h); })); },
       {6, 15}},
      {"where heads share keys and values: enable_gqa",
       [](Graph& g) {
         const Value query = g.constant({0, 0, 0, 0}, {f32, {4, 1, 1}});
         const Value key = g.constant({1, 3, 5, 7}, {f32, {2, 2, 1}});
         scaled_dot_product_attention(query, key, key);
       },
       [](Graph& g) {
         const Value query = g.constant({0, 0, 0, 0}, {f32, {4, 1, 1}});
         const Value key = g.constant({1, 3, 5, 7}, {f32, {2, 2, 1}});
         g.output("y", scaled_dot_product_attention(query, key, key, {.enable_gqa = true}));
       },
       {2, 2, 6, 6}},
      {"give the padding in numbers",
       [](Graph& g) {
         const Value x = four(g).reshape({1, 1, 4}),
                     weight = g.constant({1, 1, 1}, {f32, {1, 1, 3}});
         conv1d(x, weight, {.stride = 2, .padding = same});
       },
       [](Graph& g) {
         const Value x = four(g).reshape({1, 1, 4}),
                     weight = g.constant({1, 1, 1}, {f32, {1, 1, 3}});
         g.output("y", conv1d(x, weight, {.stride = 2, .padding = 1}));
       },
       {3, 9}},
      {"reshape a vector to one row or one column",
       [](Graph& g) { matmul(six(g), four(g)); },
       [](Graph& g) {
         const Value vector = g.constant({1, 0, 1}, {f32, {3}});
         g.output("y", matmul(six(g), vector.reshape({3, 1})));
       },
       {4, 10}},
      {"reshape one: target.reshape({4})",
       [](Graph& g) { mse_loss(four(g), four(g).reshape({4, 1})); },
       [](Graph& g) {
         const Value target = four(g).reshape({4, 1});
         g.output("y", mse_loss(four(g), target.reshape({4})));
       },
       {0}},
      {"reshape them, to one channel: [N, 1, pixels]",
       [](Graph& g) { metrics::dice(six(g) > 0.0, six(g) > 3.0); },
       [](Graph& g) {
         const auto masks = [&] { return (six(g) > 3.0).reshape({2, 1, 3}); };
         g.output("y", metrics::dice(masks(), masks()));
       },
       {1}},
      {"for a dropout behind the last layer: through(mt::dropout(p))",
       [](Graph& g) { six(g).reshape({2, 1, 3}).through(gru(2, {.dropout = 1.0})); },
       [](Graph& g) {
         g.output("y", six(g).reshape({2, 1, 3}).through(gru(2)).through(dropout(1.0)));
       },
       {0, 0, 0, 0}},
  };
  for (const WayOut& row : rows) tests::check(row);
}

/// Losses of these four logits [2, 2] are the same in each row, however classes are named.
Value logits(Graph& g) { return g.constant({0, 0, 0, 0}, {f32, {2, 2}}); }
constexpr double kLogOf2 = 0.6931471805599453;

TEST_CASE("targets of classes") {
  const WayOut rows[] = {
      {"give the index of each row's class: mt::argmax(targets)",
       [](Graph& g) { cross_entropy_loss(logits(g), g.constant({1, 0, 0, 1}, {f32, {2, 2}})); },
       [](Graph& g) {
         const Value targets = g.constant({1, 0, 0, 1}, {f32, {2, 2}});
         g.output("y", cross_entropy_loss(logits(g), argmax(targets)));
       },
       {kLogOf2}},
      {"cast them: targets.cast(mt::i64)",
       [](Graph& g) { cross_entropy_loss(logits(g), g.constant({1, 0}, {i32, {2}})); },
       [](Graph& g) {
         const Value targets = g.constant({1, 0}, {i32, {2}});
         g.output("y", cross_entropy_loss(logits(g), targets.cast(i64)));
       },
       {kLogOf2}},
      {"nothing has to be flattened; here: targets.reshape({1, 3})",
       [](Graph& g) {
         cross_entropy_loss(six(g).reshape({1, 3, 2}), g.constant({1, 0, 1}, {i64, {3}}));
       },
       [](Graph& g) {
         const Value targets = g.constant({1, 0, 1}, {i64, {3}});
         const Value zeros = six(g).reshape({1, 3, 2}) * 0.0;
         g.output("y", cross_entropy_loss(zeros, targets.reshape({1, 3})));
       },
       {kLogOf2}},
      {"nothing has to be flattened; here: targets.reshape({1, 2}) and {.axis = -1}",
       [](Graph& g) {
         cross_entropy_loss(logits(g).reshape({1, 2, 2}), g.constant({1, 0}, {i64, {2}}));
       },
       [](Graph& g) {
         const Value x = logits(g).reshape({1, 2, 2}), targets = g.constant({1, 0}, {i64, {2}});
         g.output("y", cross_entropy_loss(x, targets.reshape({1, 2}), {.axis = -1}));
       },
       {kLogOf2}},
      {"if classes lie in dimension 1, as PyTorch has them: {.axis = 1}",
       [](Graph& g) {
         cross_entropy_loss(six(g).reshape({1, 2, 3}), g.constant({1, 1, 1}, {i64, {1, 3}}));
       },
       [](Graph& g) {
         const Value targets = g.constant({1, 1, 1}, {i64, {1, 3}});
         const Value zeros = six(g).reshape({1, 2, 3}) * 0.0;
         g.output("y", cross_entropy_loss(zeros, targets, {.axis = 1}));
       },
       {kLogOf2}},
  };
  for (const WayOut& row : rows) tests::check(row);
}

TEST_CASE("targets that fit the last dimension and dimension 1: either is said") {
  const auto loss = [](std::optional<std::int64_t> axis) {
    Graph g("g");
    const Value targets = g.constant({0, 0}, {i64, {1, 2}});
    const Value logits = g.constant({50, 50, 0, 0}, {f32, {1, 2, 2}});
    g.output("y", cross_entropy_loss(logits, targets, {.axis = axis}));
    return g;
  };
  CHECK(names_way_out(error_of([&] { compiled(loss({})); }),
                      "say which: {.axis = 1} for classes in dimension 1, as PyTorch has them, "
                      "{.axis = -1} for the last one"));
  for (const int axis : {1, -1}) {
    const Graph g = loss(axis);
    Executable step = compiled(g);
    step.run();
    CHECK(step.read("y").item<double>() == doctest::Approx(axis == 1 ? 0 : kLogOf2));
  }
}

TEST_CASE("draws of halves, and of more indices than there are") {
  const auto said = [](const std::function<void(Graph&)>& declare) {
    Graph g("draws");
    declare(g);
    return error_of([&] { g.validate(); });
  };
  CHECK(names_way_out(said([](Graph& g) { rand(g.seed(), "u", {bf16, {2}}); }),
                      "draw f32, and cast it"));
  CHECK(said([](Graph& g) { g.output("u", rand(g.seed(), "u", {f32, {2}}).cast(bf16)); }) ==
        "nothing");
  CHECK(names_way_out(said([](Graph& g) { multinomial(g.input("w", f32, {3}), 5, "m"); }),
                      "with replacement, draw each by mt::categorical(mt::log(weights), ...)"));
  CHECK(said([](Graph& g) {
          const Value weights = g.input("w", f32, {1, 3});
          const Value all = log(weights) + g.constant(std::vector<double>(5), {f32, {5, 1}});
          g.output("m", categorical(all, "m"));
        }) == "nothing");
}

TEST_CASE("one element of each channel: train with a larger batch, or evaluate alone") {
  const auto normed = [](std::int64_t rows) {
    Graph g("g");
    const Value y = g.input("x", f32, {rows, 2}).through(batch_norm()).named("y");
    g.minimize(mean(square(y)), Sgd{.lr = 0.1});
    return g;
  };
  const Graph one = normed(1), two = normed(2);
  CHECK(error_of([&] {
          compiled(one);
        }).find("train with a larger batch, or compile with .modes = {mt::evaluate} alone") !=
        std::string::npos);
  Executable trained = compiled(two);
  trained.run({{"x", at::ones({2, 2}, at::kFloat)}});
  CHECK(trained.read("y").abs().max().item<double>() == 0);
  CompileOptions options = plain_options();
  options.modes = {Mode::evaluate};
  Executable evaluated = compile(one, cpu_replay(), options);
  evaluated.evaluate({{"x", at::ones({1, 2}, at::kFloat)}});
  CHECK(evaluated.read("y").mean().item<double>() == doctest::Approx(1).epsilon(1e-3));
}

TEST_CASE("an infinite clip_norm: leave it out, and nothing is clipped") {
  const auto trained = [](std::optional<double> clip_norm) {
    Graph g("g");
    const Value w = g.parameter("w", {f32, {}}, ones());
    g.minimize(w * 100.0, Sgd{.lr = 1.0, .clip_norm = clip_norm});
    return g;
  };
  CHECK(names_way_out(error_of([&] { compiled(trained(1.0 / 0.0)); }),
                      "leave it out, and nothing is clipped"));
  const Graph g = trained({});
  Executable step = compiled(g);
  step.run();
  CHECK(step.get("w").item<double>() == -99);
}

}  // namespace
}  // namespace metronome::ways_out_of_ops_test
