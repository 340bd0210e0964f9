// A dropout chain whose values gradients do not wait for: it is computed once more, late, with the
// same mask. The arena is smaller, the bits are the same; and devices keep what nodes wait for.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "executor/compile/arguments.h"
#include "executor/compile/make_plan.h"
#include "executor/cuda/driver/null_driver.h"
#include "executor/cuda/program/kept_constants.h"
#include "executor/cuda/program/program.h"
#include "executor/engine/plan_nodes.h"
#include "graph/check/check_plan.h"
#include "graph/emit/emitter.h"
#include "graph/ir/error.h"
#include "ops/dropout/dropout.h"
#include "tests/aten.h"
#include "tests/error_of.h"
#include "tests/executor/settings_of.h"
#include "tests/executor/targets.h"

namespace metronome::recompute_test {
namespace {

using tests::device_of_host;
using tests::error_of;
using tests::plain_options;

constexpr int kBlocks = 6;
constexpr std::int64_t kBatch = 16, kWidth = 8, kWide = 128;

std::vector<std::string> blocks() {
  std::vector<std::string> paths;
  for (int i = 0; i < kBlocks; ++i) paths.push_back(fmt::format("block{}", i));
  return paths;
}

// x - block0 - ... - block5 - loss      block: linear (wide) - gelu - layer_norm - dropout - linear
// Of the last block a branch, which data choose, is a part.
struct Model {
  Graph g{"chain"};
  Value x = g.input("x", f32, {kBatch, kWidth});
  Value which = g.input("which", i32, {});
  Model() {
    Value y = x;
    for (const std::string& path : blocks()) {
      const bool last = path == blocks().back();
      y = y.scope(path, [&](Value h) {
        h = h.through(linear(kWide)).through(gelu).through(layer_norm());
        if (last) h = h.choose(which, {Layer(tanh), Layer(dropout(0.25))});
        return h.through(dropout(0.5)).through(linear(kWidth));
      });
    }
    g.minimize(mse_loss(y, x), Adam{.lr = 1e-2});
  }
  std::vector<Feed> feeds(int step) const {
    const auto numbers = at::arange(kBatch * kWidth, at::TensorOptions(at::kFloat));
    return {{x, at::sin(numbers + step).reshape({kBatch, kWidth})},
            {which, at::full({}, step % 2, at::TensorOptions(at::kInt))}};
  }
};

void recompute_blocks(Settings& settings) { settings.recomputed = blocks(); }
template <Target (*make)()>
Target recomputing() {
  return changed<make, recompute_blocks>();
}
Target kernel_by_kernel() { return stepwise(); }

executor::Plan planned(const ir::Graph& graph, const Target& target,
                       std::vector<std::string> recomputed) {
  Settings settings = settings_of(target, Mode::train);
  settings.recomputed = std::move(recomputed);
  const auto backend = opened(target, {.threads = 1});
  Report report;
  return executor::compile::make_plan({graph}, settings, backend->kernels(), {.tune = Tune::off},
                                      report);
}

const std::string& path_of(const Node& node) { return node.path; }

bool is_clone(const Node& node) { return node.path.get().ends_with(".again"); }

TEST_CASE("values that are computed again take no room in between") {
  const Model model;
  const executor::Plan keeps = planned(model.g.data(), cpu_replay(), {});
  const executor::Plan again = planned(model.g.data(), cpu_replay(), blocks());
  MESSAGE("arena ", keeps.memory.arena_bytes, " bytes as it is, ", again.memory.arena_bytes,
          " where the blocks are computed again; kernels ", keeps.report.kernels, " and ",
          again.report.kernels);
  CHECK(again.memory.arena_bytes < 0.7 * static_cast<double>(keeps.memory.arena_bytes));
  CHECK(again.report.kernels > keeps.report.kernels);
}

TEST_CASE("compile computes again what is named") {
  const Model model;
  const auto arena = [&](const CompileOptions& options) {
    return compile(model.g, cpu_replay(), options).report().arena_bytes;
  };
  CompileOptions options = plain_options();
  const std::size_t keeps = arena(options);
  options.recompute = blocks();
  CHECK(arena(options) < 0.7 * static_cast<double>(keeps));
  for (const std::string wrong : {"", "bl", "nowhere/2", "block?/nowhere", "x"}) {
    options.recompute = {wrong};
    CHECK(error_of<RunError>([&] { arena(options); }) ==
          fmt::format("graph \"{}\": CompileOptions::recompute names \"{}\", but no node lies "
                      "there; name paths as Graph::print shows them",
                      model.g.name(), wrong));
  }
}

TEST_CASE("a glob names each scope that it finds, as one segment each") {
  const Model model;
  const auto paths = [&](std::vector<std::string> globs) {
    const executor::GraphInModes part{&model.g.data(), {Mode::train}};
    return executor::compile::recomputed_paths({&part, 1}, globs);
  };
  using Paths = std::vector<std::string>;
  CHECK(paths({"block*"}) == blocks());
  CHECK(paths({"block4", "block?"}) ==
        Paths{"block4", "block0", "block1", "block2", "block3", "block5"});
  CHECK(paths({"block?/linear_1"}).size() == blocks().size());
  CHECK(paths({"**/dropout"}).front() == "block0/dropout");
  CompileOptions by_glob = plain_options(), by_path = plain_options();
  by_glob.recompute = {"block*"};
  by_path.recompute = blocks();
  const auto arena = [&](const CompileOptions& options) {
    return compile(model.g, cpu_replay(), options).report().arena_bytes;
  };
  CHECK(arena(by_glob) == arena(by_path));
}

TEST_CASE("clones keep their key and stay apart from what they are clones of") {
  const Model model;
  const ir::Graph graph = planned(model.g.data(), cpu_replay(), blocks()).graph;
  int dropouts = 0;
  for (const Node& clone : graph.nodes()) {
    if (!is_clone(clone)) continue;
    if (executor::has_kernel(graph, clone)) CHECK_FALSE(clone.waits_for.empty());
    if (clone.op->as<Dropout>() == nullptr) continue;
    const std::string path = clone.path.get().substr(0, clone.path.size() - 6);  // without ".again"
    const auto original = std::ranges::find(graph.nodes(), path, &path_of);
    REQUIRE(original != graph.nodes().end());
    CHECK(clone.op->equals(*original->op));
    ++dropouts;
  }
  CHECK(dropouts == kBlocks + 1);
}

TEST_CASE("the same bits with and without, on a CPU, kernel by kernel and on a device") {
  const Model model;
  CompileOptions poisoned = plain_options();
  poisoned.poison = true;
  struct Pair {
    Executable keeps, again;
  };
  std::vector<Pair> pairs;
  const auto add = [&](const Target& keeps, const Target& again, const CompileOptions& options) {
    pairs.push_back({compile(model.g, keeps, plain_options()), compile(model.g, again, options)});
  };
  add(cpu_replay(), recomputing<cpu_replay>(), plain_options());
  add(cpu_replay(), recomputing<cpu_replay>(), poisoned);
  add(stepwise(), recomputing<kernel_by_kernel>(), plain_options());
  add(cpu_replay(), recomputing<kernel_by_kernel>(), plain_options());
  add(device_of_host(), recomputing<device_of_host>(), plain_options());
  for (Pair& pair : pairs) {
    for (int step = 0; step < 5; ++step) {
      pair.keeps.run(model.feeds(step));
      pair.again.run(model.feeds(step));
      CHECK(pair.keeps.read_scalar(model.g.loss()) == pair.again.read_scalar(model.g.loss()));
      for (const std::string& path : pair.keeps.storages()) {
        CAPTURE(path);
        CHECK(at::equal(pair.keeps.get(path), pair.again.get(path)));
      }
    }
  }
}

TEST_CASE("the checker refuses an order in which a clone runs as early as it could") {
  const Model model;
  const Settings settings = settings_of(cpu_replay(), Mode::train);
  executor::Plan plan = planned(model.g.data(), cpu_replay(), blocks());
  std::vector<std::int32_t>& order = plan.schedule.order;
  const auto first = std::ranges::find_if(
      order, [&](std::int32_t node) { return is_clone(plan.graph.nodes()[node]); });
  REQUIRE(first != order.end());
  const std::int32_t clone = *first;
  const Node& node = plan.graph.nodes()[clone];
  REQUIRE_FALSE(node.waits_for.empty());
  const std::int32_t waited = node.waits_for[0];
  REQUIRE(executor::has_kernel(plan.graph, plan.graph.nodes()[waited]));
  order.erase(first);
  order.insert(std::ranges::find(order, waited), clone);
  const std::string wrong =
      check::check_plan(plan.graph, plan.schedule, plan.scratch_bytes, plan.memory, settings)
          .value_or("no fault");
  const auto step = [&](std::int32_t n) { return std::ranges::find(order, n) - order.begin(); };
  CHECK(wrong == fmt::format("\"{}\" runs at step {}, before \"{}\" at step {}, for which it waits",
                             node.path, step(clone), plan.graph.nodes()[waited].path,
                             step(waited)));
}

class NoConstants final : public ConstantMemory {
 public:
  const void* keep(std::span<const std::byte> bytes) override { return bytes.data(); }
};

/// Memory of its own for all that lies beside the arena.
struct Beside {
  std::vector<std::vector<std::byte>> blocks = {};
  std::byte* take(std::size_t bytes) { return blocks.emplace_back(bytes + 256).data(); }
};

/// [node] The nodes that a device runs before it, directly or not.
std::vector<std::vector<bool>> before_on_device(const executor::Plan& plan) {
  Beside memory;
  executor::Bases bases;
  bases.arena = memory.take(plan.memory.arena_bytes);
  for (const Storage& storage : plan.graph.storages()) {
    bases.storages.push_back(memory.take(storage.type.bytes()));
  }
  std::byte* const inputs = memory.take(1 << 16);  // they are only read
  bases.input = [&](const Input&) { return inputs; };
  for (const std::size_t bytes : plan.memory.readable_bytes) {
    bases.readables.push_back(memory.take(bytes));
  }
  NullDriver driver;
  NoConstants constants;
  std::vector<executor::program::TouchedMemory> work;
  for (const auto& task :
       executor::program::tasks_of(plan, bases, {cuda_table(), driver.properties(), constants})) {
    work.push_back(task.touched);
  }
  const auto hazards = executor::program::hazards(work);
  const std::size_t nodes = plan.graph.nodes().size();
  std::vector<std::vector<bool>> before(nodes, std::vector<bool>(nodes));
  const executor::program::KeptConstants kept(plan.graph, constants);
  std::vector<std::int32_t> node_of;  // [task]
  for (const std::int32_t node : plan.schedule.order) {
    if (!executor::has_kernel(plan.graph, plan.graph.nodes()[node]) || kept.has(node)) continue;
    for (const std::int32_t task : hazards[node_of.size()]) {
      const std::int32_t earlier = node_of[task];
      before[node][earlier] = true;
      for (std::size_t n = 0; n < nodes; ++n) {
        if (before[earlier][n]) before[node][n] = true;
      }
    }
    node_of.push_back(node);
  }
  return before;
}

TEST_CASE("a device keeps a wait though no bytes ask for it, for a view as for its maker") {
  // x - first - view        late waits for the view, free for nothing
  //   - late, free
  for (const bool waits : {false, true}) {
    Graph g("waits");
    const Value x = g.input("x", f32, {8});
    const Value first = exp(x), view = first.reshape({2, 4});
    Node node = tanh(x).node();
    node.path = "late";
    if (waits) node.waits_for = {view.id().node};
    const Value late = g.value(g.emitter().graph.append(node));
    const Value free = sin(x);
    g.output("view", view);
    g.output("late", late);
    g.output("free", free);
    const executor::Plan plan = planned(g.data(), null({.fuse = false}), {});
    const auto at = [&](const std::string& path) {
      return std::ranges::find(plan.graph.nodes(), path, &path_of) - plan.graph.nodes().begin();
    };
    const auto before = before_on_device(plan);
    const auto late_at = at(waits ? "late" : "tanh");  // one of equal nodes stays, the first
    CHECK(before[late_at][at("exp")] == waits);
    CHECK_FALSE(before[at("sin")][at("exp")]);
    CHECK_FALSE(before[at("exp")][late_at]);
  }
}

TEST_CASE("a device keeps all that clones wait for, fused or not") {
  const Model model;
  for (const bool fuse : {false, true}) {
    const executor::Plan plan = planned(model.g.data(), null({.fuse = fuse}), blocks());
    const auto before = before_on_device(plan);
    int waits = 0;
    for (std::size_t n = 0; n < plan.graph.nodes().size(); ++n) {
      for (const std::int32_t waited : plan.graph.nodes()[n].waits_for) {
        if (!executor::has_kernel(plan.graph, plan.graph.nodes()[waited])) continue;
        CHECK(before[n][waited]);
        ++waits;
      }
    }
    CHECK(waits >= kBlocks);
  }
}

}  // namespace
}  // namespace metronome::recompute_test
