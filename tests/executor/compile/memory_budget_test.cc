// Plans that keep to a memory budget by computing values again, and what they tell of it.
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "executor/metronome.h"
#include "graph/ir/error.h"
#include "tests/aten.h"
#include "tests/doctest.h"
#include "tests/error_of.h"
#include "tests/executor/load.h"
#include "tests/executor/targets.h"
#include "tests/executor/temporary_folder.h"

namespace metronome::memory_budget_test {
namespace {

using tests::device_of_host;
using tests::error_of;
using tests::plain_options;

constexpr std::int64_t kBatch = 16, kWidth = 32;

/// Residual blocks with a draw in each, running statistics, a branch that data choose, a state that
/// is fed back, and a counter that the loss reads.
struct Tower {
  Graph g{"tower"};
  Value x = g.input("x", f32, {kBatch, kWidth});
  Value which = g.input("which", i32, {});
  Tower() {
    Value h = x;
    for (int i = 0; i < 6; ++i) {
      h = h.scope(fmt::format("block{}", i), [&](Value v) {
        Value inner = v.through(batch_norm()).through(linear(2 * kWidth)).through(gelu);
        if (i == 3) inner = inner.choose(which, {Layer(tanh), Layer(dropout(0.25))});
        return v + inner.through(dropout(0.5)).through(linear(kWidth));
      });
    }
    g.output("y", h);
    g.minimize(mse_loss(h, x), Adam{.lr = 1e-2});
  }
  std::vector<Feed> feeds(int step) const {
    const auto numbers = at::arange(kBatch * kWidth, at::TensorOptions(at::kFloat));
    return {{x, at::sin(numbers * 0.7 + step).reshape({kBatch, kWidth})},
            {which, at::full({}, step % 2, at::TensorOptions(at::kInt))}};
  }
};

std::size_t smallest_of(const Graph& graph, const Target& target, CompileOptions options) {
  options.memory_budget = 1;
  const std::string text = error_of<RunError>([&] { compile(graph, target, options); });
  const std::string words = "the smallest found, with values computed again, is ";
  CAPTURE(text);
  REQUIRE(text.find(words) != std::string::npos);
  return std::stoul(text.substr(text.find(words) + words.size()));
}

void check_same_bits(const Tower& tower, Executable& a, Executable& b) {
  for (int step = 0; step < 4; ++step) {
    a.run(tower.feeds(step));
    b.run(tower.feeds(step));
    CHECK(a.read_scalar(tower.g.loss()) == b.read_scalar(tower.g.loss()));
    for (const std::string& path : a.storages()) {
      CAPTURE(path);
      CHECK(at::equal(a.get(path), b.get(path)));
    }
  }
}

TEST_CASE("an arena within each budget down to the smallest, and the same bits, on every target") {
  const Tower tower;
  for (const bool on_device : {false, true}) {
    const Target target = on_device ? device_of_host() : cpu_replay();
    CompileOptions options = plain_options();
    Executable plain = compile(tower.g, target, options);
    const std::size_t whole = plain.report().arena_bytes;
    const std::size_t smallest = smallest_of(tower.g, target, options);
    CHECK(2 * smallest < whole);
    for (const double part : {1.0, 0.8, 0.5, 0.25, 0.0}) {
      CAPTURE(part);
      const auto budget =
          smallest + static_cast<std::size_t>(part * static_cast<double>(whole - smallest));
      options.memory_budget = budget;
      options.poison = !on_device;
      Executable fresh = compile(tower.g, target, plain_options());
      Executable kept = compile(tower.g, target, options);
      if (!on_device) {
        Executable walk = compile(tower.g, stepwise(), options);
        Executable other = compile(tower.g, target, plain_options());
        check_same_bits(tower, walk, other);
      }
      const PlanReport& plan = kept.report().plan(train);
      CHECK(plan.arena_bytes <= budget);
      // A device first makes its updates in more batches, which are more kernels.
      if (!on_device) {
        CHECK(plan.recomputed.empty() == (part == 1.0));
        CHECK(plan.kernels == plain.report().plan(train).kernels + plan.recomputed.size());
      }
      check_same_bits(tower, fresh, kept);
    }
  }
}

TEST_CASE("what is computed again is told with its price, in the report and its text") {
  const Tower tower;
  CompileOptions options = plain_options();
  const std::size_t whole = compile(tower.g, cpu_replay(), options).report().arena_bytes;
  CHECK(to_string(compile(tower.g, cpu_replay(), options).report()).find("again") ==
        std::string::npos);
  options.memory_budget = whole * 6 / 10;
  const Executable kept = compile(tower.g, cpu_replay(), options);
  const std::vector<RecomputedValue>& again = kept.report().plan(train).recomputed;
  REQUIRE_FALSE(again.empty());
  double microseconds = 0;
  for (const RecomputedValue& value : again) {
    CHECK(value.microseconds > 0);
    CHECK(value.line.find("memory_budget_test.cc:") != std::string::npos);
    CHECK(value.path.starts_with("block"));
    microseconds += value.microseconds;
  }
  CHECK(std::ranges::any_of(again, [](const RecomputedValue& value) { return value.bytes > 0; }));
  const std::string text = to_string(kept.report());
  CAPTURE(text);
  CHECK(text.find(fmt::format("    computed again, for the memory budget: {} kernels, {:.1f} us a "
                              "step; the 10 dearest\n",
                              again.size(), microseconds)) != std::string::npos);
  const auto dearest = std::ranges::max_element(again, {}, &RecomputedValue::microseconds);
  CHECK(text.find(fmt::format("{:>9.1f} us  {} ({})\n", dearest->microseconds, dearest->path,
                              dearest->line)) != std::string::npos);
}

TEST_CASE("a budget below the smallest is refused, and the smallest is not") {
  const Tower tower;
  CompileOptions options = plain_options();
  const std::size_t whole = compile(tower.g, cpu_replay(), options).report().arena_bytes;
  const std::size_t smallest = smallest_of(tower.g, cpu_replay(), options);
  options.memory_budget = smallest;
  CHECK(compile(tower.g, cpu_replay(), options).report().arena_bytes <= smallest);
  options.memory_budget = 2;
  const std::string text = error_of<RunError>([&] { compile(tower.g, cpu_replay(), options); });
  CHECK(text.starts_with(fmt::format(
      "graph \"tower\": the plan to train needs an arena of {} bytes, but the budget is 2; the "
      "smallest found, with values computed again, is {}; largest at its fullest moment are\n  "
      "f32[64, 32]                0.008 MiB  block",
      whole, smallest)));
  options.recompute_to_fit = false;
  options.memory_budget = whole;
  CHECK(compile(tower.g, cpu_replay(), options).report().arena_bytes == whole);
  options.memory_budget = whole - 1;
  CHECK(error_of<RunError>([&] { compile(tower.g, cpu_replay(), options); })
            .starts_with(fmt::format(
                "graph \"tower\": the plan to train needs an arena of {0} bytes, but the budget is "
                "{1}; the smallest that is feasible is {0}, or less with "
                "CompileOptions::recompute_to_fit; largest at its fullest moment are\n  ",
                whole, whole - 1)));
}

TEST_CASE("eager keeps all, and is refused a budget that its values do not fit") {
  const Tower tower;
  CompileOptions options = plain_options();
  const std::size_t whole = compile(tower.g, eager(), options).report().arena_bytes;
  options.memory_budget = whole - 1;
  CHECK(error_of<RunError>([&] { compile(tower.g, eager(), options); })
            .starts_with(fmt::format(
                "graph \"tower\": the plan to train needs an arena of {0} bytes, but the budget is "
                "{1}; the smallest that is feasible is {0}; largest at its fullest moment are\n  ",
                whole, whole - 1)));
}

/// h = tanh(linear(h) + x), many times: one product takes the gradients of all of them.
Graph unrolled(int times) {
  Graph g("unrolled");
  const Value x = g.input("x", f32, {32, 64});
  const Layer body = [&](Value h) { return tanh(h.through(linear(64)) + x); };
  g.minimize(mse_loss(x.loop(body).times(times), x), Adam{.lr = 1e-3});
  return g;
}

TEST_CASE("products of many steps that stand in the way are told, and the way out leads on") {
  const Graph g = unrolled(60);
  CompileOptions options = plain_options();
  const std::size_t whole = compile(g, cpu_replay(), options).report().arena_bytes;
  options.memory_budget = whole / 4;
  const std::string text = error_of<RunError>([&] { compile(g, cpu_replay(), options); });
  CAPTURE(text);
  CHECK(text.find(", or less with METRONOME_WITHOUT=gather, which rounds otherwise; ") !=
        std::string::npos);
  ::setenv("METRONOME_WITHOUT", "gather", 1);
  CHECK(compile(g, cpu_replay(), options).report().arena_bytes <= whole / 4);
  ::unsetenv("METRONOME_WITHOUT");
}

TEST_CASE("a long graph is fitted to a budget within seconds") {
  const Graph g = unrolled(500);
  CompileOptions options = plain_options();
  ::setenv("METRONOME_WITHOUT", "gather", 1);
  options.memory_budget = compile(g, cpu_replay(), options).report().arena_bytes / 2;
  const Report report = compile(g, cpu_replay(), options).report();
  ::unsetenv("METRONOME_WITHOUT");
  MESSAGE("compiled in ", report.compile_seconds, " s");
  CHECK(report.compile_seconds < 60);
}

TEST_CASE("all plans keep to the budget, those that evaluate and those of other shapes, too") {
  // One value is held over a wide part: a graph that only evaluates can make it again.
  Graph g("wide");
  const Value x = g.input("x", f32, {64, 16});
  const Value early = x.through(linear(256));
  Value h = early;
  for (int i = 0; i < 3; ++i) h = h.through(linear(512)).through(tanh).through(linear(64));
  g.output("y", h.through(linear(256)) + early);
  CompileOptions options = plain_options();
  options.modes = {evaluate};
  Executable plain = compile(g, cpu_replay(), options);
  options.memory_budget = plain.report().arena_bytes - 1;
  Executable kept = compile(g, cpu_replay(), options);
  CHECK(kept.report().arena_bytes < plain.report().arena_bytes);
  CHECK(kept.report().plan(evaluate).recomputed.size() == 1);
  const at::Tensor numbers = at::sin(at::arange(64 * 16, at::kFloat)).reshape({64, 16});
  plain.evaluate({{x, numbers}});
  kept.evaluate({{x, numbers}});
  CHECK(at::equal(plain.read("y"), kept.read("y")));
}

TEST_CASE("paths that are named are computed again in any case, and a budget adds to them") {
  const Tower tower;
  CompileOptions options = plain_options();
  options.recompute = {"block0", "block1"};
  const std::size_t named = compile(tower.g, cpu_replay(), options).report().arena_bytes;
  options.memory_budget = named / 2;
  Executable both = compile(tower.g, cpu_replay(), options);
  CHECK(both.report().arena_bytes <= named / 2);
  CHECK_FALSE(both.report().plan(train).recomputed.empty());
  Executable plain = compile(tower.g, cpu_replay(), plain_options());
  check_same_bits(tower, plain, both);
}

/// The text of a file with what compile chose, and the plan.
struct Tuned {
  std::string text;
  PlanReport plan;
};
Tuned tuned_with(const std::string& file, Tune tune, std::size_t budget) {
  const Tower tower;
  CompileOptions options{.threads = 1, .memory_budget = budget, .tune = tune, .tuning_file = file};
  const Executable step = compile(tower.g, cpu_replay(), options);
  std::ifstream in(file);
  return {{std::istreambuf_iterator<char>(in), {}}, step.report().plan(train)};
}

TEST_CASE("the tuning file keeps the choice, and one that cannot be used is made anew") {
  const tests::Load quiet(0);
  const TemporaryFolder folder;
  const std::string file = folder.file("tuning.json");
  const Tower tower;
  const std::size_t budget =
      compile(tower.g, cpu_replay(), plain_options()).report().arena_bytes / 2;
  const Tuned first = tuned_with(file, Tune::measure, budget);
  const auto at = first.text.find("| compute again ");
  REQUIRE(at != std::string::npos);
  const auto names = [](const PlanReport& plan) {
    std::vector<std::string> paths;
    for (const RecomputedValue& value : plan.recomputed) paths.push_back(value.path);
    return paths;
  };
  for (const Tune tune : {Tune::measure, Tune::file}) {
    const Tuned again = tuned_with(file, tune, budget);
    CHECK(again.text == first.text);
    CHECK(names(again.plan) == names(first.plan));
    CHECK(again.plan.arena_bytes == first.plan.arena_bytes);
  }
  const auto begin = first.text.find(": \"", at) + 3, end = first.text.find('"', begin);
  for (const std::string wrong :
       {"", "nothing", "99999999:1.0", "-3:1.0", "5:", "5:7.0 99999.0 -1.-1", "//"}) {
    CAPTURE(wrong);
    std::ofstream(file) << first.text.substr(0, begin) + wrong + first.text.substr(end);
    const Tuned anew = tuned_with(file, Tune::measure, budget);
    CHECK(anew.plan.arena_bytes <= budget);
    CHECK_FALSE(anew.plan.recomputed.empty());
    CHECK(anew.text.substr(begin, anew.text.find('"', begin) - begin) != wrong);
  }
}

}  // namespace
}  // namespace metronome::memory_budget_test
