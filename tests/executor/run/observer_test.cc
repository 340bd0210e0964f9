// An observer's view of a step, and the targets that have no observer.
#include "executor/engine/observer.h"

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "executor/engine/plan_nodes.h"
#include "executor/metronome.h"
#include "graph/ir/structural.h"
#include "tests/aten.h"
#include "tests/cuda/host_driver.h"
#include "tests/doctest.h"
#include "tests/executor/options.h"

namespace metronome::observer_test {
namespace {

struct Log final : Observer {
  std::vector<std::string> before_nodes, after_nodes;
  float add_to_exp = 0;

  void before(const ObservedNode& seen) override {
    before_nodes.push_back(std::string(seen.node().op->name()));
    if (seen.node().op->name() == "exp") {
      *reinterpret_cast<float*>(seen.operands[0].data) += add_to_exp;
    }
  }
  void after(const ObservedNode& seen) override {
    after_nodes.push_back(std::string(seen.node().op->name()));
    CHECK(seen.operands.size() == seen.node().inputs.size());
    CHECK(seen.results.size() == seen.node().types.size());
    if (seen.node().op->name() == "exp") {
      last = *reinterpret_cast<const float*>(seen.results[0].data);
    }
  }
  float last = 0;
};

Graph exp_of_square() {
  Graph g("observed");
  g.output("y", exp(square(g.input("x", f32, {1}))));
  return g;
}

/// On a device made of the host, which does nothing before somebody waits for it.
Target on_host(Target target) {
  target.driver = std::make_shared<HostDriver>(HostSettings{.lazy = true, .seed = 3});
  return target;
}

CompileOptions shown_to(std::shared_ptr<Observer> observer) {
  CompileOptions options = tests::untuned();
  options.observer = std::move(observer);
  return options;
}

TEST_CASE("stepwise shows each node before and after it runs, and what is written is read") {
  const Graph g = exp_of_square();
  for (const Target& target : {stepwise(), on_host(stepwise(cuda_device()))}) {
    const auto log = std::make_shared<Log>();
    Executable step = compile(g, target, shown_to(log));
    CAPTURE(step.report().target);
    step.run({{"x", at::full({1}, 0.5f)}});
    CHECK(log->before_nodes == std::vector<std::string>{"square", "exp", "increment"});
    CHECK(log->after_nodes == log->before_nodes);
    CHECK(log->last == doctest::Approx(1.2840254));  // e^0.25
    log->add_to_exp = 1;
    step.run({{"x", at::full({1}, 0.5f)}});
    CHECK(step.read("y").item<float>() == doctest::Approx(3.4903429));  // e^1.25
  }
}

TEST_CASE("stepwise shows no node that its guard skips") {
  Graph g("chosen");
  const Value x = g.input("x", f32, {2});
  const Value which = g.input("which", i32, {});
  g.output("y", x.choose(which, {[](Value h) { return exp(h); }, [](Value h) { return tanh(h); }}));
  for (const Target& target : {stepwise(), on_host(stepwise(cuda_device()))}) {
    const auto log = std::make_shared<Log>();
    Executable step = compile(g, target, shown_to(log));
    CAPTURE(step.report().target);
    step.run({{x, at::full({2}, 0.5f)}, {which, at::full({}, 1, at::TensorOptions(at::kInt))}});
    CHECK(std::ranges::count(log->after_nodes, "tanh") == 1);
    CHECK(std::ranges::count(log->after_nodes, "exp") == 0);
    CHECK(log->before_nodes == log->after_nodes);
  }
}

std::string bytes_of(const Tensor& t) {
  return t.data == nullptr ? "" : std::string(reinterpret_cast<const char*>(t.data), t.bytes());
}
std::string bytes_of(const at::Tensor& t) {
  return std::string(static_cast<const char*>(t.const_data_ptr()), t.nbytes());
}

/// Holds what each node reads to what was fed, was stored, or an earlier node made.
struct Bits final : Observer {
  explicit Bits(std::map<std::string, std::string> outside) : known(std::move(outside)) {}

  static std::optional<std::string> name_of(const ir::Graph& graph, ValueId id) {
    const Node& node = graph.node(id);
    if (executor::view_of(graph, id)) return std::nullopt;
    if (const Input* input = node.op->as<Input>()) return input->input;
    if (const Read* read = node.op->as<Read>()) return graph.storage(read->storage).path;
    return std::to_string(id.node) + "." + std::to_string(id.output);
  }
  void before(const ObservedNode& seen) override {
    const Node& node = seen.node();
    CAPTURE(node.path.get());
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      const auto name = name_of(seen.graph, node.inputs[i]);
      if (!name) continue;
      REQUIRE(known.contains(*name));
      CHECK(bytes_of(seen.operands[i]) == known.at(*name));
      ++compared;
    }
  }
  void after(const ObservedNode& seen) override {
    before(seen);
    nodes.push_back(std::string(seen.node().op->name()));
    for (std::size_t k = 0; k < seen.results.size(); ++k) {
      known[*name_of(seen.graph, {seen.index, static_cast<std::int32_t>(k)})] =
          bytes_of(seen.results[k]);
    }
  }

  std::map<std::string, std::string> known;
  std::vector<std::string> nodes;
  int compared = 0;
};

TEST_CASE("a device shows the bits that its nodes read, and each node that a group would join") {
  Graph g("trained");
  const Value x = g.input("x", f32, {6, 5}), t = g.input("t", f32, {6, 3});
  g.minimize(mse_loss(x.through(linear(8)).through(relu).through(linear(3)), t), Adam{.lr = 1e-2});
  const at::Tensor numbers = at::sin(at::arange(30, at::TensorOptions(at::kFloat)));
  const at::Tensor fed = numbers.reshape({6, 5}), wanted = at::full({6, 3}, 0.5f);

  Executable replay = compile(g, on_host(cuda_graph()), tests::untuned());
  std::map<std::string, std::string> outside = {{"x", bytes_of(fed)}, {"t", bytes_of(wanted)}};
  for (const std::string& path : replay.storages()) outside[path] = bytes_of(replay.get(path));
  const auto bits = std::make_shared<Bits>(std::move(outside));
  Executable step = compile(g, on_host(stepwise(cuda_device())), shown_to(bits));
  for (Executable* each : {&replay, &step}) each->run({{x, fed}, {t, wanted}});

  CHECK(bits->compared > 40);
  CHECK(std::ranges::count(bits->nodes, "relu") == 1);
  CHECK(std::ranges::count(bits->nodes, "adam_update") == 4);
  CHECK(bits->nodes.size() > replay.report().plan(train).kernels);
  for (const std::string& path : replay.storages()) {
    CAPTURE(path);
    CHECK(step.get(path).equal(replay.get(path)));
  }
}

TEST_CASE("eager shows the results of declared nodes") {
  const Graph g = exp_of_square();
  const auto log = std::make_shared<Log>();
  compile(g, eager(), {.observer = log}).run({{"x", at::full({1}, 0.5f)}});
  CHECK(log->before_nodes.empty());
  CHECK(log->after_nodes == std::vector<std::string>{"square", "exp"});
  CHECK(log->last == doctest::Approx(1.2840254));
}

TEST_CASE("a target that shows nothing refuses an observer") {
  const Graph g = exp_of_square();
  CHECK_THROWS_WITH_AS(compile(g, cpu_replay(), {.observer = std::make_shared<Log>()}),
                       "graph \"observed\": CompileOptions::observer is shown the nodes of "
                       "stepwise(), and of eager() on a CPU; the target is cpu_replay",
                       RunError);
}

}  // namespace
}  // namespace metronome::observer_test
