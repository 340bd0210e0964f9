// The snippets of docs/guide.md, compiled and run: each stands here line by line
// (tests/source/documents_test.py).
#include <ATen/ops/randint.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "executor/metronome.h"
#include "executor/metronome/op.h"
#include "tests/aten.h"
#include "tests/doctest.h"
#include "tests/executor/temporary_folder.h"

namespace mt = metronome;

namespace metronome {
namespace {

// A layer is a function of values. Each call makes weights of its own.
mt::Value gated(mt::Value x) {
  const mt::Value h = x.through(mt::linear(32)).through(mt::gelu);
  const mt::Value gate = mt::sigmoid(x.through(mt::linear(32)));
  return x + gate * h;
}

TEST_CASE("a model, its data, a checkpoint, a page of its plan") {
  const TemporaryFolder temporary;
  const std::string file = temporary.file("tower.safetensors"), page = temporary.file("plan.html");
  const at::Tensor vectors = at::randn({640, 32}), classes = at::randint(10, {640});
  mt::Graph g("tower");
  mt::Value x = g.input("x", mt::f32, {64, 32}), label = g.input("label", mt::i64, {64});
  mt::Value logits = x.repeat(4, gated).through(mt::layer_norm()).through(mt::linear(10));
  g.output("accuracy", mt::accuracy(logits, label));
  g.minimize(mt::cross_entropy_loss(logits, label),
             mt::AdamW{.lr = mt::Cosine{.lr = 1e-3, .steps = 1000}, .clip_norm = 1.0});

  mt::Executable step = mt::compile(g, mt::cpu_replay(), {.modes = {mt::train, mt::evaluate}});

  const mt::BatchOrder order(vectors.size(0), 64, /*seed=*/1, mt::LastBatch::drop);
  while (step.replays() < 2 * order.batches_per_epoch()) {
    const auto [epoch, position] = order.at(step.replays());
    const at::Tensor rows = at::tensor(order.epoch(epoch)).slice(0, 64 * position).slice(0, 0, 64);
    step.run({{x, vectors.index_select(0, rows)}, {label, classes.index_select(0, rows)}});
  }
  step.evaluate({{x, vectors.slice(0, 0, 64)}, {label, classes.slice(0, 0, 64)}});
  fmt::print("accuracy {:.3f}\n", step.read("accuracy").item<double>());
  CHECK(step.updates() == 20);

  step.save(file);
  mt::Executable other = mt::compile(g, mt::cpu_replay(), {.modes = {mt::train, mt::evaluate}});
  for (const std::string& line : other.load(file)) fmt::print("{}\n", line);
  CHECK(other.replays() == 20);  // it goes on with the next batch, rate and random numbers
  CHECK(at::equal(other.get("linear/weight"), step.get("linear/weight")));

  fmt::print("{}\n", mt::to_string(step.report()));
  const mt::Profile profile = step.profile({}, {.steps = 20});  // 20 more steps
  std::ofstream(page) << mt::to_html(step.plan_record(profile));
  CHECK(std::ifstream(page).good());
}

// x times one factor for each channel: `scaled/factor`, then `scaled_1/factor`.
mt::Value scaled(mt::Value x, mt::Line line) {
  if (!x.usable(line)) return x;  // a mistake was reported before
  const mt::LineScope caller(x.emitter(), line);
  const mt::PathScope scope(x.emitter(), "scaled", mt::PathScope::Kind::layer);
  const mt::Type type{x.element(), {x.size(-1)}};
  return x * mt::make_parameter(x.emitter(), "factor", type, mt::ones(), line);
}

TEST_CASE("a layer makes parameters of its own, in a loop and shared too") {
  mt::Graph g("factors");
  const mt::Value x = g.input("x", mt::f32, {4, 8});
  const mt::Layer once = mt::shared(scaled);
  const mt::Value h = x.through(scaled).through(scaled).loop(scaled).times(3);
  g.output("y", h.through(once).through(once));
  std::vector<std::string> paths;
  for (const mt::DeclaredParameter& parameter : g.parameters()) paths.push_back(parameter.path);
  CHECK(paths == std::vector<std::string>{"scaled/factor", "scaled_1/factor", "loop/scaled/factor",
                                          "shared/scaled/factor"});
  h.through(mt::shared(mt::linear(2)));  // the third call of a shared layer
  CHECK(g.parameters().back().path == "shared_2/linear/bias");
  h.scope("encoder", mt::shared(mt::linear(2)));
  CHECK(g.parameters().back().path == "encoder/shared/linear/bias");
  h.scope("by hand",
          [&](mt::Value v) { return v * g.parameter("factor", {mt::f32, {8}}, mt::ones()); });
  CHECK(g.parameters().back().path == "by hand/factor");
  g.validate();
}

TEST_CASE("one function declares several batch shapes") {
  const auto declare = [](mt::Graph& g, std::int64_t rows) {
    const mt::Value x = g.input("x", mt::f32, {rows, 8});
    g.minimize(mt::mean(mt::square(x.through(mt::linear(8)))), mt::Sgd{.lr = 0.1});
  };
  mt::Graph g256("net"), g37("net");
  declare(g256, 256);
  declare(g37, 37);
  mt::Executable step = mt::compile({&g256, &g37});
  step.run({{"x", at::ones({256, 8})}});
  step.run({{"x", at::ones({37, 8})}});  // the short last batch: the same parameters
  CHECK(step.updates() == 2);
}

TEST_CASE("one executable trains, evaluates and samples") {
  const auto declare = [](mt::Graph& graph, std::int64_t rows, bool trains) {
    const mt::Value byte = graph.input("byte", mt::i64, {rows});
    const mt::Value h = graph.state("h", {mt::f32, {rows, 16}});
    const mt::Value next = mt::gru_cell(16)(byte.through(mt::embedding(256, 16)), h);
    graph.feed(h, next);
    const mt::Value logits = next.through(mt::linear(256));
    graph.output("logits", logits);
    if (!trains) return byte;
    const mt::Value target = graph.input("target", mt::i64, {rows});
    graph.minimize(mt::cross_entropy_loss(logits, target), mt::Adam{});
    return byte;
  };
  mt::Graph g("text"), large("text"), one("text");
  declare(g, 4, true);
  declare(large, 32, false);
  const mt::Value one_byte = declare(one, 1, false);
  const at::Tensor byte = at::full({1}, 'a', at::kLong);
  auto step = mt::compile({{&g, {mt::train}}, {&large, {mt::evaluate}}, {&one, {mt::advance}}});
  step.evaluate({{one_byte, byte}}, {.states = mt::States::advance});  // sampling: states go on
  CHECK(step.get("h[1, 16]").abs().sum().item<float>() > 0);
}

TEST_CASE("a value, or the option graph, picks one of two graphs that a feed fits") {
  mt::Graph explore("explore"), policy("policy");
  const mt::Value noisy = explore.input("obs", mt::f32, {1, 3});
  explore.output("action", noisy.through(mt::linear(1)) + explore.input("noise", mt::f32, {1, 1}));
  const mt::Value policy_obs = policy.input("obs", mt::f32, {1, 3});
  policy.output("action", policy_obs.through(mt::linear(1)));
  const at::Tensor observed = at::ones({1, 3});
  auto agent = mt::compile({{&explore, {mt::evaluate}}, {&policy, {mt::evaluate}}});
  agent.evaluate({{policy_obs, observed}});                  // the graph of this value
  agent.evaluate({{"obs", observed}}, {.graph = "policy"});  // "obs" alone fits explore, too
  CHECK(agent.read("action").allclose(agent.get("linear/weight").sum() + agent.get("linear/bias")));
}

TEST_CASE("loops, branches and experts are verbs of a value") {
  mt::Graph g("verbs");
  mt::Value x = g.input("x", mt::f32, {32, 16}), which = g.input("which", mt::i64, {});

  const mt::Layer turn = [](mt::Value h) { return mt::tanh(h.through(mt::linear(16))); };
  const mt::Layer is_still = [](mt::Value h) { return mt::max(mt::abs(h)) < 0.5; };
  mt::Value still = x.loop(turn).until(is_still, 8);  // one set of weights, at most 8 passes
  g.output("passes", mt::iterations(still));

  mt::Value chosen = still.choose(which, {mt::relu, mt::linear(16)});

  const auto expert = [](int) {
    return [](mt::Value h) { return mt::relu(h.through(mt::linear(16))); };
  };
  const mt::Layer router = [](mt::Value h) { return mt::softmax(h.through(mt::linear(4))); };
  mt::Value mixed = chosen.route(router, expert, {.top = 2});
  g.output("dropped", mt::dropped(mixed));
  g.minimize(mt::mean(mt::square(mixed)) + 0.01 * mt::balance_loss(mixed), mt::Adam{});

  mt::Executable step = mt::compile(g);
  step.run({{x, at::randn({32, 16})}, {which, at::scalar_tensor(1, at::kLong)}});
  CHECK(step.read("passes").item<std::int64_t>() >= 1);
  CHECK(step.read("dropped").item<std::int64_t>() >= 0);
}

TEST_CASE("of a large table only rows that are looked up are updated") {
  mt::Graph g("table");
  mt::Value token = g.input("token", mt::i64, {32});
  mt::Value wanted = g.input("wanted", mt::f32, {32, 64});

  mt::Value rows = token.through(mt::embedding(50'000, 64));
  g.minimize(mt::mse_loss(rows, wanted), mt::Adam{.lazy = true});

  mt::Executable step = mt::compile(g);
  const at::Tensor before = step.get("embedding/weight").clone();
  step.run({{token, at::full({32}, 7, at::kLong)}, {wanted, at::randn({32, 64})}});
  const at::Tensor changed = step.get("embedding/weight").ne(before).any(1);
  CHECK(changed.sum().item<std::int64_t>() == 1);
}

TEST_CASE("a state is what a step leaves for the next") {
  mt::Graph g("feedback");
  mt::Value x = g.input("x", mt::f32, {4, 8}), target = g.input("target", mt::f32, {4, 8});
  mt::Value last = g.state("last", {mt::f32, {4, 8}});
  mt::Value y = mt::tanh((x + 0.5 * last).through(mt::linear(8)));
  g.feed(last, y);
  g.minimize(mt::mse_loss(y, target), mt::Sgd{.lr = 0.1});

  mt::Executable step = mt::compile(g);
  const at::Tensor one = at::ones({4, 8});
  step.run({{x, one}, {target, one}});
  CHECK(step.get("last").abs().sum().item<float>() > 0);
  step.reset("last");  // a new sequence begins
  CHECK(step.get("last").abs().sum().item<float>() == 0);
}

TEST_CASE("a scan carries a value and keeps what each step makes") {
  mt::Graph g("scan");
  const mt::Value sequence = g.input("sequence", mt::f32, {5, 4, 8});
  const mt::Value start = g.input("start", mt::f32, {4, 8});
  mt::Values outputs;
  const auto turn = [&](mt::Value h, int t) {
    const mt::Value now = sequence.slice(0, t, t + 1).reshape({4, 8});  // sequence is [5, 4, 8]
    const mt::Value in = now.through(mt::linear(8)), kept = h.through(mt::linear(8));
    outputs.push_back(mt::tanh(in + kept));
    return outputs.back();
  };
  mt::Value last_one = start.loop(turn).times(5);
  mt::Value all = mt::stack(outputs, 0);  // [5, 4, 8]
  g.output("last", last_one);
  g.output("all", all);
  mt::Executable step = mt::compile(g);
  const at::Tensor fed = at::randn({5, 4, 8});
  step.run({{sequence, fed}, {start, at::zeros({4, 8})}});
  CHECK(at::equal(step.read(all)[4], step.read(last_one)));
  const at::Tensor now = at::linear(fed[0], step.get("loop/linear/weight")) +
                         step.get("loop/linear/bias") + step.get("loop/linear_1/bias");
  CHECK(at::allclose(step.read(all)[0], at::tanh(now), 1e-4, 1e-4));
}

TEST_CASE("an actor and a critic train in one step, each by an objective of its own") {
  mt::Graph g("both"), alone("critic");
  mt::Value seen = g.input("seen", mt::f32, {64, 8}), done = g.input("done", mt::f32, {64, 2});
  mt::Value returned = g.input("returned", mt::f32, {64, 1});

  mt::Layer judge = mt::shared(mt::linear(1));
  mt::Value still = mt::tanh(seen.scope("actor", mt::linear(2)));
  mt::Value action = still + 0.1 * mt::randn_like(still, "noise");
  mt::Value value = mt::concat({seen, done}, 1).scope("critic", judge);
  mt::Objective critic = g.minimize(mt::mse_loss(value, returned), mt::Adam{.lr = 1e-3},
                                    {.name = "critic", .parameters = {"critic"}});
  mt::Value climbed = mt::concat({seen, action}, 1).through(judge);  // by the updated critic
  mt::Objective actor = g.minimize(-mt::mean(climbed), mt::Sgd{.lr = 0.05},
                                   {.name = "actor", .parameters = {"actor"}});

  mt::Value both = alone.input("both", mt::f32, {64, 10}),
            aim = alone.input("aim", mt::f32, {64, 1});
  alone.minimize(mt::mse_loss(both.scope("critic", mt::shared(mt::linear(1))), aim),
                 mt::Adam{.lr = 1e-3});
  const mt::Value norm = critic.gradient_norm();
  mt::Executable step = mt::compile(g), judged = mt::compile(alone);
  for (const std::string& path : judged.storages()) judged.set(path, step.get(path));
  const at::Tensor actor_before = step.get("actor/linear/weight");
  const at::Tensor states = at::randn({64, 8}), actions = at::randn({64, 2});
  const at::Tensor returns = at::randn({64, 1});
  step.run({{seen, states}, {done, actions}, {returned, returns}});
  judged.run({{both, at::cat({states, actions}, 1)}, {aim, returns}});
  CHECK_FALSE(at::equal(step.get("actor/linear/weight"), actor_before));
  CHECK(at::allclose(step.get("critic/shared/linear/weight"),
                     judged.get("critic/shared/linear/weight")));
  CHECK(step.read("loss/critic").item<double>() == step.read_scalar(critic.loss()));
  CHECK(std::isfinite(step.read_scalar(actor.loss())));
  CHECK(step.read_scalar(norm) > 0);
}

TEST_CASE("a policy loads what a training saved, also where it has only a part of it") {
  const TemporaryFolder temporary;
  const std::string file = temporary.file("trained.safetensors");
  const auto act = [](mt::Graph& g, std::int64_t rows) {
    const mt::Value seen = g.input("seen", mt::f32, {rows, 8});
    g.output("action", mt::tanh(seen.scope("actor", mt::linear(1))));
    return seen;
  };
  const auto judge = [](mt::Value seen) { return seen.scope("critic", mt::linear(1)); };
  mt::Graph whole("net"), policy("net"), actor("net");
  const mt::Value seen = act(whole, 64);
  whole.minimize(mt::mean(mt::square(judge(seen))), mt::Adam{});
  mt::Executable step = mt::compile(whole);
  step.run({{seen, at::randn({64, 8})}});
  step.save(file);

  const mt::Value observation = act(policy, 1), actor_observation = act(actor, 1);
  policy.output("value", judge(observation));
  mt::Executable acts = mt::compile(policy, mt::cpu_replay(), {.modes = {mt::evaluate}});
  for (const std::string& line : acts.load(file)) fmt::print("{}\n", line);
  acts.evaluate({{observation, at::ones({1, 8})}});
  fmt::print("{}\n", acts.read("action").item<double>());

  const at::Tensor observed = acts.input(observation), action = acts.read("action");
  for (int turn = 0; turn < 3; ++turn) {
    observed.fill_(turn);
    acts.evaluate();
    fmt::print("{}\n", action.item<double>());
  }
  const at::Tensor in_place = action.clone();
  acts.evaluate({{observation, at::full({1, 8}, 2.0)}});
  CHECK(at::equal(acts.read("action"), in_place));
  acts.evaluate({{observation, at::ones({1, 8})}});

  mt::Executable small = mt::compile(actor, mt::cpu_replay(), {.modes = {mt::evaluate}});
  fmt::print("{}\n", mt::to_string(small.load(file, {.strict = false})));  // "2 loaded; left: ..."
  small.evaluate({{actor_observation, at::ones({1, 8})}});
  CHECK(at::equal(small.read("action"), acts.read("action")));
}

TEST_CASE("weights go from PyTorch and to it, under other names") {
  const TemporaryFolder temporary;
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(temporary.path());
  {
    mt::Graph module("module");
    const mt::Value fc1 = module.parameter("fc1/weight", {mt::f32, {3, 2}}, mt::ones());
    module.output("y", sum(fc1) + module.parameter("fc1/bias", {mt::f32, {3}}, mt::ones()));
    mt::compile(module).save("weights.safetensors", mt::SaveOptions{});
    mt::Graph g("net");
    g.output("y", g.input("x", mt::f32, {1, 2}).scope("fc1", mt::linear(3)));
    mt::Executable step = mt::compile(g);
    step.load("weights.safetensors", {.rename = {{"fc1", "fc1/linear"}}});
    CHECK(at::equal(step.get("fc1/linear/weight"), at::ones({3, 2})));
  }
  mt::Graph g("net");
  g.output("y", g.input("x", mt::f32, {1, 2}).scope("actor", mt::linear(3)));
  mt::Executable step = mt::compile(g);
  step.save("actor.safetensors", {.only = {"actor"}, .element = mt::bf16});
  const at::Tensor weight = step.get("actor/linear/weight");
  step.load("actor.safetensors", {.only = {"actor"}});
  CHECK(at::equal(step.get("actor/linear/weight"), weight.to(at::kBFloat16).to(at::kFloat)));
  std::filesystem::current_path(before);
}

TEST_CASE("a fault names the node that made a NaN") {
  mt::Graph g("roots");
  mt::Value x = g.input("x", mt::f32, {4});
  g.output("root", mt::sqrt(x));
  mt::Executable step = mt::compile(g, mt::cpu_replay(), {.watch = true});
  step.run({{x, at::tensor({1.0F, -1.0F, 4.0F, 9.0F})}});
  if (const auto fault = step.fault()) fmt::print("{}\n", *fault);
  CHECK(step.fault().value_or("").ends_with(": made a NaN"));
}

TEST_CASE("a monitor keeps the points of a training, and shows them") {
  const TemporaryFolder temporary;
  const std::string folder = temporary.file("run");
  mt::Graph g("line");
  mt::Value x = g.input("x", mt::f32, {8, 2});
  g.minimize(mt::mean(mt::square(x.through(mt::linear(1)))), mt::Sgd{.lr = 0.1});
  mt::Executable step = mt::compile(g);
  const at::Tensor batch = at::ones({8, 2});

  mt::Monitor monitor(folder, {.port = 0, .title = "line", .steps = 1000});
  fmt::print("{}\n", monitor.page());
  while (step.replays() < 1000) {
    step.run({{x, batch}});
    monitor.scalar("loss", step.replays(), step.read_scalar(g.loss()));
  }
  monitor.note("trained");
  CHECK(std::ifstream(folder + "/scalars.csv").good());
}

}  // namespace
}  // namespace metronome
