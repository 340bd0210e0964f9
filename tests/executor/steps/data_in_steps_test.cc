// Data that lie in the step: rows written into states, replay buffers, shuffled orders of rows, and
// many steps by one call.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "executor/metronome.h"
#include "tests/aten.h"
#include "tests/doctest.h"
#include "tests/error_of.h"
#include "tests/executor/logged.h"
#include "tests/executor/targets.h"
#include "tests/executor/told.h"

namespace metronome::data_in_steps_test {
namespace {

using tests::error_of;
using tests::integers;
using tests::OnEveryTarget;

at::Tensor numbers(at::IntArrayRef shape, double seed = 0) {
  const at::Tensor steps = at::arange(c10::multiply_integers(shape), at::kDouble);
  return at::sin(steps * 12.9898 + seed).reshape(shape);
}

std::vector<std::int64_t> whole(const at::Tensor& tensor) {
  const at::Tensor flat = tensor.to(at::kLong).contiguous();
  return {flat.const_data_ptr<std::int64_t>(), flat.const_data_ptr<std::int64_t>() + flat.numel()};
}

// ---- rows into states -----------------------------------------------------------------------

TEST_CASE("index_copy writes slices along any axis, of equal indices the last, on every target") {
  for (const std::int64_t axis : {0, 1, 2}) {
    Graph g("copies");
    const Value memory = g.state("memory", {f64, {5, 6, 4}}, ones());
    const Value index = g.input("index", i64, {3});
    Shape slices = {5, 6, 4};
    slices[static_cast<std::size_t>(axis)] = 3;
    const Value source = g.input("source", f64, slices);
    g.feed(memory, index_copy(memory, axis - (axis == 2 ? 3 : 0), index, source));
    OnEveryTarget every(g);
    at::Tensor expected = at::ones({5, 6, 4}, at::kDouble);
    const std::vector<std::vector<std::int64_t>> steps = {
        {2, 0, 3}, {1, 1, 2}, {3, 0, 3}, {0, 0, 0}};
    for (std::size_t k = 0; k < steps.size(); ++k) {
      const at::Tensor rows = numbers(slices, static_cast<double>(k));
      for (int i = 0; i < 3; ++i) {
        expected.select(axis, steps[k][static_cast<std::size_t>(i)]).copy_(rows.select(axis, i));
      }
      every.run({{index, integers(steps[k])}, {source, rows}});
      CHECK(at::equal(every.replay().get("memory"), expected));
    }
  }
}

TEST_CASE("index_copy takes other elements, and one row") {
  Graph g("elements");
  const Value flags = g.state("flags", {bool_, {4}}), counts = g.state("counts", {i64, {4, 2}});
  const Value at_row = g.input("row", i32, {1});
  g.feed(flags, index_copy(flags, 0, at_row, at_row > 1));
  g.feed(counts, index_copy(counts, 0, at_row, g.constant({7, 8}, {i64, {1, 2}})));
  OnEveryTarget every(g);
  every.run({{at_row, at::tensor({2}, at::kInt)}});
  CHECK(whole(every.replay().get("flags")) == std::vector<std::int64_t>{0, 0, 1, 0});
  CHECK(whole(every.replay().get("counts")) == std::vector<std::int64_t>{0, 0, 0, 0, 7, 8, 0, 0});
}

TEST_CASE("a row out of range is reported, and written nowhere") {
  Graph g("strays");
  const Value memory = g.state("memory", {f64, {4, 2}}), index = g.input("index", i64, {2});
  const Value rows = g.constant({1, 1, 2, 2}, {f64, {2, 2}});
  g.feed(memory, index_copy(memory, 0, index, rows, tests::kHere));
  g.output("sum", sum(memory));
  const std::string text =
      "index_copy \"index_copy\" (train.cc:12): index 4 is out of range 0 to 3";
  CHECK(tests::told(g, {{{index, integers({0, 4})}}}) == text);
  CHECK(error_of([&] {
          Executable step = compile(g, eager(), tests::plain_options());
          step.run({{index, integers({0, 4})}});
        }) == "graph \"strays\": " + text);
  Executable step = compile(g, cpu_replay(), tests::plain_options());
  step.run({{index, integers({-1, 3})}});
  CHECK(whole(step.get("memory")) == std::vector<std::int64_t>{0, 0, 0, 0, 0, 0, 2, 2});
}

TEST_CASE("what index_copy refuses") {
  const auto refusal = [](const std::function<void(Graph&, const Value&)>& declare) {
    Graph g("g");
    declare(g, g.input("x", f32, {4, 3}));
    return error_of([&] { g.validate(); });
  };
  const Line at{"net.cc", 3};
  CHECK(refusal([&](Graph& g, const Value& x) {
          index_copy(x, 0, g.input("i", i64, {2}), g.input("s", f32, {2, 4}), at);
        }).find("requires   slices f32[2, 3], but f32[2, 4]") != std::string::npos);
  CHECK(refusal([&](Graph& g, const Value& x) {
          index_copy(x, 2, g.input("i", i64, {2}), x, at);
        }).find("net.cc:3: index_copy cannot write slices") != std::string::npos);
  CHECK(refusal([&](Graph& g, const Value& x) {
          index_copy(x, 0, g.input("i", f32, {2}), x, at);
        }).find("requires   an index i64[n] or i32[n], but f32[2]") != std::string::npos);
}

// ---- replay buffers -------------------------------------------------------------------------

TEST_CASE("a replay buffer keeps the newest rows, and samples rows of one step together") {
  for (const std::int64_t rows : {1, 2, 3, 5}) {
    CAPTURE(rows);
    Graph g("buffer");
    const Value s = g.input("s", f64, {rows, 2}), r = g.input("r", i64, {rows});
    const ReplayBuffer memory("replay", 5, {{"s", s}, {"r", r}});
    const Values batch = memory.sample(64, "batch");
    const Values all =
        memory.rows(minimum(g.constant({0, 1, 2, 3, 4}, {i64, {5}}), memory.size() - 1.0));
    g.output("size", memory.size());
    g.output("batch_s", batch[0]), g.output("batch_r", batch[1]);
    g.output("all", all[1]);
    OnEveryTarget every(g);
    std::vector<std::int64_t> kept;
    for (int step = 0; step < 9; ++step) {
      std::vector<std::int64_t> added(static_cast<std::size_t>(rows));
      std::iota(added.begin(), added.end(), 10 * step);
      kept.insert(kept.end(), added.begin(), added.end());
      if (kept.size() > 5) kept.erase(kept.begin(), kept.end() - 5);
      const at::Tensor numbers = integers(added);
      const at::Tensor pairs =
          numbers.to(at::kDouble).unsqueeze(1) * at::tensor({1.0, -2.0}, at::kDouble);
      every.run({{s, pairs}, {r, numbers}});
      for (Executable& e : every.executables) {
        CHECK(e.read("size").item<std::int64_t>() == static_cast<std::int64_t>(kept.size()));
        std::vector<std::int64_t> oldest_first = kept;
        oldest_first.resize(5, kept.back());
        CHECK(whole(e.read("all")) == oldest_first);
        const std::vector<std::int64_t> drawn = whole(e.read("batch_r"));
        const std::set<std::int64_t> seen(drawn.begin(), drawn.end());
        CHECK(seen == std::set<std::int64_t>(kept.begin(), kept.end()));  // of 64 draws, each
        CHECK(at::equal(e.read("batch_s").select(1, 1), e.read("batch_r").to(at::kDouble) * -2.0));
      }
    }
    CHECK(every.replay().get("replay/written").item<std::int64_t>() == 9 * rows);
  }
}

TEST_CASE("a learner rests until its buffer holds enough") {
  Graph g("warm");
  const Value x = g.input("x", f64, {2, 3});
  const ReplayBuffer memory("replay", 100, {{"x", x}});
  const Values batch = memory.sample(4, "batch");
  g.minimize(mean(batch[0] * g.parameter("w", {f64, {3}}, ones())), Sgd{.lr = 0.1},
             {.when = memory.size() >= 6.0});
  OnEveryTarget every(g);
  for (int step = 0; step < 5; ++step) {
    every.run({{x, numbers({2, 3}, step)}});
    CHECK(every.replay().updates() == std::max(0, step - 1));
  }
}

TEST_CASE("what a replay buffer refuses") {
  const auto refusal = [](const std::function<void(Graph&)>& declare) {
    Graph g("g");
    declare(g);
    return error_of([&] { g.validate(); });
  };
  const Line at{"net.cc", 3};
  const auto message = [](const std::string& text) {
    return "net.cc:3: ReplayBuffer \"replay\" cannot keep rows\n" + text;
  };
  CHECK(refusal([&](Graph& g) {
          const Value x = g.input("x", f32, {9}, {"net.cc", 1});
          const ReplayBuffer memory("replay", 8, {{"x", x}}, at);
          CHECK(memory.sample(4, "batch")[0].poisoned());
        }) == message("  operand 0  f32[9]  \"x\"  net.cc:1\n"
                      "  requires   1 to 8 rows a step, as many as there is room for, but f32[9]"));
  CHECK(refusal([&](Graph& g) {
          const Value x = g.input("x", f32, {2}, {"net.cc", 1}),
                      y = g.input("y", f32, {3}, {"net.cc", 2});
          ReplayBuffer("replay", 8, {{"x", x}, {"y", y}}, at);
        }) == message("  operand 0  f32[2]  \"x\"  net.cc:1\n"
                      "  operand 1  f32[3]  \"y\"  net.cc:2\n"
                      "  requires   as many rows of all fields, but 2 of \"x\" and 3 of \"y\""));
  CHECK(refusal([&](Graph& g) {
          ReplayBuffer("replay", 8, {{"x", g.input("x", f32, {}, {"net.cc", 1})}}, at);
        }) == message("  operand 0  f32[]  \"x\"  net.cc:1\n"
                      "  requires   rows [n, ...] of \"x\", but a scalar\n"
                      "  way out    reshape it to [1]"));
  const std::string copies = refusal([&](Graph& g) {
    const Value x = g.input("x", f32, {2}, {"net.cc", 1});
    const Layer keeps = shared([&](Value h) {
      ReplayBuffer("replay", 8, {{"x", h}}, at);
      return h;
    });
    x.through(keeps).through(keeps);
  });
  CHECK_MESSAGE(
      copies.find("requires   to be made once, but it was at net.cc:3\n  way out    make "
                  "it behind the loop, of mt::concat of all its rows") != std::string::npos,
      copies);
  const std::string branch = refusal([&](Graph& g) {
    const Value x = g.input("x", f32, {2}, {"net.cc", 1}), which = g.input("which", i32, {});
    const auto keeps = [&](Value h) {
      ReplayBuffer("replay", 8, {{"x", x}}, at);
      return h;
    };
    x.choose(which, {keeps, [](Value h) { return h * 2.0; }});
  });
  CHECK_MESSAGE(
      branch.find("requires   rows that each step writes, but in this region data decide\n"
                  "  way out    make it outside of branches and loops") != std::string::npos,
      branch);
  CHECK(refusal([&](Graph& g) {
          const ReplayBuffer memory("replay", 8, {{"x", g.input("x", f32, {2})}});
          memory.rows(g.input("i", f32, {3}, {"net.cc", 1}), at);
        }) ==
        "net.cc:3: ReplayBuffer::rows cannot choose rows\n  operand 0  f32[3]  \"i\"  "
        "net.cc:1\n  requires   an index i64[n] or i32[n], but f32[3]");
  CHECK(error_of([&] { ReplayBuffer("replay", 8, {}, at); }) ==
        "net.cc:3: ReplayBuffer \"replay\" requires one field or more");
}

// ---- shuffled rows --------------------------------------------------------------------------

TEST_CASE("each epoch visits every row once, in an order of its own, the same on every target") {
  for (const std::int64_t rows : {1, 2, 3, 10, 16, 17, 1000}) {
    CAPTURE(rows);
    Graph g("order");
    const std::int64_t batch = std::min<std::int64_t>(rows, 5);
    g.output("rows", shuffled_batch(g.replay(), "order", rows, batch));
    g.output("others", shuffled_batch(g.replay(), "others", rows, batch));
    OnEveryTarget every(g);
    std::vector<std::int64_t> all, others;
    for (std::int64_t step = 0; step < 3 * rows; ++step) {
      every.run();
      const std::vector<std::int64_t> now = whole(every.replay().read("rows"));
      for (Executable& e : every.executables) CHECK(whole(e.read("rows")) == now);
      all.insert(all.end(), now.begin(), now.end());
      const std::vector<std::int64_t> beside = whole(every.replay().read("others"));
      others.insert(others.end(), beside.begin(), beside.end());
      if (rows == 1000 && step == 599) break;
    }
    std::vector<std::vector<std::int64_t>> epochs;
    for (std::size_t begin = 0; begin + rows <= all.size(); begin += rows) {
      epochs.emplace_back(all.begin() + static_cast<std::ptrdiff_t>(begin),
                          all.begin() + static_cast<std::ptrdiff_t>(begin + rows));
      std::vector<std::int64_t> sorted = epochs.back();
      std::ranges::sort(sorted);
      for (std::int64_t i = 0; i < rows; ++i) CHECK(sorted[static_cast<std::size_t>(i)] == i);
    }
    CHECK(epochs.size() >= 3);
    if (rows < 10) continue;
    CHECK(epochs[0] != epochs[1]);
    CHECK(epochs[1] != epochs[2]);
    CHECK(all != others);
  }
}

TEST_CASE("orders are fair: each row comes to each place, and each pair in each order, as often") {
  constexpr std::int64_t kRows = 12, kEpochs = 6000;
  Graph g("fair");
  g.output("rows", shuffled_batch(g.replay(), "order", kRows, kRows));
  Executable step = compile(g, cpu_replay(), tests::plain_options());
  std::vector<std::vector<double>> at_place(kRows, std::vector<double>(kRows));
  std::vector<std::vector<double>> follows = at_place;
  for (std::int64_t epoch = 0; epoch < kEpochs; ++epoch) {
    step.run();
    const std::vector<std::int64_t> order = whole(step.read("rows"));
    for (std::size_t i = 0; i < kRows; ++i) {
      ++at_place[static_cast<std::size_t>(order[i])][i];
      if (i > 0)
        ++follows[static_cast<std::size_t>(order[i - 1])][static_cast<std::size_t>(order[i])];
    }
  }
  const auto chi_square = [](const std::vector<std::vector<double>>& counts, double expected,
                             bool diagonal) {
    double sum = 0;
    for (std::size_t i = 0; i < kRows; ++i) {
      for (std::size_t j = 0; j < kRows; ++j) {
        if (i != j || diagonal)
          sum += (counts[i][j] - expected) * (counts[i][j] - expected) / expected;
      }
    }
    return sum;
  };
  // 121 and about 110 degrees of freedom: the mean is that, the deviation 15.
  const double places = chi_square(at_place, kEpochs / 12.0, true);
  const double pairs = chi_square(follows, kEpochs * 11.0 / 132, false);
  MESSAGE("chi-square " << places << " and " << pairs);
  CHECK(places < 121 + 5 * 15.6);
  CHECK(pairs < 132 + 5 * 16);
}

TEST_CASE("data and labels fit: one name in one scope is one order") {
  Graph g("pair");
  const Value first = shuffled_batch(g.replay(), "order", 50, 8);
  const Value second = shuffled_batch(g.replay(), "order", 50, 8);
  const Value inside =
      first.scope("inside", [&](Value) { return shuffled_batch(g.replay(), "order", 50, 8); });
  g.output("first", first), g.output("second", second), g.output("inside", inside);
  Executable step = compile(g, cpu_replay(), tests::plain_options());
  step.run();
  CHECK(at::equal(step.read("first"), step.read("second")));
  CHECK_FALSE(at::equal(step.read("first"), step.read("inside")));
}

TEST_CASE("a training takes its batches from a data set in a state, on every target") {
  Graph g("data");
  const Value data = g.state("data", {f64, {13, 3}}, ones());
  const Value labels = g.state("labels", {f64, {13, 1}}, ones());
  g.feed(data, data);  // they stay as they are
  g.feed(labels, labels);
  const Value rows = shuffled_batch(g.replay(), "order", 13, 4);
  const Value batch = index_select(data, 0, rows);
  g.output("rows", rows);
  g.output("batch", batch);
  g.minimize(mse_loss(batch.through(linear(1)), index_select(labels, 0, rows)), Sgd{.lr = 0.1});
  OnEveryTarget every(g);
  CHECK(every.replay().report().plans[0].copies == 0);
  const at::Tensor all = numbers({13, 3}), wanted = numbers({13, 1}, 1);
  for (Executable& e : every.executables) {
    e.set("data", all);
    e.set("labels", wanted);
  }
  for (int step = 0; step < 7; ++step) {
    every.run();
    for (Executable& e : every.executables) {
      CHECK(e.read("batch").equal(all.index_select(0, e.read("rows").to(at::kLong))));
    }
  }
  std::vector<std::vector<double>> losses;
  for (Executable& e : every.executables) losses.push_back(e.run_many(9, {g.loss()})[0]);
  every.check_storages();
  for (const std::vector<double>& of : losses) {
    for (std::size_t i = 0; i < of.size(); ++i) {
      CHECK(of[i] == doctest::Approx(losses[0][i]).epsilon(1e-12));
    }
  }
}

TEST_CASE("a training goes on with its order from a checkpoint, and positions may be any") {
  Graph g("order");
  const Value p = g.input("p", i64, {2, 3});
  g.output("rows", shuffled(p, "order", 7));
  g.output("batch", shuffled_batch(g.replay(), "batch", 7, 3));
  Executable step = compile(g, cpu_replay(), tests::plain_options());
  const at::Tensor positions = integers({0, 1, 2, 7, 700, 6}).reshape({2, 3});
  step.run({{p, positions}});
  const at::Tensor rows = step.read("rows").clone();
  const Snapshot before = step.snapshot();
  step.run();
  CHECK(at::equal(step.read("rows"), rows));  // by positions alone
  const at::Tensor batch = step.read("batch").clone();
  Executable other = compile(g, cpu_replay(), tests::plain_options());
  other.load(before);
  other.run({{p, positions}});
  CHECK(at::equal(other.read("batch"), batch));
}

TEST_CASE("what shuffled orders refuse") {
  const auto refusal = [](const std::function<void(Graph&)>& declare) {
    Graph g("g");
    declare(g);
    return error_of([&] { g.validate(); });
  };
  const Line at{"net.cc", 3};
  CHECK(refusal([&](Graph& g) {
          shuffled_batch(g.replay(), "order", 0, 4, at);
        }).find("1 row or more, but 0") != std::string::npos);
  CHECK(refusal([&](Graph& g) { shuffled_batch(g.replay(), "order", 5, 0, at); }) ==
        "net.cc:3: shuffled_batch cannot be made\n  operand 0  i64[]  \"replay\"  a counter of the "
        "graph\n  requires   a step i64[] and 1 row or more, but i64[] and 0");
  CHECK(refusal([&](Graph& g) { shuffled(g.input("x", f32, {2}), "order", 5, at); })
            .find("requires   positions of i64, but f32[2]\n  way out    cast them: "
                  "x.cast(mt::i64)") != std::string::npos);
}

// ---- many steps -----------------------------------------------------------------------------

/// A data set in the step: its rows lie in a state, a step takes a batch.
struct Lying {
  Graph g{"lying"};
  Value loss, norm;
  Lying() {
    const Value rows = g.state("rows", {f64, {20, 3}});
    g.feed(rows, rows);
    const Value batch = index_select(rows, 0, shuffled_batch(g.replay(), "order", 20, 4));
    const Value noise = randn(g.seed(), "noise", {f64, {4, 3}});
    loss = mean(square(tanh((batch + 0.1 * noise).through(linear(2))) - 0.3));
    g.minimize(loss, Adam{.lr = 0.05});
    norm = g.gradient_norm();
  }
};

TEST_CASE("run_many takes the steps that run takes, and tells numbers of each") {
  const Lying data;
  for (const Target& target : tests::targets()) {
    Executable one = compile(data.g, target, tests::plain_options());
    Executable many = compile(data.g, target, tests::plain_options());
    for (Executable* e : {&one, &many}) e->set("rows", numbers({20, 3}));
    std::vector<double> losses, norms;
    for (int i = 0; i < 12; ++i) {
      one.run();
      losses.push_back(one.read_scalar(data.loss)), norms.push_back(one.read_scalar(data.norm));
    }
    const auto first = many.run_many(1, {data.loss}),
               rest = many.run_many(11, {data.loss, data.norm});
    CHECK(first[0] == std::vector<double>{losses[0]});
    CHECK(rest[0] == std::vector<double>(losses.begin() + 1, losses.end()));
    CHECK(rest[1] == std::vector<double>(norms.begin() + 1, norms.end()));
    CHECK(many.run_many(3).empty());
    CHECK(many.replays() == 15);
    for (const std::string& path : one.storages()) {
      if (path != "replay" && path != "update" && path != "draws") continue;
      CHECK(many.get(path).item<std::int64_t>() == one.get(path).item<std::int64_t>() + 3);
    }
  }
}

TEST_CASE("run_many refuses what run refuses, and no steps") {
  const Lying data;
  Executable step = compile(data.g, cpu_replay(), tests::plain_options());
  CHECK(error_of([&] { step.run_many(0); }) ==
        "graph \"lying\": run_many cannot take 0 steps; give 1 or more");
  CHECK(error_of([&] { step.run_many(-3); }) ==
        "graph \"lying\": run_many cannot take -3 steps; give 1 or more");
  Graph g("fed");
  g.output("y", g.input("x", f64, {1}) * 2.0);
  Executable fed = compile(g, cpu_replay(), tests::plain_options());
  const std::string alone = error_of([&] { fed.run(); });
  CHECK(error_of([&] { fed.run_many(5); }) == alone);
  CHECK(fed.steps() == 0);
  Graph wide("wide");
  const Value state = wide.state("s", {f64, {2}});
  wide.feed(state, state + 1.0);
  const Value next = state * 2.0;
  wide.output("next", next);
  Executable vector = compile(wide, cpu_replay(), tests::plain_options());
  CHECK(error_of([&] { vector.run_many(5, {next}); }) ==
        "graph \"wide\": read_scalar requires one element, but \"next\" is f64[2]; use read");
  CHECK(vector.steps() == 0);
}

TEST_CASE("a fault in many steps is told with its step") {
  Graph g("strays");
  const Value table = g.state("table", {f64, {5, 2}});
  g.feed(table, table);
  const Value at = g.replay() + g.constant({0, 1}, {i64, {2}});
  const Value rows = index_select(table, 0, at, tests::kHere);
  g.output("sum", sum(rows));
  Executable step = compile(g, cpu_replay(), tests::plain_options());
  const tests::Logged logged;
  step.run_many(8);
  CHECK(logged.text().find("graph \"strays\": by step 4: index_select \"index_select/embedding\" "
                           "(train.cc:12): index 5 "
                           "is out of range 0 to 4") != std::string::npos);
  CHECK(step.replays() == 8);
}

}  // namespace
}  // namespace metronome::data_in_steps_test
