// Faults that a step must not stop for are told all the same, in one set of words: an index of
// something that is not there. watch_test.cc tests numbers that are not finite.
#include <fmt/format.h>

#include <cmath>
#include <functional>

#include "executor/metronome.h"
#include "graph/emit/scope.h"
#include "graph/ir/error.h"
#include "ops/reference/elements.h"
#include "tests/aten.h"
#include "tests/cuda/host_driver.h"
#include "tests/doctest.h"
#include "tests/executor/logged.h"
#include "tests/executor/temporary_folder.h"
#include "tests/executor/told.h"

namespace metronome::tests::faults_test {
namespace {

struct Labelled {
  Graph g{"labels"};
  Value x = g.input("x", f64, {4, 3});
  Value labels = g.input("labels", i64, {4});
  explicit Labelled(CrossEntropyOptions options = {}) {
    g.minimize(cross_entropy_loss(x.through(linear(10)), labels, options, kHere), Sgd{.lr = 0.1});
  }
  Feeds step(std::vector<std::int64_t> of) const {
    return {{x, at::ones({4, 3}, at::TensorOptions(at::kDouble))}, {labels, integers(of)}};
  }
};

TEST_CASE("labels from 1 on: the loss's line, the label, the range, by every executor") {
  const Labelled l;
  CHECK(told(l.g, {l.step({0, 9, 3, 1})}) == "nothing");
  CHECK(told(l.g, {l.step({0, 9, 3, 1}), l.step({1, 10, 4, 2})}) ==
        "pick {ignored=-100} \"cross_entropy_loss/pick\" (train.cc:12): target 10 is out of range "
        "0 to 9 (-100 is ignored)");
  CHECK(told_by_eager(l.g, {l.step({0, 9, 3, 1}), l.step({1, 10, 4, 2})}) ==
        "RunError: graph \"labels\": cross_entropy_loss \"cross_entropy_loss\" (train.cc:12): "
        "target 10 is out of range 0 to 9 (-100 is ignored)");
}

TEST_CASE("of several labels out of range it is the least; of several steps the first") {
  const Labelled l;
  CHECK(told(l.g, {l.step({12, 10, -1, 2}), l.step({-7, 0, 0, 0})}) ==
        "pick {ignored=-100} \"cross_entropy_loss/pick\" (train.cc:12): target -1 is out of range "
        "0 to 9 (-100 is ignored)");
}

TEST_CASE("labels to be ignored are no fault, and count for nothing") {
  for (const std::int64_t ignored : {-100, 0}) {
    CAPTURE(ignored);
    const Labelled l({.ignore_index = ignored});
    const Feeds some = l.step({ignored, 9, ignored, 1}),
                all = l.step({ignored, ignored, ignored, ignored});
    CHECK(told(l.g, {some, all}) == "nothing");
    Executable oracle = by_eager(l.g);
    std::vector<Executable> executables = on_planned_targets(l.g);
    for (int step = 0; step < 2; ++step) {
      oracle.run(some);
      for (Executable& e : executables) {
        e.run(some);
        CHECK(e.read_scalar(l.g.loss()) == doctest::Approx(oracle.read_scalar(l.g.loss())));
        CHECK(at::allclose(e.get("linear/weight"), oracle.get("linear/weight")));
      }
    }
    oracle.run(all);
    CHECK(std::isnan(oracle.read_scalar(l.g.loss())));
    for (Executable& e : executables) {
      e.run(all);
      CHECK(std::isnan(e.read_scalar(l.g.loss())));
    }
  }
}

/// Whatever looks something up by `index`, over x [3, 4].
struct Lookup {
  const char* name;
  std::function<Value(Value x, Value index)> layer;
  Element element;
  Shape shape;
  std::int64_t stray;
  std::string planned, eager;
};

TEST_CASE("every op that reads by index tells of one that is out of range") {
  const std::vector<Lookup> lookups = {
      {"embedding",
       [](Value x, Value index) { return embedding_lookup(x, index, kHere); },
       i64,
       {5},
       3,
       "embedding \"embedding\" (train.cc:12): index 3 is out of range 0 to 2",
       ""},
      {"embedding, i32, negative",
       [](Value x, Value index) { return embedding_lookup(x, index, kHere); },
       i32,
       {2, 2},
       -1,
       "embedding \"embedding\" (train.cc:12): index -1 is out of range 0 to 2",
       ""},
      {"pick",
       [](Value x, Value index) {
         const LineScope scope(x.emitter(), kHere);
         return pick(x, index);
       },
       i64,
       {3},
       4,
       "pick \"pick\" (train.cc:12): index 4 is out of range 0 to 3",
       ""},
      {"pick, i32, far beyond",
       [](Value x, Value index) {
         const LineScope scope(x.emitter(), kHere);
         return pick(x, index);
       },
       i32,
       {3},
       -2147483648,
       "pick \"pick\" (train.cc:12): index -2147483648 is out of range 0 to 3",
       ""},
      {"gather",
       [](Value x, Value index) { return gather(x, 0, index, kHere); },
       i64,
       {2, 4},
       3,
       "gather {0} \"gather\" (train.cc:12): index 3 is out of range 0 to 2",
       ""},
      {"index_select, rows",
       [](Value x, Value index) { return index_select(x, 0, index, kHere); },
       i64,
       {5},
       3,
       "index_select \"index_select/embedding\" (train.cc:12): index 3 is out of range 0 to 2",
       ""},
      {"index_select, columns",
       [](Value x, Value index) { return index_select(x, -1, index, kHere); },
       i32,
       {2},
       -7,
       "index_select \"index_select/embedding\" (train.cc:12): index -7 is out of range 0 to 3",
       ""},
      {"scatter_add, few of a line",
       [](Value x, Value index) {
         const LineScope scope(x.emitter(), kHere);
         return scatter_add(x, 0, index, index.cast(f64));
       },
       i32,
       {5, 4},
       -1,
       "scatter_add {0} \"scatter_add\" (train.cc:12): index -1 is out of range 0 to 2",
       ""},
      {"scatter_add, many of a line",
       [](Value x, Value index) {
         const LineScope scope(x.emitter(), kHere);
         return scatter_add(x, 1, index, index.cast(f64));
       },
       i64,
       {3, 40},
       4,
       "scatter_add {1} \"scatter_add\" (train.cc:12): index 4 is out of range 0 to 3",
       ""},
  };
  for (const Lookup& lookup : lookups) {
    CAPTURE(lookup.name);
    Graph g("lookup");
    const Value index = g.input("index", lookup.element, lookup.shape);
    const Value table = g.parameter("table", {f64, {3, 4}}, normal());
    g.minimize(sum(lookup.layer(table, index)), Sgd{.lr = 0.1});
    at::Tensor numbers = at::ones(lookup.shape, to_torch(lookup.element));
    const Feeds good = {{index, numbers.clone()}};
    numbers.view({-1})[0] = lookup.stray;
    const Feeds bad = {{index, numbers}};
    CHECK(told(g, {good}) == "nothing");
    CHECK(told(g, {good, bad, good}) == lookup.planned);
    CHECK(told_by_eager(g, {good, bad}) == "RunError: graph \"lookup\": " + lookup.planned);
  }
}

TEST_CASE("of several lookups it is the one that was declared first, in whatever order they run") {
  // early is read last: plans that spare memory look it up last.
  Graph g("several");
  const Value index = g.input("index", i64, {5}),
              table = g.parameter("table", {f64, {3, 4}}, ones());
  const Value early = embedding_lookup(table, index, kHere);
  Value h = table;
  for (int i = 0; i < 3; ++i) {
    const Value late = embedding_lookup(h, index, kHere);
    h = h * sum(late * late);
  }
  g.minimize(sum(h) + sum(early), Sgd{.lr = 0.1});
  at::Tensor numbers = at::ones({5}, at::kLong);
  const Feeds good = {{index, numbers.clone()}};
  numbers[2] = 3;
  const std::string text = "embedding \"embedding\" (train.cc:12): index 3 is out of range 0 to 2";
  CHECK(told(g, {good, {{index, numbers}}}) == text);
  CHECK(told_by_eager(g, {good, {{index, numbers}}}) == "RunError: graph \"several\": " + text);
}

TEST_CASE("an index that a cast made of a NaN is told of") {
  Graph g("cast");
  const Value x = g.input("x", f64, {2}), table = g.parameter("table", {f64, {3, 4}}, ones());
  g.minimize(sum(embedding_lookup(table, x.cast(i64), kHere)), Sgd{.lr = 0.1});
  const std::string text = told_by_eager(g, {{{x, vector_of({1, kNaN})}}});
  CHECK(
      text.starts_with("RunError: graph \"cast\": embedding \"embedding\" (train.cc:12): index "));
  Executable replay = compile(g);
  replay.run({{x, vector_of({1, kNaN})}});
  CHECK("RunError: graph \"cast\": " + replay.fault().value_or("nothing") == text);
}

TEST_CASE("what constants look up is told of too, and not folded away") {
  Graph g("constants");
  const LineScope scope(&g.emitter(), kHere);
  const Value x = g.input("x", f64, {1});
  const Value picked = pick(g.constant({1, 2, 3}, {f64, {1, 3}}), g.constant({3}, {i64, {1}}));
  g.output("y", x + picked);
  const Feeds feeds = {{x, at::ones({1}, at::TensorOptions(at::kDouble))}};
  const std::string text = "pick \"pick\" (train.cc:12): index 3 is out of range 0 to 2";
  CHECK(told(g, {feeds}) == text);
}

TEST_CASE("a selector out of range is told with its value, by eager too") {
  Graph g("choose");
  const Value x = g.input("x", f64, {4}), which = g.input("which", i32, {});
  const Layer half = [](Value h) { return h * 0.5; };
  g.output("y", x.choose(which, {tanh, half, tanh}, kHere));
  const auto step = [&](int selector) {
    return Feeds{{x, at::ones({4}, at::TensorOptions(at::kDouble))},
                 {which, at::full({}, selector, at::TensorOptions(at::kInt))}};
  };
  const std::string text =
      "guard {when=0 of 3} \"choose/guard\" (train.cc:12): selector 7 is out of range 0 to 2";
  CHECK(told(g, {step(0), step(2)}) == "nothing");
  CHECK(told(g, {step(0), step(7), step(-3)}) == text);
  CHECK(told_by_eager(g, {step(0), step(7), step(-3)}) == text);
}

TEST_CASE("a step that eager refuses changes no storage") {
  const Labelled l;
  Executable e = by_eager(l.g);
  e.run(l.step({1, 2, 3, 4}));
  const at::Tensor before = e.get("linear/weight").clone();
  CHECK_THROWS_AS(e.run(l.step({1, 2, 3, 10})), RunError);
  CHECK(at::equal(e.get("linear/weight"), before));
  CHECK(e.updates() == 1);
  CHECK(e.steps() == 1);
  e.run(l.step({1, 2, 3, 4}));
  CHECK(e.updates() == 2);
}

// ---- the warning -------------------------------------------------------------------------------

TEST_CASE("read, read_scalar and save warn of a fault, once") {
  const Labelled l;
  const TemporaryFolder folder;
  const std::string file = folder.file("saved");
  const std::vector<std::function<void(Executable&)>> readers = {
      [&](Executable& e) { e.read(l.g.loss()); }, [&](Executable& e) { e.read_scalar(l.g.loss()); },
      [&](Executable& e) { e.read_scalar(l.g.loss(), e.steps() - 1); },
      [&](Executable& e) { e.save(file); }};
  for (const auto& reads : readers) {
    for (Executable& e : on_planned_targets(l.g)) {
      const Logged logged;
      e.run(l.step({0, 1, 2, 3}));
      reads(e);
      CHECK(logged.text() == "");
      e.run(l.step({1, 2, 3, 10}));
      reads(e);
      const std::string once =
          "warning: graph \"labels\": pick {ignored=-100} \"cross_entropy_loss/pick\" "
          "(train.cc:12): target 10 is out of range 0 to 9 (-100 is ignored)\n";
      CHECK(logged.text() == once);
      e.run(l.step({1, 2, 3, 10}));
      for (const auto& again : readers) again(e);
      CHECK(logged.text() == once);
    }
  }
}

/// Its loss is log(x), whose gradient reaches w.
struct Logarithm {
  Graph g{"logarithm"};
  Value x = g.input("x", f64, {2});
  Logarithm() {
    const Value w = g.parameter("w", {f64, {2}}, ones());
    g.output("logarithms", log(x));
    g.minimize(mean(log(x) * w), Sgd{.lr = 0.1});
  }
};

TEST_CASE("what is read and is no number is told of, once each, and so is a file") {
  const Logarithm l;
  const TemporaryFolder folder;
  const std::string file = folder.file("saved");
  const std::string node =
      "compile with CompileOptions::watch to be told of the node that made the first one\n";
  const auto wrong = vector_of({-1, 1});
  std::vector<Executable> all = on_planned_targets(l.g);
  all.push_back(by_eager(l.g));
  for (Executable& e : all) {
    const Logged logged;
    e.run({{"x", vector_of({1, 2})}});
    e.save(file);
    CHECK(e.read_scalar(l.g.loss()) > 0);
    CHECK(logged.text() == "");
    e.run({{"x", wrong}});
    CHECK(logged.text() == "");
    std::string told;
    const auto tells = [&](const char* name) {
      told += fmt::format("warning: graph \"logarithm\": \"{}\" holds nan, after 2 steps; {}", name,
                          node);
      CHECK(logged.text() == told);
    };
    e.get("w");
    tells("w");
    e.read_scalar(l.g.loss());
    tells("loss");
    e.read("logarithms");
    tells("logarithms");
    e.read(l.g.loss());
    e.read_scalar(l.g.loss(), 1);
    e.read("logarithms");
    e.get("w");
    CHECK(logged.text() == told);
    e.save(file);
    CHECK(logged.text() ==
          told + fmt::format("warning: graph \"logarithm\": {} is saved with nan in \"w\"; {}",
                             file, node));
  }
}

TEST_CASE("of several graphs the one whose step made the NaN is named") {
  Graph whole("whole"), part("part");
  Values logarithms;
  for (Graph* g : {&whole, &part}) {
    logarithms.push_back(log(g->input("x", f64, {g == &whole ? 1 : 2})));
    g->output(g->name(), logarithms.back());
  }
  Executable e =
      compile({{&whole, {train}}, {&part, {evaluate}}}, cpu_replay(), {.tune = Tune::off});
  const std::string node =
      "compile with CompileOptions::watch to be told of the node that made the first one\n";
  const Logged logged;
  e.evaluate({{"x", vector_of({1, -1})}});
  e.read("part");
  const std::string told = "warning: graph \"part\": \"part\" holds nan, after 1 step; " + node;
  CHECK(logged.text() == told);
  CHECK_THROWS_WITH_AS(
      e.read_scalar(logarithms[1]),
      "graph \"part\": read_scalar requires one element, but \"part\" is f64[2]; use read",
      RunError);
  e.run({{"x", vector_of({-1})}});
  e.read_scalar(logarithms[0]);
  CHECK(logged.text() ==
        told + "warning: graph \"whole\": \"whole\" holds nan, after 2 steps; " + node);
}

TEST_CASE("with a watch it is the watch that tells") {
  const Logarithm l;
  Executable e = compile(l.g, cpu_replay(), {.watch = true});
  const Logged logged;
  e.run({{"x", vector_of({-1, 1})}});
  CHECK(std::isnan(e.read_scalar(l.g.loss())));
  CHECK(logged.text().find("holds nan") == std::string::npos);
  CHECK(logged.text().find("log \"log\"") != std::string::npos);
}

TEST_CASE("a warning waits for no step of a device") {
  const Labelled l;
  Target target = cuda_graph();
  const auto driver = std::make_shared<HostDriver>(HostSettings{});
  target.driver = driver;
  target.cuda.fuse = false;
  CompileOptions options;
  options.tune = Tune::off;
  Executable e = compile(l.g, target, options);
  e.run(l.step({1, 2, 3, 10}));
  const Logged logged;
  const int before = driver->counts().synchronizations;
  e.read_scalar(l.g.loss());
  CHECK(driver->counts().synchronizations == before);
  CHECK(logged.text() != "");
}

}  // namespace
}  // namespace metronome::tests::faults_test
