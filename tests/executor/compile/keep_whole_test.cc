// Whether an op that can be expanded runs whole: by what the back end has, and by time.
#include "executor/compile/whole_op_chooser.h"

#include <functional>
#include <string>
#include <vector>

#include "executor/metronome.h"
#include "graph/ir/op_model.h"
#include "ops/attention/flash_attention.h"
#include "ops/rms_norm/rms_norm.h"
#include "tests/aten.h"
#include "tests/doctest.h"
#include "tests/executor/load.h"
#include "tests/executor/temporary_folder.h"

namespace metronome {
namespace {

/// Kernels of whatever `has_it` says, of which each takes `seconds_of` its op.
struct Told final : executor::Kernels {
  std::function<bool(std::string_view)> has_it = [](std::string_view) { return true; };
  std::function<double(std::string_view)> seconds_of = [](std::string_view) { return 1.0; };
  bool takes = true;  ///< operands of any type
  mutable int timed = 0;

  std::string machine() const override { return "told"; }
  bool has(const Op& op) const override { return has_it(op.name()); }
  std::vector<Candidate> candidates(const Node&, std::span<const Type>,
                                    SteadyOperands) const override {
    return std::vector<Candidate>(takes ? 1 : 0);
  }
  FastestCandidate fastest(const Node& node, std::span<const Type>, SteadyOperands,
                           std::span<const Candidate>) const override {
    ++timed;
    return {0, TimingMethod::host_clock, seconds_of(node.op->name())};
  }
};

const OpPtr kNorm = make_op(RmsNorm{.eps = 0.5});
const Types kTypes = {{f32, {4, 8}}, {f32, {8}}};
constexpr const char* kWhat = "rms_norm {eps=0.5} f32[4, 8] x f32[8] -> ";

const tests::Load kQuiet(0);

struct Asked {
  bool whole;
  std::vector<std::string> choices;
};
Asked ask(const Told& kernels, Mode mode = train, Tune tune = Tune::measure,
          const std::string& file = "", const Types& types = kTypes) {
  Settings settings;
  settings.mode = mode;
  const CompileOptions options{.tune = tune, .tuning_file = file};
  Report report;
  executor::compile::WholeOpChooser keep(kernels, settings, options, report);
  const bool whole = keep(kNorm, types);
  const int timed = kernels.timed;
  CHECK(keep(kNorm, types) == whole);
  CHECK(kernels.timed == timed);  // decided once
  std::vector<std::string> choices;
  for (const KernelChoice& choice : report.choices) choices.push_back(to_string(choice));
  return {whole, choices};
}

TEST_CASE("an op runs expanded where the back end lacks it, or what its vjp makes") {
  Told kernels;
  kernels.has_it = [](std::string_view op) { return op != "rms_norm"; };
  CHECK_FALSE(ask(kernels).whole);
  kernels.has_it = [](std::string_view op) { return op != "rms_norm_grad"; };
  CHECK_FALSE(ask(kernels).whole);
  CHECK(kernels.timed == 0);
  CHECK(ask(kernels, evaluate).whole);  // which makes no gradient
  kernels.takes = false;
  CHECK_FALSE(ask(kernels, evaluate).whole);
}

TEST_CASE("an op that the back end covers runs whole where that is not slower") {
  Told kernels;
  CHECK(ask(kernels).choices == std::vector<std::string>{std::string(kWhat) + "whole (timed)"});
  kernels.seconds_of = [](std::string_view op) { return op.starts_with("rms") ? 100.0 : 1.0; };
  const Asked slow = ask(kernels);
  CHECK_FALSE(slow.whole);
  CHECK(slow.choices == std::vector<std::string>{std::string(kWhat) + "expanded (timed)"});
}

TEST_CASE("where nothing may be timed, and where there is nothing to compute, it runs whole") {
  Told kernels;
  kernels.seconds_of = [](std::string_view op) { return op.starts_with("rms") ? 100.0 : 1.0; };
  CHECK(ask(kernels, train, Tune::off).whole);
  CHECK(ask(kernels, train, Tune::file).whole);
  CHECK(ask(kernels, train, Tune::measure, "", {{f32, {0, 8}}, {f32, {8}}}).whole);
  CHECK(kernels.timed == 0);
}

TEST_CASE(
    "an expansion that takes far more memory is not timed, and one is timed until it is slower") {
  const auto keeps = [](const Told& kernels, std::int64_t length) {
    CompileOptions options;
    options.tune = Tune::measure;
    Report report;
    const Settings settings;
    executor::compile::WholeOpChooser keep(kernels, settings, options, report);
    const Type x = {f32, {1, 2, length, 8}};
    return keep(make_op(FlashAttention{}), Types{x, x, x});
  };
  Told kernels;
  kernels.seconds_of = [](std::string_view op) { return op.starts_with("flash") ? 100.0 : 1.0; };
  CHECK_FALSE(keeps(kernels, 64));
  CHECK(kernels.timed > 0);
  kernels.timed = 0;
  CHECK(keeps(kernels, 4096));  // its scores: 128 MiB
  CHECK(kernels.timed == 0);

  // The kernels behind the first that is slower than the whole are not timed.
  Told fast;
  int products = 0;
  fast.seconds_of = [&](std::string_view op) {
    products += op == "matmul";
    return op == "matmul" ? 100.0 : 1.0;
  };
  CHECK(keeps(fast, 64));
  CHECK(products == 1);
}

TEST_CASE("what was timed is kept, for each mode") {
  const TemporaryFolder folder;
  const std::string file = folder.file("tuning.json");
  Told kernels;
  kernels.seconds_of = [](std::string_view op) { return op.starts_with("rms") ? 100.0 : 1.0; };
  CHECK_FALSE(ask(kernels, train, Tune::measure, file).whole);
  Told again;
  const Asked kept = ask(again, train, Tune::file, file);
  CHECK_FALSE(kept.whole);
  CHECK(kept.choices == std::vector<std::string>{std::string(kWhat) + "expanded (tuning file)"});
  CHECK(again.timed == 0);
  CHECK(ask(again, evaluate, Tune::file, file).whole);
}

TEST_CASE("a step with the op whole, and with it expanded") {
  const auto loss_after = [](double eps, Tune tune) {
    Graph g("norm");
    const Value x = g.input("x", f64, {4, 8});
    g.minimize(mean(square(x.through(rms_norm({.eps = eps})).through(linear(3)))), Sgd{.lr = 0.1});
    CompileOptions options;
    options.tune = tune;
    Executable step = compile(g, cpu_replay(), options);
    for (int i = 0; i < 5; ++i) step.run({{"x", at::arange(32, at::kDouble).reshape({4, 8})}});
    return step.read_scalar(g.loss());
  };
  CHECK(loss_after(0.1, Tune::off) ==
        doctest::Approx(loss_after(0.1, Tune::measure)).epsilon(1e-12));
}

}  // namespace
}  // namespace metronome
