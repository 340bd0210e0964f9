// Tensors stored in blocks: where they are copied, what they compute, and what users see of them.
#include <string>
#include <vector>

#include "executor/compile/make_plan.h"
#include "executor/engine/plan.h"
#include "executor/metronome.h"
#include "tests/aten.h"
#include "tests/doctest.h"
#include "tests/executor/settings_of.h"
#include "tests/executor/temporary_folder.h"

namespace layout_test {
namespace {

using namespace metronome;

const Layout kInBlocks{{}, 1, 16};

/// Products of images want their channels in blocks of 16.
void blocks(Settings& settings) {
  settings.layouts.wants = [](const OpPtr& op,
                              std::span<const Type> types) -> std::optional<Layout> {
    const bool product = op->name() == "mul" && types.size() == 2;
    if (!product || types[0].rank() != 4 || types[0].shape[3] == 1) return std::nullopt;
    return kInBlocks;
  };
}
Target plain_stepwise() { return stepwise(); }
Target plain_null() { return null(); }

at::Tensor image(std::int64_t batch, int step) {
  return at::sin(at::arange(batch * 720) * 0.37 + step).reshape({batch, 20, 6, 6}).to(at::kFloat);
}

// 20 channels: a product, a chain of elementwise ops, and a mean over the image.
struct Chain {
  Chain() {
    const Value h = metronome::tanh(gelu(x * x) + 0.5) * 0.25;
    graph.output("y", mean(h, {2, 3}));
  }
  Graph graph{"chain"};
  Value x = graph.input("x", f32, {8, 20, 6, 6});
};

TEST_CASE("a chain and a reduction run over blocks: one copy in, one out") {
  const Chain model;
  Executable blocked = compile(model.graph, changed<cpu_replay, blocks>(), {.modes = {evaluate}});
  Executable walk = compile(model.graph, changed<plain_stepwise, blocks>(), {.modes = {evaluate}});
  Executable libtorch = compile(model.graph, eager(), {.modes = {evaluate}});
  CHECK(blocked.report().plans[0].relayouts == 2);
  const std::string text = to_string(blocked.report());
  CHECK_MESSAGE(text.find("\n    2 copies into other layouts\n") != std::string::npos, text);
  for (int step = 0; step < 2; ++step) {
    for (Executable* e : {&blocked, &walk, &libtorch}) e->evaluate({{"x", image(8, step)}});
    CHECK(at::equal(blocked.read("y"), walk.read("y")));
    CHECK(at::allclose(blocked.read("y"), libtorch.read("y"), 1e-5, 1e-6));
  }
  Executable device = compile(model.graph, changed<plain_null, blocks>(), {.modes = {evaluate}});
  CHECK(device.report().plans[0].relayouts == 2);
}

TEST_CASE("the bytes of a tensor are those of its layout") {
  const Chain model;
  const Target target = changed<cpu_replay, blocks>();
  const auto backend = opened(target, {.threads = 1});
  Report report;
  const executor::Plan plan =
      executor::compile::make_plan({model.graph.data()}, settings_of(target, Mode::evaluate),
                                   backend->kernels(), {.tune = Tune::off}, report);
  std::size_t most = 0;
  for (const Node& node : plan.graph.nodes()) most = std::max(most, node.types[0].bytes());
  CHECK(most == 8 * 2 * 6 * 6 * 16 * sizeof(float));
}

// A weight for each place of an image, used by a product.
struct Weighed {
  explicit Weighed(std::int64_t batch) : x(graph.input("x", f32, {batch, 20, 6, 6})) {
    const Value w = graph.parameter("w", {f32, {20, 6, 6}}, uniform(-1, 1));
    const Value h = metronome::tanh(x * w);
    const Value y = mean(h, {2, 3}).through(linear(3));
    graph.output("y", y);
    graph.minimize(mean(square(y)), Adam{.lr = 1e-2});
    graph.average("w", {.decay = 0.9});
  }
  Graph graph{"weighed"};
  Value x;
};

struct Runs {
  explicit Runs(const Target& target)
      : step(compile({&eight.graph, &three.graph}, target,
                     {.modes = {train, evaluate}, .seed = 5, .tune = Tune::off})) {}
  void train_both(int from, int to) {
    for (int i = from; i < to; ++i) {
      step.run({{eight.x, image(8, i)}});
      step.run({{three.x, image(3, i + 100)}});
    }
  }
  Weighed eight{8}, three{3};
  Executable step;
};

TEST_CASE("a weight stays in blocks over training, evaluation and batch shapes") {
  Runs blocked(changed<cpu_replay, blocks>());
  Runs walk(changed<plain_stepwise, blocks>());
  Runs plain(cpu_replay());
  // x into blocks and the means out of them; in training also their gradient in, and the gradient
  // of w out and in, as it passes a reshape, which knows no layout. w itself is never copied.
  for (const PlanReport& plan : blocked.step.report().plans) {
    CAPTURE(name_of(plan.mode));
    CHECK(plan.relayouts == (plan.mode == Mode::train ? 5 : 2));
  }
  // 20 channels take 32 places: the weight, its two moments and its average.
  CHECK(blocked.step.report().storage_bytes ==
        plain.step.report().storage_bytes + 4 * 12 * 36 * sizeof(float));

  CHECK(at::equal(blocked.step.get("w"), plain.step.get("w")));
  for (Runs* runs : {&blocked, &walk, &plain}) runs->train_both(0, 4);
  for (const std::string& path : blocked.step.storages()) {
    CAPTURE(path);
    const at::Tensor w = blocked.step.get(path);
    CHECK(at::equal(w, walk.step.get(path)));
    CHECK(at::allclose(w, plain.step.get(path), 1e-4, 1e-5));
  }
  CHECK(blocked.step.get("w").sizes() == at::IntArrayRef{20, 6, 6});
  for (Runs* runs : {&blocked, &plain}) runs->step.evaluate({{runs->three.x, image(3, 7)}});
  CHECK(at::allclose(blocked.step.read("y"), plain.step.read("y"), 1e-4, 1e-5));
}

TEST_CASE("set, save and load speak of plain tensors, whatever layout a plan keeps") {
  const TemporaryFolder folder;
  Runs blocked(changed<cpu_replay, blocks>()), plain(cpu_replay());
  const at::Tensor w = at::cos(at::arange(720)).reshape({20, 6, 6}).to(at::kFloat);
  for (Runs* runs : {&blocked, &plain}) {
    runs->step.set("w", w);
    CHECK(at::equal(runs->step.get("w"), w));
    runs->train_both(0, 2);
  }
  // Each of them goes on with what the other saves.
  blocked.step.save(folder.file("blocked"));
  plain.step.load(folder.file("blocked"));
  for (const std::string& path : blocked.step.storages()) {
    CAPTURE(path);
    CHECK(at::equal(blocked.step.get(path), plain.step.get(path)));
  }
  plain.step.save(folder.file("plain"));
  Runs resumed(changed<cpu_replay, blocks>());
  resumed.step.load(folder.file("plain"));
  for (Runs* runs : {&blocked, &resumed}) runs->train_both(2, 4);
  for (const std::string& path : blocked.step.storages()) {
    CAPTURE(path);
    CHECK(at::equal(blocked.step.get(path), resumed.step.get(path)));
  }
}

}  // namespace

}  // namespace layout_test
