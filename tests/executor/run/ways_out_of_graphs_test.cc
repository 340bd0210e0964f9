// The ways out that messages of declarations name, taken: what a message advises compiles, runs,
// and does what was asked for.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "executor/metronome.h"
#include "graph/ir/error.h"
#include "tests/aten.h"
#include "tests/doctest.h"
#include "tests/executor/options.h"
#include "tests/executor/way_out.h"

namespace metronome::ways_out_of_graphs_test {
namespace {

using tests::compiled;
using tests::error_of;
using tests::four;
using tests::names_way_out;
using tests::plain_options;
using tests::six;
using tests::WayOut;

Value same(Value h) { return h; }
Value twice(Value h) { return h * 2.0; }

/// The numbers of a storage after one step.
std::vector<double> after_a_step(const Graph& g, const std::string& path) {
  Executable step = compiled(g);
  step.run();
  const at::Tensor t = step.get(path).to(at::kDouble).contiguous();
  return {t.const_data_ptr<double>(), t.const_data_ptr<double>() + t.numel()};
}

TEST_CASE("loops, branches and states") {
  const WayOut rows[] = {
      {"compare a reduction, as mt::mean(x) > 0.0",
       [](Graph& g) { four(g).loop(twice).until([](Value h) { return h > 7.0; }, 5); },
       [](Graph& g) {
         g.output("y", four(g).loop(twice).until([](Value h) { return mean(h) > 7.0; }, 5));
       },
       {4, 8, 12, 16}},
      {"reduce it, as with mt::argmax, or cast it",
       [](Graph& g) { four(g).choose(same, {same, same, same, twice}); },
       [](Graph& g) {
         const Layer largest = [](Value h) { return argmax(h); };
         g.output("y", four(g).choose(largest, {same, same, same, twice}));
       },
       {2, 4, 6, 8}},
      {"reduce it, as with mt::argmax, or cast it",
       [](Graph& g) { four(g).choose([](Value h) { return mean(h); }, {same, same, twice}); },
       [](Graph& g) {
         const Layer rounded = [](Value h) { return mean(h).cast(i32); };
         g.output("y", four(g).choose(rounded, {same, same, twice}));
       },
       {2, 4, 6, 8}},
      {"mt::Layers(factory, count)",
       [](Graph& g) {
         four(g).choose(g.constant(1, i32), [](int i) { return i == 0 ? same : twice; });
       },
       [](Graph& g) {
         const auto factory = [](int i) { return Layer(i == 0 ? same : twice); };
         g.output("y", four(g).choose(g.constant(1, i32), Layers(factory, 2)));
       },
       {2, 4, 6, 8}},
      {"mt::Layers(factory, count)",
       [](Graph& g) { four(g).split([](int i) { return i == 0 ? same : twice; }); },
       [](Graph& g) {
         const auto factory = [](int i) { return Layer(i == 0 ? same : twice); };
         g.output("y", four(g).split(Layers(factory, 2)).merge([](const Values& made) {
           return made[0] + made[1];
         }));
       },
       {3, 6, 9, 12}},
      {"carry it in the stream of its loop or branch",
       [](Graph& g) {
         Value square;
         const Layer squared = [&](Value h) {
           square = h * h;
           return square + h;
         };
         const Value y = four(g).choose(g.constant(0, i32), {squared, same});
         g.output("y", y + square);
       },
       [](Graph& g) {
         const Layer squared = [](Value h) { return concat({h * h + h, h * h}, 0); };
         const Layer plain = [](Value h) { return concat({h, h}, 0); };
         const Value both = four(g).choose(g.constant(0, i32), {squared, plain});
         g.output("y", both.slice(0, 0, 4) + both.slice(0, 4, 8));
       },
       {3, 10, 21, 36}},
      {"carry it in the stream of its loop or branch",
       [](Graph& g) {
         Value seen;
         const Layer body = [&](Value h) {
           seen = h * 3.0;
           return h * 2.0;
         };
         four(g).loop(body).until([](Value h) { return mean(h) > 7.0; }, 5);
         g.output("y", seen);
       },
       [](Graph& g) {
         const Value x = four(g);
         const auto body = [](const Values& v) -> Values { return {v[0] * 2.0, v[0] * 3.0}; };
         const auto halt = [](const Values& v) { return mean(v[0]) > 7.0; };
         g.output("y", loop({x, x}, body).until(halt, 5)[1]);
       },
       {6, 12, 18, 24}},
      {"make it with Graph::state",
       [](Graph& g) {
         const Value count = g.parameter("count", {f32, {}}, ones());
         g.feed(count, count + 1.0);
       },
       [](Graph& g) {
         const Value count = g.state("count", {f32, {}}, ones());
         g.feed(count, count + 1.0);
         g.output("y", count + 1.0);
       },
       {2}},
      {"where the state is all there is, give it twice: {next, next}",
       [](Graph& g) {
         g.unroll(2, g.state("h", {f32, {}}, ones()),
                  [](Value h, int) { return Unrolled{h * 2.0, {}}; });
       },
       [](Graph& g) {
         const Values outputs =
             g.unroll(2, g.state("h", {f32, {}}, ones()), [](Value h, int) -> Unrolled {
               const Value next = h * 2.0;
               return {next, next};
             });
         g.output("y", outputs[1]);
       },
       {4}},
      {"use Graph::parameter or an input for what no step changes",
       [](Graph& g) { g.output("y", four(g) * g.state("w", {f32, {}}, constant(2))); },
       [](Graph& g) { g.output("y", four(g) * g.parameter("w", {f32, {}}, constant(2))); },
       {2, 4, 6, 8}},
  };
  for (const WayOut& row : rows) tests::check(row);
}

TEST_CASE("use an input for what no step changes") {
  Graph g("g");
  g.output("y", four(g) * g.input("w", f32, {}));
  Executable step = compiled(g);
  step.run({{"w", at::full({}, 2.0, at::kFloat)}});
  CHECK(step.read("y").sum().item<double>() == 20);
}

TEST_CASE("names, paths and types of storages") {
  const char* const renamed = "give it another name, or a scope";
  const WayOut rows[] = {
      {"give it another name, or its scope",
       [](Graph& g) { g.output("y", g.parameter("optimizer", {f32, {}}, ones())); },
       [](Graph& g) { g.output("y", g.parameter("optimizers", {f32, {}}, ones())); },
       {1}},
      {"give it another name, or its scope",
       [](Graph& g) { g.output("y", six(g).scope("optimizer", linear(1))); },
       [](Graph& g) { g.output("y", six(g).scope("optimizers", linear(1)) * 0.0); },
       {0, 0}},
      {"give its scope another name",
       [](Graph& g) { g.output("y", six(g).scope("average", linear(1))); },
       [](Graph& g) { g.output("y", six(g).scope("averages", linear(1)) * 0.0); },
       {0, 0}},
      {renamed,
       [](Graph& g) { g.output("y", g.parameter("seed", {f32, {}}, ones())); },
       [](Graph& g) { g.output("y", g.parameter("seeds", {f32, {}}, ones())); },
       {1}},
      {renamed,
       [](Graph& g) { g.output("y", g.parameter("__metadata__", {f32, {}}, ones())); },
       [](Graph& g) {
         g.output("y", four(g).scope("file", [&](Value h) {
           return h + g.parameter("__metadata__", {f32, {}}, ones());
         }));
       },
       {2, 3, 4, 5}},
      {renamed,
       [](Graph& g) {
         const Value a = g.parameter("w", {f32, {}}, ones());
         g.output("y", a + g.parameter("w", {f32, {}}, ones()));
       },
       [](Graph& g) {
         const Value a = g.parameter("w", {f32, {}}, ones());
         const Value b = g.parameter("v", {f32, {}}, ones());
         g.output("y", (a + b).scope("inner", [&](Value h) {
           return h + g.parameter("w", {f32, {}}, ones());
         }));
       },
       {3}},
      {"keep it in f32 and cast what reads it: g.parameter(...).cast(mt::bf16)",
       [](Graph& g) { g.output("y", g.parameter("w", {bf16, {2}}, constant(1.5))); },
       [](Graph& g) { g.output("y", g.parameter("w", {f32, {2}}, constant(1.5)).cast(bf16)); },
       {1.5, 1.5}},
      {"inputs of one shape at each use of shared weights",
       [](Graph& g) {
         const Layer layer = shared(linear(1));
         g.output("y", layer(six(g)) - layer(four(g).reshape({2, 2})));
       },
       [](Graph& g) {
         const Layer layer = shared(linear(1));
         g.output("y", layer(six(g)) - layer(six(g)));
       },
       {0, 0}},
  };
  for (const WayOut& row : rows) tests::check(row);
}

TEST_CASE("a loss of many elements: reduce it with mt::mean or mt::sum") {
  Graph refused("refused");
  refused.minimize(refused.parameter("w", {f32, {2}}, ones()), Sgd{.lr = 1.0});
  CHECK(names_way_out(error_of([&] { compiled(refused); }), "reduce it with mt::mean or mt::sum"));
  Graph by_mean("g"), by_sum("g");
  by_mean.minimize(mean(by_mean.parameter("w", {f32, {2}}, ones())), Sgd{.lr = 1.0});
  by_sum.minimize(sum(by_sum.parameter("w", {f32, {2}}, ones())), Sgd{.lr = 1.0});
  CHECK(after_a_step(by_mean, "w") == std::vector{0.5, 0.5});
  CHECK(after_a_step(by_sum, "w") == std::vector{0.0, 0.0});
}

/// An actor and a critic, each with a loss.
struct Agent {
  Graph g{"agent"};
  Value x = g.input("x", f64, {4, 3});
  Value actor = mean(square(x.scope("actor", linear(1)) - 1.0));
  Value critic = mean(square(x.scope("critic", linear(1)) + 1.0));
};

at::Tensor batch() { return at::linspace(-1, 1, 12, at::kDouble).reshape({4, 3}); }

/// One step of `all` moves the actor and the critic as each alone would move.
void check_each_as_alone(const Agent& all) {
  for (const std::string part : {"actor", "critic"}) {
    CAPTURE(part);
    const bool is_actor = part == "actor";
    Agent one;
    one.g.minimize(is_actor ? one.actor : one.critic, Sgd{.lr = is_actor ? 0.1 : 0.05});
    one.g.freeze(is_actor ? "critic" : "actor");
    Executable alone = compiled(one.g), step = compiled(all.g);
    const std::string weight = part + "/linear/weight";
    alone.set(weight, step.get(weight));
    alone.run({{one.x, batch()}});
    step.run({{all.x, batch()}});
    CHECK(at::allclose(step.get(weight), alone.get(weight), 1e-12, 0));
  }
}

TEST_CASE("a second loss: a name and parameters of its own, or the sum of both") {
  Agent refused;
  refused.g.minimize(refused.actor, Sgd{.lr = 0.1});
  refused.g.minimize(refused.critic, Sgd{.lr = 0.05});
  CHECK(names_way_out(error_of([&] { compiled(refused.g); }),
                      "give it one, and the parameters that it trains: {.name = \"critic\", "
                      ".parameters = {\"critic\"}}; or minimize the sum of the losses"));
  Agent two;
  two.g.minimize(two.actor, Sgd{.lr = 0.1}, {.parameters = {"actor"}});
  two.g.minimize(two.critic, Sgd{.lr = 0.05}, {.name = "critic", .parameters = {"critic"}});
  check_each_as_alone(two);
  Agent sum;
  sum.g.minimize(sum.actor + sum.critic, Sgd{.lr = 0.1});
  sum.g.scale_learning_rate("critic", 0.5);
  check_each_as_alone(sum);
}

TEST_CASE("one parameter in two sets, or in none") {
  Agent both;
  both.g.minimize(both.actor, Sgd{.lr = 0.1});
  both.g.minimize(both.critic, Sgd{.lr = 0.05}, {.name = "critic"});
  CHECK(names_way_out(error_of([&] { compiled(both.g); }),
                      "name those of each: {.parameters = {\"critic\"}}"));
  Agent missed;
  missed.g.minimize(missed.actor, Sgd{.lr = 0.1}, {.parameters = {"actor", "critic"}});
  CHECK(names_way_out(error_of([&] { compiled(missed.g); }),
                      "leave them out of ObjectiveOptions::parameters, or freeze them"));
  Agent none;
  none.g.minimize(none.actor, Sgd{.lr = 0.1}, {.parameters = {"actor"}});
  CHECK(names_way_out(error_of([&] { compiled(none.g); }),
                      "name it in ObjectiveOptions::parameters, or freeze it"));
  none.g.freeze("critic");
  CHECK(error_of([&] { compiled(none.g); }) == "nothing");
  Agent empty, whole;
  empty.g.minimize(empty.actor, Sgd{.lr = 0.1}, {.parameters = {}});
  CHECK(names_way_out(error_of([&] { compiled(empty.g); }),
                      "leave the member out, and the objective trains all parameters"));
  whole.g.minimize(whole.actor + whole.critic, Sgd{.lr = 0.1}, {.name = "whole"});
  CHECK(compiled(whole.g).report().unreached.empty());
  Agent asked;
  const Value slope = asked.g.gradient(asked.x);
  asked.g.minimize(asked.actor, Sgd{.lr = 0.1}, {.parameters = {"actor"}});
  const Objective critic =
      asked.g.minimize(asked.critic, Sgd{.lr = 0.05}, {.name = "critic", .parameters = {"critic"}});
  CHECK(names_way_out(error_of([&] { compiled(asked.g); }),
                      "call it of the Objective that minimize returned"));
  Agent right;
  right.g.minimize(right.actor, Sgd{.lr = 0.1}, {.parameters = {"actor"}});
  const Value by_critic =
      right.g.minimize(right.critic, Sgd{.lr = 0.05}, {.name = "critic", .parameters = {"critic"}})
          .gradient(right.x);
  Executable step = compiled(right.g);
  step.run({{right.x, batch()}});
  CHECK(step.read(by_critic).sizes() == at::IntArrayRef({4, 3}));
}

TEST_CASE("a number that is to decide") {
  for (const bool compared : {false, true}) {
    Agent agent;
    const Value x = mean(agent.x);
    const Value when = compared ? x > 0.5 : x;
    agent.g.minimize(agent.actor + agent.critic, Sgd{.lr = 0.1}, {.when = when});
    const std::string text = error_of([&] { compiled(agent.g); });
    CHECK(names_way_out(text, "compare a number: .when = mt::mean(x) > 0.5") == !compared);
    if (!compared) continue;
    Executable step = compiled(agent.g);
    for (const double shift : {0.0, 1.0}) step.run({{agent.x, batch() + shift}});
    CHECK(step.updates() == 1);
  }
}

TEST_CASE("an average of what follows behind it") {
  const auto declared = [](bool follows_first) {
    Graph g("averages");
    const Value w = g.parameter("critic/w", {f64, {}}, ones());
    g.parameter("target/w", {f64, {}}, ones());
    if (follows_first) g.follow("target", "critic", {.rate = 0.5});
    g.average("**", {.decay = 0.9});
    if (!follows_first) g.follow("target", "critic", {.rate = 0.5});
    g.minimize(square(w), Sgd{});
    return error_of([&] { compiled(g); });
  };
  CHECK(names_way_out(declared(false), "call follow before average, which then leaves it out"));
  CHECK(declared(true) == "nothing");
}

TEST_CASE("weights of replays: sum them, or leave them out; lazy or accumulated") {
  Agent counted, summed, alone;
  const auto trained = [](Agent& agent, ObjectiveOptions options, Optimizer optimizer = Sgd{}) {
    agent.g.minimize(agent.actor + agent.critic, std::move(optimizer), options);
    return error_of([&] { compiled(agent.g); });
  };
  CHECK(names_way_out(trained(counted, {.accumulate = 2, .weight = square(counted.x)}),
                      "cast it, or sum it: .weight = mt::sum(counts).cast(mt::f32)"));
  CHECK(trained(summed, {.accumulate = 2, .weight = sum(square(summed.x)).cast(f32)}) == "nothing");
  CHECK(names_way_out(trained(alone, {.weight = mean(alone.x)}),
                      "leave the weight out: one replay is its own mean"));
  Agent lazy, whole, each;
  CHECK(names_way_out(trained(lazy, {.accumulate = 2}, Adam{.lazy = true}),
                      "leave out .lazy, or .accumulate"));
  CHECK(trained(whole, {.accumulate = 2}, Adam{}) == "nothing");
  CHECK(trained(each, {}, Adam{.lazy = true}) == "nothing");
}

/// An optimizer that keeps a moment of a name that may be an objective's.
struct Remembering {
  static constexpr std::string_view name = "remembering";
  std::string moment = "loss";
  bool operator==(const Remembering&) const = default;
  std::string attributes() const { return moment; }
  std::vector<Moment> moments() const { return {{moment, zeros()}}; }
  Values scalars(Value, double) const { return {}; }
  Values update(Value parameter, Value gradient, std::span<const Value>,
                std::span<const Value>) const {
    return {parameter - gradient * 0.1, gradient};
  }
};

TEST_CASE("a moment where an objective keeps its loss: another name") {
  const auto trained = [](const std::string& objective, const std::string& moment) {
    Graph g("kept");
    const Value w = g.parameter("critic", {f64, {}}, ones());
    g.minimize(square(w), Remembering{moment}, {.name = objective, .every = 2});
    return error_of([&] { compiled(g); });
  };
  CHECK(
      names_way_out(trained("critic", "loss"), "give the objective, or the moment, another name"));
  CHECK(trained("judge", "loss") == "nothing");
  CHECK(trained("critic", "losses") == "nothing");
}

/// Two parameters of 1 that are trained alike.
struct Pair {
  Graph g{"pair"};
  Pair() {
    const Value a = g.parameter("a", {f32, {}}, ones()), b = g.parameter("b", {f32, {}}, ones());
    g.minimize(a + b, Sgd{.lr = 0.5});
  }
};

TEST_CASE("a rate of 0: freeze what is not to be trained") {
  Pair refused, taken;
  refused.g.scale_learning_rate("a", 0);
  CHECK(names_way_out(error_of([&] { compiled(refused.g); }), "freeze what is not to be trained"));
  taken.g.freeze("a");
  CHECK(after_a_step(taken.g, "a") == std::vector{1.0});
  CHECK(after_a_step(taken.g, "b") == std::vector{0.5});
}

TEST_CASE("a second average: give it a name") {
  Pair refused, taken;
  for (const double rate : {1.0, 0.5}) refused.g.average("**", {.rate = rate});
  CHECK(names_way_out(error_of([&] { compiled(refused.g); }), "give it one: {.name = \"slow\"}"));
  taken.g.average("**", {.rate = 1.0});
  taken.g.average("**", {.rate = 0.5, .name = "slow", .bias_correction = false});
  CHECK(after_a_step(taken.g, "average/ema/a") == std::vector{0.5});
  CHECK(after_a_step(taken.g, "average/slow/a") == std::vector{0.75});
}

TEST_CASE("a parameter that follows and is trained: leave out what thaws it") {
  Graph refused("g"), taken("g");
  for (Graph* g : {&refused, &taken}) {
    const Value a = g->parameter("a", {f32, {}}, ones());
    const Value b = g->parameter("b", {f32, {}}, ones());
    g->minimize(a + b, Sgd{.lr = 0.5});
    g->follow("b", "a", {.rate = 0.5});
  }
  refused.thaw("b");
  CHECK(names_way_out(error_of([&] { compiled(refused); }), "leave out what thaws it"));
  CHECK(after_a_step(taken, "b") == std::vector{0.75});
}

TEST_CASE("an objective that names what follows: leave it out") {
  const auto declared = [](std::vector<std::string> trained) {
    Graph g("g");
    const Value a = g.parameter("a", {f32, {}}, ones()), b = g.parameter("b", {f32, {}}, ones());
    g.minimize(a + b, Sgd{.lr = 0.5}, {.parameters = std::move(trained)});
    g.follow("b", "a", {.rate = 0.5});
    return g;
  };
  CHECK(names_way_out(error_of([&] { compiled(declared({"a", "b"})); }),
                      "leave what follows out of ObjectiveOptions::parameters"));
  CHECK(after_a_step(declared({"a"}), "b") == std::vector{0.75});
}

TEST_CASE("nothing to train: thaw a parameter, or compile the forward pass alone") {
  const auto declared = [](bool minimize) {
    Graph g("g");
    const Value w = g.parameter("w", {f32, {}}, ones());
    g.output("y", w * 3.0);
    g.freeze("w");
    if (minimize) g.minimize(w, Sgd{.lr = 0.5});
    return g;
  };
  Graph g = declared(true);
  CHECK(
      names_way_out(error_of([&] { compiled(g); }),
                    "thaw a parameter, or leave minimize out and compile the forward pass alone"));
  g.thaw("w");
  CHECK(after_a_step(g, "w") == std::vector{0.5});
  const Graph forward = declared(false);
  Executable step = compiled(forward);
  step.run();
  CHECK(step.read("y").item<double>() == 3);
}

TEST_CASE("a batch of any size: a graph for each, compiled together") {
  Graph refused("g");
  refused.output("y", refused.input("x", f32, {-1, 2}) * 2.0);
  CHECK(names_way_out(error_of([&] { compiled(refused); }),
                      "declare the graph once for each batch size, and compile them together: "
                      "compile({&a, &b})"));
  Graph a("g"), b("g");
  a.output("y", a.input("x", f32, {1, 2}) * 2.0);
  b.output("y", b.input("x", f32, {3, 2}) * 2.0);
  Executable step = compile({&a, &b}, cpu_replay(), plain_options());
  for (const int rows : {1, 3}) {
    step.run({{"x", at::ones({rows, 2}, at::kFloat)}});
    CHECK(step.read("y").equal(at::full({rows, 2}, 2.0, at::kFloat)));
  }
}

TEST_CASE("a graph that was moved from: use the graph that it was moved to") {
  Graph from("g");
  from.output("y", four(from));
  Graph to = std::move(from);
  CHECK(names_way_out(error_of([&] { from.constant(1, f32); }),
                      "use the graph that it was moved to"));
  to.output("z", to.constant(1, f32));
  Executable step = compiled(to);
  step.run();
  CHECK(step.read("z").item<double>() == 1);
}

TEST_CASE("a value whose graph was destroyed serves executables, to feed and to read") {
  const std::string way_out =
      "keep the Graph beside its values; without it they serve executables alone, to feed and to "
      "read";
  auto g = std::make_unique<Graph>("g");
  const Value x = g->input("x", f32, {2});
  const Value y = (x * 2.0).named("y");
  Executable step = compiled(*g);  // the graph lives, and x can be declared with
  g.reset();
  CHECK(names_way_out(error_of([&] { x * 3.0; }), way_out));
  step.run({{x, at::ones({2}, at::kFloat)}});
  CHECK(step.read(y).sum().item<double>() == 4);
}

}  // namespace
}  // namespace metronome::ways_out_of_graphs_test
