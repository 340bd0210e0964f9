// Steps in which a library's call fails: what the error says, what is left, and the way back.
//
// oneDNN's execute is this program's own, as its definitions come first for all libraries: it
// fails where a test plants a failure, and else is the library's.
#include <dlfcn.h>
#include <fmt/format.h>
#include <oneapi/dnnl/dnnl.h>

#include <algorithm>
#include <climits>
#include <functional>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "executor/metronome.h"
#include "graph/emit/scope.h"
#include "graph/ir/error.h"
#include "ops/own/own_ops.h"
#include "tests/aten.h"
#include "tests/doctest.h"
#include "tests/error_of.h"
#include "tests/executor/load.h"
#include "tests/executor/logged.h"
#include "tests/executor/temporary_folder.h"
#include "tests/executor/told.h"

namespace {

struct Planted {
  dnnl_status_t status = dnnl_success;
  int first = INT_MAX;  ///< the calls first to end - 1 fail
  int end = INT_MAX;
  int calls = 0;  ///< so far
};
Planted planted;

/// While it lives, calls that are counted from now on fail: `count` of them from `first` on.
class Failing {
 public:
  Failing(dnnl_status_t status, int first, int count = 1) {
    planted = {status, first, first + count};
  }
  ~Failing() { planted = {}; }
  Failing(const Failing&) = delete;
  Failing& operator=(const Failing&) = delete;
};

}  // namespace

extern "C" dnnl_status_t dnnl_primitive_execute(const_dnnl_primitive_t primitive,
                                                dnnl_stream_t stream, int count,
                                                const dnnl_exec_arg_t* arguments) {
  static const auto library = reinterpret_cast<decltype(&dnnl_primitive_execute)>(
      dlsym(RTLD_NEXT, "dnnl_primitive_execute"));
  const int call = planted.calls++;
  if (call < planted.first || call >= planted.end) {
    return library(primitive, stream, count, arguments);
  }
  // Without arguments the library itself refuses.
  if (planted.status == dnnl_invalid_arguments) return library(primitive, stream, 0, nullptr);
  return planted.status;
}

namespace mine {

using namespace metronome;

bool forward_fails = false, backward_fails = false;

// x, by a kernel and a reference that fail where they are told to.
struct Fragile {
  static constexpr std::string_view name = "fragile";
  bool operator==(const Fragile&) const = default;
  Types infer(std::span<const Type> in) const { return {in[0]}; }
  Values vjp(const Vjp& v) const { return {v.grad()}; }
};
CpuKernel bind(const Fragile&, const CpuLaunch& launch) {
  return CpuKernel(
      [x = launch.in<float>(0), y = launch.out<float>(0), count = launch.outputs[0].numel()] {
        if (forward_fails) throw std::runtime_error("its library is out of order");
        std::copy(x, x + count, y);
      });
}
Tensors reference(const Fragile&, const Tensors& in) {
  TORCH_CHECK(!forward_fails, "its library is out of order");
  const at::Tensor y = in[0] + 0;
  if (y.requires_grad()) {
    y.register_hook(
        [](const at::Tensor&) { TORCH_CHECK(!backward_fails, "its gradient is out of order"); });
  }
  return {y};
}

}  // namespace mine

namespace metronome::tests {
namespace {

const std::string kAgain = "; no storage was changed, so the step may be run again";
const std::string kLoad =
    "; the step had begun to change storages: load a checkpoint, or compile the graph again; until "
    "then run, evaluate, profile, save and snapshot refuse";

CompileOptions by_onednn(std::vector<Mode> modes) {
  CompileOptions options;
  options.modes = std::move(modes);
  options.threads = 2;
  options.tune = Tune::off;
  options.kernels = Family::onednn;
  return options;
}

at::Tensor waves(at::IntArrayRef shape) {
  std::int64_t count = 1;
  for (const std::int64_t n : shape) count *= n;
  return at::sin(at::arange(count, at::TensorOptions(at::kFloat))).reshape(shape);
}

using Stored = std::map<std::string, at::Tensor>;
Stored stored(const Executable& e) {
  Stored all;
  for (const std::string& path : e.storages()) all[path] = e.get(path).clone();
  return all;
}
void check_equal(const Stored& found, const Stored& expected) {
  for (const auto& each : expected) {
    CAPTURE(each.first);
    CHECK(at::equal(found.at(each.first), each.second));
  }
}

/// To train it writes h in place, and only then a library computes y: 4 MFLOP, enough for oneDNN.
struct WrittenFirst {
  Graph g{"fed"};
  Value x = g.input("x", f32, {128, 128});
  Value total;
  WrittenFirst() {
    const Value h = g.state("h", {f32, {128, 128}}), next = h + x;
    g.feed(h, next);
    const Value y = next.through(linear(128), kHere);
    total = sum(y);
    g.output("y", y);
    g.output("total", total);
  }
  Feeds step() const { return {{x, waves({128, 128})}}; }
};

TEST_CASE("a step that breaks off behind a write is refused until load, and not saved") {
  const WrittenFirst m;
  const TemporaryFolder folder;
  const std::string file = folder.file("whole");
  Executable e = compile(m.g, cpu_replay(), by_onednn({train, evaluate}));
  Executable undisturbed = compile(m.g, cpu_replay(), by_onednn({train, evaluate}));
  REQUIRE(e.report().plan(Mode::train).copies == 0);
  e.run(m.step());
  e.save(file);
  undisturbed.run(m.step());
  undisturbed.run(m.step());

  const std::string text =
      "graph \"fed\": step 1: linear \"linear\" (train.cc:12): oneDNN's execute failed: "
      "out_of_memory (1)" +
      kLoad;
  const std::vector<std::function<void()>> steps = {[&] { e.run(m.step()); },
                                                    [&] { e.profile(m.step()); }};
  const std::vector<std::function<void()>> refused = {
      steps[0], steps[1], [&] { e.evaluate(m.step()); }, [&] { e.save(folder.file("half")); },
      [&] { e.snapshot(); }};
  for (const auto& step : steps) {
    {
      const Failing failing(dnnl_out_of_memory, 0);
      CHECK(error_of<RunError>(step) == text);
    }
    for (const auto& call : refused) CHECK(error_of<RunError>(call) == text);
    CHECK(error_of<RunError>([&] { e.read("y"); }) ==
          "graph \"fed\": the step that was to produce \"y\" broke off; run another first");
    e.reset();
    CHECK(error_of<RunError>([&] { e.load(folder.file("missing")); }) != "nothing");
    CHECK(error_of<RunError>(steps[0]) == text);
    CHECK(e.steps() == 1);
    CHECK(folder.files() == 1);
    CHECK(e.load(file).empty());
  }
  e.run(m.step());
  check_equal(stored(e), stored(undisturbed));
  CHECK(at::equal(e.read("y"), undisturbed.read("y")));
}

TEST_CASE("an evaluation that breaks off leaves storages, and what steps to train left") {
  const WrittenFirst m;
  const TemporaryFolder folder;
  Executable e = compile(m.g, cpu_replay(), by_onednn({train, evaluate}));
  e.run(m.step());
  const at::Tensor trained = e.read("y").clone();
  const double total = e.read_scalar(m.total);
  const Stored before = stored(e);
  const std::string text =
      "graph \"fed\": step 1: linear \"linear\" (train.cc:12): oneDNN's execute failed: "
      "invalid_arguments (2)" +
      kAgain;
  const auto fails = [&] {
    const Failing failing(dnnl_invalid_arguments, 0);
    return error_of<RunError>([&] { e.evaluate(m.step()); });
  };
  CHECK(fails() == text);
  CHECK(at::equal(e.read("y"), trained));
  CHECK(e.read_scalar(m.total, 0) == total);
  check_equal(stored(e), before);
  e.save(folder.file("whole"));
  e.evaluate(m.step());
  CHECK(fails().starts_with("graph \"fed\": step 2: linear "));
  CHECK(error_of<RunError>([&] { e.read("y"); }) ==
        "graph \"fed\": the step that was to produce \"y\" broke off; run another first");
}

TEST_CASE("every call of a convolution is looked at") {
  Graph g("images");
  const Value x = g.input("x", f32, {16, 32, 20, 20});
  g.output("y",
           conv2d(x, g.parameter("w", {f32, {32, 32, 3, 3}}, normal()), ConvArguments{}, kHere));
  const Feeds feeds = {{x, waves({16, 32, 20, 20})}};
  const auto calls_of = [&](Executable& step) {
    planted.calls = 0;
    step.evaluate(feeds);
    return planted.calls;
  };
  const auto fails_at = [&](Executable& step, int call, int number) {
    const Failing failing(dnnl_runtime_error, call);
    CHECK(error_of<RunError>([&] { step.evaluate(feeds); }) ==
          fmt::format("graph \"images\": step {}: convolution \"convolution\" (train.cc:12): "
                      "oneDNN's execute failed: runtime_error (5)",
                      number) +
              kAgain);
  };
  Executable e = compile(g, cpu_replay(), by_onednn({evaluate}));
  const int with_packing = calls_of(e);
  const at::Tensor y = e.read("y").clone();
  const int calls = calls_of(e);
  REQUIRE(calls >= 1);
  CHECK(with_packing >= calls);
  for (int call = 0; call < calls; ++call) fails_at(e, call, 2);
  e.evaluate(feeds);
  CHECK(at::equal(e.read("y"), y));
  // A weight whose packing failed is packed by the next step.
  Executable fresh = compile(g, cpu_replay(), by_onednn({evaluate}));
  for (int call = 0; call < with_packing - calls; ++call) fails_at(fresh, call, 0);
  CHECK(calls_of(fresh) >= calls);
  CHECK(at::equal(fresh.read("y"), y));
}

TEST_CASE("whichever call of a training step fails, the way that the error names leads on") {
  Graph g("small");
  const Value x = g.input("x", f32, {128, 128}), t = g.input("t", f32, {128, 128});
  const Value h = tanh(x.through(linear(128), kHere));
  g.minimize(mse_loss(h.through(linear(128), kHere), t), Adam{.lr = 1e-2});
  const Feeds feeds = {{x, waves({128, 128})}, {t, at::cos(waves({128, 128}))}};
  const TemporaryFolder folder;
  const std::string file = folder.file("whole");
  for (const Target& target : {cpu_replay(), stepwise()}) {
    Executable e = compile(g, target, by_onednn({train}));
    CAPTURE(e.report().target);
    e.run(feeds);
    e.save(file);
    planted.calls = 0;
    e.run(feeds);
    const int calls = planted.calls;
    REQUIRE(calls >= 5);  // two products forward, three backward
    const Stored after = stored(e);
    for (int call = 0; call < calls; ++call) {
      CAPTURE(call);
      e.load(file);
      const Stored before = stored(e);
      std::string text;
      {
        const Failing failing(dnnl_out_of_memory, call);
        text = error_of<RunError>([&] { e.run(feeds); });
      }
      CAPTURE(text);
      CHECK(text.find(" (train.cc:12): oneDNN's execute failed: out_of_memory (1); ") !=
            std::string::npos);
      CHECK(error_of<RunError>([&] {
              e.read_scalar(g.loss());
            }).ends_with("broke off; run another first"));
      if (text.ends_with(kAgain)) {
        check_equal(stored(e), before);
      } else {
        CHECK(text.ends_with(kLoad));
        CHECK(e.report().target == "cpu_replay");
        e.load(file);
      }
      e.run(feeds);
      check_equal(stored(e), after);
    }
  }
}

TEST_CASE("a candidate that fails where it is timed is left out, with a warning") {
  Graph g("timed");
  const Value x = g.input("x", f32, {64, 256});
  g.output("y", x.through(linear(512), kHere));
  const TemporaryFolder folder;
  CompileOptions options;
  options.threads = 1;
  options.tuning_file = folder.file("tuning.json");
  const Failing failing(dnnl_runtime_error, 0, INT_MAX);
  const tests::Load quiet(0);
  const Logged logged;
  const Executable e = compile(g, cpu_replay(), options);
  CHECK(planted.calls == 1);
  REQUIRE(e.report().choices.size() == 1);
  const std::string choice = to_string(e.report().choices[0]);
  CAPTURE(choice);
  CHECK(choice.ends_with(" (timed)"));
  CHECK(choice.find("onednn") == std::string::npos);
  CHECK(logged.text() ==
        "warning: linear \"linear\" (train.cc:12): onednn is left out, as it fails where it is "
        "timed: oneDNN's execute failed: runtime_error (5)\n");
}

/// w goes through an op that fails, v does not.
struct Own {
  Graph g{"own"};
  Value x = g.input("x", f32, {4});
  Own() {
    const Value w = g.parameter("w", {f32, {4}}, ones()), v = g.parameter("v", {f32, {4}}, ones());
    const Value y = apply(mine::Fragile{}, {w * x}, kHere);
    g.minimize(sum(y) + sum(v * x), Sgd{.lr = 0.1});
  }
  Feeds step() const { return {{x, waves({4})}}; }
  Executable compiled(const Target& target) const {
    CompileOptions options = by_onednn({train});
    options.ops = own_ops<mine::Fragile>();
    return compile(g, target, options);
  }
};

TEST_CASE("stepwise and eager name the node, or the pass, and change nothing") {
  const Own m;
  struct Broken {
    Target target;
    bool* fails;
    std::string text;
  };
  const std::string forward = "fragile \"fragile\" (train.cc:12): its library is out of order";
  const std::string backward = "the backward pass: its gradient is out of order";
  for (const auto& [target, fails, text] : {Broken{stepwise(), &mine::forward_fails, forward},
                                            Broken{eager(), &mine::forward_fails, forward},
                                            Broken{eager(), &mine::backward_fails, backward}}) {
    Executable e = m.compiled(target), undisturbed = m.compiled(target);
    CAPTURE(e.report().target);
    e.run(m.step());
    const Stored before = stored(e);
    *fails = true;
    const std::string error = error_of<RunError>([&] { e.run(m.step()); });
    *fails = false;
    CHECK(error == "graph \"own\": step 1: " + text + kAgain);
    check_equal(stored(e), before);
    e.run(m.step());
    for (int step = 0; step < 2; ++step) undisturbed.run(m.step());
    check_equal(stored(e), stored(undisturbed));
  }
}

}  // namespace
}  // namespace metronome::tests
