// Who owns what an executable hands out, and what is left of one that was moved from.
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "executor/metronome.h"
#include "graph/ir/error.h"
#include "tests/cuda/host_driver.h"
#include "tests/doctest.h"
#include "tests/executor/targets.h"

namespace metronome::ownership_test {
namespace {

using tests::targets;

constexpr std::int64_t kMany = 1 << 12;  // elements: freed blocks of this size are written to

/// y = w x, beside views of all that lasts.
struct Wide {
  Graph g{"wide"};
  Value x = g.input("x", f32, {kMany});
  Value w = g.parameter("w", Type{f32, {kMany}}, ones());
  Value y = x * w;
  Wide() {
    g.output("y", y);
    g.output("row", y.reshape({1, kMany}));
    g.output("old x", x.reshape({1, kMany}));
    g.output("old w", w.reshape({1, kMany}));
    g.minimize(sum(y), Sgd{.lr = 1});
  }
};

CompileOptions plain() {
  CompileOptions options;
  options.tune = Tune::off;
  options.threads = 1;
  return options;
}

at::Tensor filled(double number) { return at::full({kMany}, number); }

at::Tensor returned_from_a_function(const Target& target, const char* what) {
  Wide wide;
  Executable step = compile(wide.g, target, plain());
  step.run({{wide.x, filled(3)}});
  return step.read(what);
}

TEST_CASE("what was read outlives the executable, its graph and its device") {
  for (const Target& target : targets()) {
    CHECK(returned_from_a_function(target, "y").equal(filled(3)));
    CHECK(returned_from_a_function(target, "row").equal(filled(3).reshape({1, kMany})));
    CHECK(returned_from_a_function(target, "loss").item<float>() == 3.0f * kMany);
  }
}

TEST_CASE("so does what `get` and `input` returned") {
  for (const Target& target : targets()) {
    Wide wide;
    auto step = std::make_unique<Executable>(compile(wide.g, target, plain()));
    const at::Tensor x = step->input(wide.x);
    x.fill_(2);
    step->run();
    const at::Tensor w = step->get("w");
    CHECK(w.equal(filled(-1)));  // 1 - d sum(w x) / d w
    step.reset();
    CHECK(x.equal(filled(2)));
    CHECK(w.equal(filled(-1)));
    x.fill_(7);
    w.fill_(7);
  }
}

TEST_CASE("it keeps the block that it shows, and no other") {
  for (const Target& target : {cpu_replay(), stepwise()}) {
    at::Tensor y, row;
    {
      Wide wide;
      Executable step = compile(wide.g, target, plain());
      step.run({{wide.x, filled(3)}});
      y = step.read("y");
      row = step.read("row");
      CHECK(y.storage().nbytes() == kMany * sizeof(float));
    }
    // Two values in one block, of which each is held by its own tensors alone.
    CHECK(y.data_ptr() == row.data_ptr());
    y.reset();
    CHECK(row.equal(filled(3).reshape({1, kMany})));
  }
}

TEST_CASE("as long as both live, the next call changes what a tensor shows") {
  for (const Target& target : {cpu_replay(), stepwise()}) {
    Wide wide;
    Executable step = compile(wide.g, target, plain());
    step.run({{wide.x, filled(3)}});
    const at::Tensor y = step.read("y"), x = step.input("x");
    step.run({{wide.x, filled(1)}});
    CHECK(y.equal(filled(-2)));
    CHECK(x.equal(filled(1)));
  }
}

TEST_CASE("what `get` returned is a copy: no call changes it, and it changes nothing") {
  for (const Target& target : targets()) {
    Wide wide;
    Executable step = compile(wide.g, target, plain());
    step.run({{wide.x, filled(3)}});
    const at::Tensor w = step.get("w");
    CHECK(w.equal(filled(-2)));
    step.run({{wide.x, filled(1)}});
    step.set("w", filled(5));
    CHECK(step.get("w").equal(filled(5)));
    CHECK(w.equal(filled(-2)));
    w.fill_(9);
    CHECK(step.get("w").equal(filled(5)));
    step.run({{wide.x, filled(1)}});
    CHECK(step.get("w").equal(filled(4)));
  }
}

TEST_CASE("by eager and on a GPU what was read is a copy") {
  for (const Target& target : targets()) {
    if (target.open != eager().open && target.device.kind == Device::Kind::cpu) continue;
    Wide wide;
    Executable step = compile(wide.g, target, plain());
    step.run({{wide.x, filled(3)}});
    const at::Tensor y = step.read("y");
    step.run({{wide.x, filled(1)}});
    CHECK(y.equal(filled(3)));
  }
}

TEST_CASE("a view of an input or of a storage's old value is read as the step saw it") {
  for (const Target& target : targets()) {
    Wide wide;
    Executable step = compile(wide.g, target, plain());
    step.run({{wide.x, filled(3)}});
    CHECK(step.read("old w").equal(at::ones({1, kMany})));
    step.input(wide.x).fill_(9);
    CHECK(step.read("old x").equal(filled(3).reshape({1, kMany})));
  }
}

TEST_CASE("every call on an executable that was moved from says so") {
  Wide wide;
  Executable from = compile(wide.g, cpu_replay(), plain());
  const Snapshot kept = from.snapshot();
  Executable to = std::move(from);
  const auto refused = [](const auto& call) {
    CHECK_THROWS_WITH_AS(
        call(),
        "this Executable was moved from and holds nothing; call the one that it was moved to",
        RunError);
  };
  const auto refuses_all = [&](Executable& gone) {
    const std::vector<Feed> feeds = {{wide.x, filled(1)}};
    refused([&] { gone.run({{wide.x, filled(1)}}); });
    refused([&] { gone.run(feeds); });
    refused([&] { gone.evaluate({}); });
    refused([&] { gone.evaluate(feeds); });
    refused([&] { gone.profile({}); });
    refused([&] { gone.profile(feeds); });
    refused([&] { gone.input(wide.x); });
    refused([&] { gone.input("x"); });
    refused([&] { gone.read(wide.y); });
    refused([&] { gone.read("y"); });
    refused([&] { gone.read_scalar(wide.g.loss()); });
    refused([&] { gone.read_scalar(wide.g.loss(), 0); });
    refused([&] { gone.get("w"); });
    refused([&] { gone.set("w", filled(1)); });
    refused([&] { gone.storages(); });
    refused([&] { gone.reset(); });
    refused([&] { gone.reset("w"); });
    refused([&] { gone.steps(); });
    refused([&] { gone.replays(); });
    refused([&] { gone.updates(); });
    refused([&] { gone.fault(); });
    refused([&] { gone.save("never-written"); });
    refused([&] { gone.load("never-read"); });
    refused([&] { gone.snapshot(); });
    refused([&] { gone.load(kept); });
    refused([&] { gone.report(); });
  };
  refuses_all(from);
  from = std::move(to);
  refuses_all(to);
  from.run({{wide.x, filled(1)}});
  CHECK(from.read("y").equal(filled(1)));
}

}  // namespace
}  // namespace metronome::ownership_test
