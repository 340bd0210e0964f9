// The ways out that messages of `compile` name, taken: what a message advises compiles and runs.
#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "executor/engine/observer.h"
#include "executor/engine/tuning.h"
#include "executor/metronome.h"
#include "graph/ir/error.h"
#include "tests/aten.h"
#include "tests/doctest.h"
#include "tests/executor/options.h"
#include "tests/executor/plain_optimizer.h"
#include "tests/executor/temporary_folder.h"
#include "tests/executor/way_out.h"

namespace metronome::ways_out_of_compile_test {
namespace {

using tests::compiled;
using tests::Doubled;
using tests::error_of;
using tests::f32_ones;
using tests::names_way_out;
using tests::plain_options;

/// The number of rows that a step gave, each 2.
std::int64_t rows_of(Executable& step, std::int64_t rows) {
  step.run({{"x", f32_ones({rows, 2})}});
  CHECK(step.read("y").equal(f32_ones({rows, 2}) * 2.0));
  return step.read("y").size(0);
}

TEST_CASE("the list of graphs") {
  const std::vector<const Graph*> none;
  CHECK(error_of([&] { compile(none); }) == "there is no graph to compile; give one or more");
  const Doubled three, four({4, 2});
  CHECK(error_of([&] {
          compile({&three.g, &three.g});
        }).ends_with("; give each graph once, each for inputs of other shapes"));
  Executable one = compile(std::vector<const Graph*>{&three.g}, cpu_replay(), plain_options());
  Executable two = compile({&three.g, &four.g}, cpu_replay(), plain_options());
  CHECK(rows_of(one, 3) == 3);
  CHECK(rows_of(two, 3) == 3);
  CHECK(rows_of(two, 4) == 4);
}

TEST_CASE("nothing to keep: declare what to read") {
  Graph g("g");
  const Value y = g.input("x", f32, {2}) * 2.0;
  CHECK(names_way_out(error_of([&] { compiled(g); }),
                      "declare what to read: Graph::output(name, value)"));
  g.output("y", y);
  Executable step = compiled(g);
  step.run({{"x", f32_ones({2})}});
  CHECK(step.read("y").sum().item<double>() == 4);
}

TEST_CASE("graphs that differ in their storages") {
  Graph large("large"), small("small"), same("same");
  for (Graph* g : {&large, &small, &same}) {
    const Value h = g->input("x", f64, {4, 3}).scope("body", linear(5));
    const Value y = h.scope("head", linear(g == &small ? 2 : 7));
    g->output("h", h);
    if (g != &same) g->minimize(mean(square(y)), Adam{});
    if (g == &same) g->output("y", y);
  }
  CHECK(names_way_out(error_of([&] { compile({&large, &small}, cpu_replay(), plain_options()); }),
                      "a graph that only evaluates may lack some: {&graph, {mt::evaluate}}; what "
                      "two models share goes from one to the other by get and set"));
  const at::Tensor batch = at::linspace(-1, 1, 12, at::kDouble).reshape({4, 3});
  SUBCASE("a graph that only evaluates") {
    Graph body("body");  // it lacks the head
    body.output("h", body.input("x", f64, {4, 3}).scope("body", linear(5)));
    Executable both =
        compile({{&large, {train}}, {&body, {evaluate}}}, cpu_replay(), plain_options());
    both.evaluate({{"x", batch}});
    const at::Tensor of_body = both.read("h").clone();
    both.run({{"x", batch}});
    CHECK(of_body.equal(both.read("h")));
  }
  SUBCASE("a part that two models share goes from one to the other by get and set") {
    Executable from = compiled(large), to = compiled(small);
    from.run({{"x", batch}});
    std::vector<std::string> moved;
    for (const std::string& path : from.storages()) {
      if (path.find("body/") == std::string::npos) continue;
      to.set(path, from.get(path));
      moved.push_back(path);
    }
    CHECK(moved.size() == 6);  // weight and bias, each with two moments
    from.run({{"x", batch}});
    to.run({{"x", batch}});
    CHECK(from.read("h").equal(to.read("h")));
  }
}

TEST_CASE("a parameter that only an evaluation has: the same place, or frozen") {
  const auto declared = [](const std::string& place, bool frozen, bool trained) {
    auto g = std::make_unique<Graph>("g");
    const Value y = g->input("x", f32, {trained ? 4 : 2, 3}).scope(place, linear(1));
    g->output("y", y);
    if (trained) g->minimize(mean(square(y)), Sgd{});
    if (frozen) g->freeze("**");
    return g;
  };
  const auto evaluated = [&](const std::string& place, bool frozen) {
    const auto trained = declared("head", false, true), other = declared(place, frozen, false);
    Executable step = compile({{trained.get(), {train}}, {other.get(), {evaluate}}}, cpu_replay(),
                              plain_options());
    step.evaluate({{"x", f32_ones({2, 3})}});
    return step.read("y").size(0);
  };
  CHECK(names_way_out(error_of([&] { evaluated("haed", false); }),
                      "declare the layer at the same place in both, or freeze the parameter"));
  CHECK(evaluated("head", false) == 2);
  CHECK(evaluated("haed", true) == 2);
}

/// Options that are refused in a text that ends with a way out, and those that take it.
struct OptionsRow {
  std::string way_out;
  std::function<void(CompileOptions&)> mistake;
  std::vector<std::function<void(CompileOptions&)>> taken;
};

TEST_CASE("options") {
  const unsigned cores = std::max(std::thread::hardware_concurrency(), 1u);
  const int most = std::max(16, 4 * static_cast<int>(cores));
  const OptionsRow rows[] = {
      {"; give 1 or more, or 0 for as many as libtorch uses",
       [](CompileOptions& o) { o.threads = -1; },
       {[](CompileOptions& o) { o.threads = 1; }, [](CompileOptions& o) { o.threads = 0; }}},
      {fmt::format("; give {} or fewer, best {}, or 0 for as many as libtorch uses", most, cores),
       [=](CompileOptions& o) { o.threads = most + 1; },
       {[=](CompileOptions& o) { o.threads = most; },
        [=](CompileOptions& o) { o.threads = static_cast<int>(cores); },
        [](CompileOptions& o) { o.threads = 0; }}},
      {"; add mt::evaluate to CompileOptions::modes",
       [](CompileOptions& o) { o.evaluate_outputs = {"y"}; },
       {[](CompileOptions& o) {
         o.evaluate_outputs = {"y"};
         o.modes.push_back(evaluate);
       }}},
      {"; give mt::train, mt::evaluate or both",
       [](CompileOptions& o) { o.modes = {}; },
       {[](CompileOptions& o) { o.modes = {train}; },
        [](CompileOptions& o) { o.modes = {train, evaluate}; }}},
      {"; name paths as Graph::print shows them",
       [](CompileOptions& o) { o.recompute = {"doubled"}; },
       {[](CompileOptions& o) { o.recompute = {"mul"}; }}},
  };
  const Doubled doubled;
  CHECK(doubled.g.print().find("\"mul\"") != std::string::npos);
  for (const OptionsRow& row : rows) {
    CAPTURE(row.way_out);
    CompileOptions refused = plain_options();
    row.mistake(refused);
    const std::string message = error_of([&] { compile(doubled.g, cpu_replay(), refused); });
    CAPTURE(message);
    CHECK(message.ends_with(row.way_out));
    for (const auto& take : row.taken) {
      CompileOptions taken = plain_options();
      take(taken);
      Executable step = compile(doubled.g, cpu_replay(), taken);
      CHECK(rows_of(step, 3) == 3);
    }
  }
}

TEST_CASE("evaluations alone") {
  const Doubled doubled;
  CompileOptions options = plain_options();
  options.modes = {evaluate};
  Executable step = compile(doubled.g, cpu_replay(), options);
  step.evaluate({{"x", f32_ones({3, 2})}});
  CHECK(step.read("y").sum().item<double>() == 12);
}

TEST_CASE("too many threads of libtorch's: set fewer there, or give CompileOptions::threads") {
  const unsigned cores = std::max(std::thread::hardware_concurrency(), 1u);
  const int most = std::max(16, 4 * static_cast<int>(cores)), before = at::get_num_threads();
  const Doubled doubled;
  CompileOptions options = plain_options();
  options.threads = 0;
  at::set_num_threads(most + 1);
  const std::string message = error_of([&] { compile(doubled.g, cpu_replay(), options); });
  options.threads = 1;
  Executable given = compile(doubled.g, cpu_replay(), options);
  at::set_num_threads(1);
  options.threads = 0;
  Executable set = compile(doubled.g, cpu_replay(), options);
  at::set_num_threads(before);
  CHECK(
      message.ends_with(fmt::format("; call at::set_num_threads, set OMP_NUM_THREADS or give "
                                    "CompileOptions::threads: at most {}",
                                    most)));
  CHECK(rows_of(given, 3) == 3);
  CHECK(rows_of(set, 3) == 3);
}

TEST_CASE("an empty target") {
  const Doubled doubled;
  CHECK(error_of([&] {
          compile(doubled.g, Target{}, plain_options());
        }).ends_with("; give cpu_replay(), cuda_graph(), stepwise() or eager()"));
  for (const Target& target : {cpu_replay(), stepwise(), eager()}) {
    Executable step = compile(doubled.g, target, plain_options());
    CHECK(rows_of(step, 3) == 3);
  }
}

TEST_CASE("an optimizer that eager does not have: another target, or another optimizer") {
  const auto trained = [](Optimizer optimizer) {
    auto g = std::make_unique<Graph>("g");
    g->minimize(g->parameter("w", {f32, {}}, metronome::ones()), std::move(optimizer));
    return g;
  };
  const auto w_after = [](const Graph& g, const Target& target) {
    Executable step = compile(g, target, plain_options());
    step.run();
    return step.get("w").item<double>();
  };
  const auto own = trained(tests::PlainOptimizer{});
  CHECK(error_of([&] { w_after(*own, eager()); })
            .ends_with("; compile for another target, such as cpu_replay or stepwise, or minimize "
                       "with Adam, AdamW or Sgd"));
  CHECK(w_after(*own, cpu_replay()) == 0);
  CHECK(w_after(*own, stepwise()) == 0);
  for (const Optimizer& optimizer : {Optimizer(Adam{}), Optimizer(AdamW{}), Optimizer(Sgd{})}) {
    CHECK(w_after(*trained(optimizer), eager()) < 1);
  }
}

TEST_CASE("a memory budget that is too small: the smallest, or values computed again") {
  Graph g("g");
  Value h = g.input("x", f32, {64, 32});
  h = h.scope("tower", [](Value x) {
    return x.repeat(6,
                    [](Value v) { return tanh(tanh(v.through(linear(64))).through(linear(32))); });
  });
  g.minimize(mean(square(h)), Sgd{});
  CompileOptions options = plain_options();
  options.memory_budget = 1;
  options.recompute_to_fit = false;
  const auto refusal = [&] { return error_of([&] { compile(g, cpu_replay(), options); }); };
  const std::string message = refusal(), words = "the smallest that is feasible is ";
  CAPTURE(message);
  REQUIRE(message.find(words) != std::string::npos);
  CHECK(message.find(", or less with CompileOptions::recompute_to_fit; ") != std::string::npos);
  const std::size_t smallest = std::stoul(message.substr(message.find(words) + words.size()));
  options.memory_budget = smallest;
  CHECK(compile(g, cpu_replay(), options).report().plan(train).arena_bytes == smallest);
  options.memory_budget = smallest - 1;
  CHECK(refusal() != "nothing");
  options.recompute_to_fit = true;
  Executable step = compile(g, cpu_replay(), options);
  CHECK(step.report().plan(train).arena_bytes < smallest);
  step.run({{"x", f32_ones({64, 32})}});
}

TEST_CASE("an observer of steps that are not taken node by node: stepwise, or eager on a CPU") {
  struct Counting final : Observer {
    void after(const ObservedNode&) override { ++nodes; }
    int nodes = 0;
  };
  const auto counting = std::make_shared<Counting>();
  const Doubled doubled;
  CompileOptions options = plain_options();
  options.observer = counting;
  CHECK(error_of([&] { compile(doubled.g, cpu_replay(), options); })
            .ends_with("CompileOptions::observer is shown the nodes of stepwise(), and of eager() "
                       "on a CPU; the target is cpu_replay"));
  for (const Target& target : {stepwise(), eager()}) {
    counting->nodes = 0;
    Executable step = compile(doubled.g, target, options);
    CHECK(rows_of(step, 3) == 3);
    CHECK(counting->nodes > 0);
  }
}

TEST_CASE("a tuning file that is of no use: another one, or none there") {
  const TemporaryFolder folder;
  const std::string damaged = folder.file("damaged.json"), other = folder.file("other.json");
  write_file(damaged, "{");
  CHECK(error_of([&] { executor::TuningFile file(damaged); })
            .ends_with("; delete it, or name another one with CompileOptions::tuning_file or, if "
                       "that is empty, METRONOME_TUNING"));
  std::filesystem::remove(damaged);
  CHECK(error_of([&] { executor::TuningFile file(damaged); }) == "nothing");
  const Doubled doubled;
  CompileOptions options = plain_options();
  options.tune = Tune::measure;
  options.tuning_file = other;
  Executable step = compile(doubled.g, cpu_replay(), options);
  CHECK(rows_of(step, 3) == 3);
}

}  // namespace
}  // namespace metronome::ways_out_of_compile_test
