// The ways out that messages of calls on executables and monitors name, taken: the next call does
// what was wanted.
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "executor/metronome.h"
#include "graph/ir/error.h"
#include "tests/aten.h"
#include "tests/doctest.h"
#include "tests/executor/logged.h"
#include "tests/executor/options.h"
#include "tests/executor/temporary_folder.h"
#include "tests/executor/way_out.h"

namespace metronome::ways_out_of_calls_test {
namespace {

using tests::compiled;
using tests::Doubled;
using tests::error_of;
using tests::f32_ones;
using tests::names_way_out;
using tests::plain_options;

CompileOptions in_modes(std::vector<Mode> modes) {
  CompileOptions options = plain_options();
  options.modes = std::move(modes);
  return options;
}

TEST_CASE("tensors that are fed in another form") {
  const std::pair<std::string, at::Tensor> rows[] = {
      {"; give tensor.to(at::kFloat)", at::ones({3, 2}, at::kDouble)},
      {"; give tensor.to(at::kFloat)", at::ones({3, 2}, at::kByte)},
      {"; give tensor.permute({1, 0})", f32_ones({2, 3})},
      {"; give tensor.permute({1, 0}).to(at::kFloat)", at::ones({2, 3}, at::kLong)},
      {"; give tensor.to_dense()", f32_ones({3, 2}).to_sparse()},
  };
  const std::function<at::Tensor(const at::Tensor&)> taken[] = {
      [](const at::Tensor& tensor) { return tensor.to(at::kFloat); },
      [](const at::Tensor& tensor) { return tensor.to(at::kFloat); },
      [](const at::Tensor& tensor) { return tensor.permute({1, 0}); },
      [](const at::Tensor& tensor) { return tensor.permute({1, 0}).to(at::kFloat); },
      [](const at::Tensor& tensor) { return tensor.to_dense(); },
  };
  const Doubled doubled;
  Executable step = compiled(doubled.g);
  for (std::size_t i = 0; i < std::size(rows); ++i) {
    const auto& [way_out, tensor] = rows[i];
    CAPTURE(way_out);
    CHECK(error_of([&] { step.run({{"x", tensor}}); }).ends_with(way_out));
    step.run({{"x", taken[i](tensor)}});
    CHECK(step.read("y").sum().item<double>() == 12);
  }
}

TEST_CASE("an input that is fed twice: give each input once") {
  const Doubled doubled;
  Executable step = compiled(doubled.g);
  const at::Tensor a = f32_ones({3, 2}), b = a * 2.0;
  CHECK(
      error_of([&] { step.run({{"x", a}, {doubled.x, b}}); }).ends_with("; give each input once"));
  step.run({{"x", b}});
  CHECK(step.read("y").sum().item<double>() == 24);
}

TEST_CASE("a fixed learning rate that is to be set: a settable one") {
  const auto trained = [](const LearningRate& lr) {
    Graph g("g");
    g.minimize(sum(g.parameter("w", {f32, {2}}, ones())), Sgd{.lr = lr});
    return compiled(g);
  };
  Executable fixed = trained(1e-3), settable = trained(Settable{1e-3});
  CHECK(error_of([&] {
          fixed.set_learning_rate(0.5);
        }).ends_with("; give its optimizer .lr = mt::Settable{1e-3}"));
  settable.set_learning_rate(0.5);
  settable.run();
  CHECK(settable.get("w").equal(f32_ones({2}) * 0.5));
}

TEST_CASE("a batch of another size: a graph for each size") {
  const Doubled three, five({5, 2});
  Executable one = compiled(three.g);
  CHECK(error_of([&] { one.run({{"x", f32_ones({5, 2})}}); })
            .ends_with("; for batches of several sizes declare the graph once for each size and "
                       "compile them together: compile({&a, &b})"));
  Executable both = compile({&three.g, &five.g}, cpu_replay(), plain_options());
  for (const int rows : {3, 5}) {
    both.run({{"x", f32_ones({rows, 2})}});
    CHECK(both.read("y").equal(f32_ones({rows, 2}) * 2.0));
  }
}

TEST_CASE("a batch of no declared shape: pad to the nearest, feed it in parts, or declare it") {
  const Doubled two({2, 2}), four({4, 2}), six({6, 2}), vectors({3});
  Executable step = compile({&two.g, &four.g}, cpu_replay(), plain_options());
  const auto refusal = [&](at::IntArrayRef sizes) {
    return error_of([&] { step.run({{"x", f32_ones(sizes)}}); });
  };
  CHECK(refusal({3, 2}).ends_with("\nnearest: x [4, 2]; pad to it or declare it"));
  step.run({{"x", at::cat({f32_ones({3, 2}), at::zeros({1, 2}, at::kFloat)})}});
  CHECK(step.read("y").sum().item<double>() == 12);
  CHECK(refusal({6, 2}).ends_with("\nnearest: x [4, 2]; feed it in parts or declare it"));
  const at::Tensor whole = f32_ones({6, 2});
  double sum = 0;
  for (const at::Tensor& part : {whole.slice(0, 0, 4), whole.slice(0, 4, 6)}) {
    step.run({{"x", part}});
    sum += step.read("y").sum().item<double>();
  }
  CHECK(sum == 24);
  CHECK(refusal({3}).ends_with("\ndeclare it"));
  Executable more = compile({&two.g, &four.g, &six.g, &vectors.g}, cpu_replay(), plain_options());
  for (const std::vector<std::int64_t>& sizes : {std::vector<std::int64_t>{6, 2}, {3}}) {
    more.run({{"x", f32_ones(sizes)}});
    CHECK(more.read("y").equal(f32_ones(sizes) * 2.0));
  }
}

TEST_CASE("feeds that fit several graphs: a value says which, or the option `graph`") {
  const Doubled a({2}, "a"), b({2}, "b");
  Executable step = compile({&a.g, &b.g}, cpu_replay(), plain_options());
  CHECK(names_way_out(error_of([&] { step.run({{"x", f32_ones({2})}}); }),
                      "feed a value of the graph that is meant in place of a name, or give a "
                      "value or the name of it as the option `graph`"));
  step.run({{b.x, f32_ones({2})}});
  step.run({{"x", f32_ones({2})}}, {.graph = b.x});
  step.run({{"x", f32_ones({2})}}, {.graph = "b"});
  CHECK(step.read(b.y).sum().item<double>() == 4);
}

TEST_CASE("a value that is not kept: Graph::output or Value::named") {
  for (const std::string way : {"none", "output", "named"}) {
    CAPTURE(way);
    Graph g("g");
    const Value y = g.input("x", f32, {2}) * 2.0;
    g.output("z", y + 1.0);
    if (way == "output") g.output("y", y);
    if (way == "named") y.named("y");
    Executable step = compiled(g);
    step.run({{"x", f32_ones({2})}});
    const std::string message = error_of([&] { step.read(y); });
    const bool advised =
        message.find("; declare it with Graph::output or Value::named. ") != std::string::npos;
    CHECK(advised == (way == "none"));
    if (way != "none") CHECK(step.read(y).sum().item<double>() == 4);
  }
}

TEST_CASE("a scalar of several elements: use read") {
  const Doubled doubled;
  Executable step = compiled(doubled.g);
  step.run({{"x", f32_ones({3, 2})}});
  CHECK(error_of([&] { step.read_scalar(doubled.y); }).ends_with("; use read"));
  CHECK(step.read(doubled.y).sum().item<double>() == 12);
}

/// A loss over w, and y that an evaluation needs no target for.
struct Trained {
  Graph g{"trained"};
  Value w = g.parameter("w", {f32, {}}, metronome::ones());
  Value t = g.input("t", f32, {});
  Value y = (w * 2.0).named("y"), error = (w - t).named("error"), slope;
  Trained() {
    g.minimize(square(error), Sgd{.lr = 0.25});
    slope = g.gradient(w);
    g.output("slope", slope);
  }
};

TEST_CASE("averages that are not there: declare some with Graph::average") {
  Trained none, some;
  Executable without = compile(none.g, cpu_replay(), in_modes({train, evaluate}));
  CHECK(error_of([&] {
          without.evaluate({}, {.with = "ema"});
        }).ends_with(": declare some with Graph::average"));
  some.g.average("**", {.decay = 0.5, .bias_correction = false});
  Executable with = compile(some.g, cpu_replay(), in_modes({train, evaluate}));
  with.run({{"t", at::zeros({}, at::kFloat)}});  // w = 1 - 0.25 * 2
  with.evaluate({}, {.with = "ema"});
  CHECK(with.read("y").item<double>() == 1.5);
}

TEST_CASE("values that no step has computed") {
  const Trained m;
  const at::Tensor zero = at::zeros({}, at::kFloat);
  const auto read = [](Executable& step, const Value& value) {
    return error_of([&] { step.read(value); });
  };
  Executable step = compile(m.g, cpu_replay(), in_modes({train, evaluate}));
  CHECK(read(step, m.y).ends_with("; call run() first"));
  step.run({{"t", zero}});
  CHECK(step.read(m.y).item<double>() == 2);

  CompileOptions limited = in_modes({evaluate});
  limited.evaluate_outputs = {"y"};
  Executable evaluated = compile(m.g, cpu_replay(), limited);
  evaluated.evaluate();
  CHECK(read(evaluated, m.error)
            .ends_with("; add mt::train to CompileOptions::modes, or it to "
                       "CompileOptions::evaluate_outputs"));
  CHECK(read(evaluated, m.slope)
            .ends_with(", which makes no gradients and no update; add mt::train to "
                       "CompileOptions::modes"));
  limited.modes = {train, evaluate};
  Executable both = compile(m.g, cpu_replay(), limited);
  both.evaluate();
  CHECK(read(both, m.slope).ends_with(": call run()"));
  CHECK(
      read(both, m.error).ends_with(": call run(), or add it to CompileOptions::evaluate_outputs"));
  both.run({{"t", zero}});
  CHECK(both.read(m.error).item<double>() == 1);
  CHECK(both.read(m.slope).item<double>() == 2);
  limited.modes = {evaluate};
  limited.evaluate_outputs = {"y", "error"};
  Executable more = compile(m.g, cpu_replay(), limited);
  more.evaluate({{"t", zero}});
  CHECK(more.read(m.error).item<double>() == 1);
}

TEST_CASE("a mode for which nothing was compiled: add it to CompileOptions::modes") {
  const Doubled doubled;
  const at::Tensor x = f32_ones({3, 2});
  Executable trains = compiled(doubled.g);
  Executable evaluates = compile(doubled.g, cpu_replay(), in_modes({evaluate}));
  CHECK(error_of([&] {
          trains.evaluate({{"x", x}});
        }).ends_with("; add mt::evaluate to CompileOptions::modes"));
  CHECK(error_of([&] {
          trains.evaluate({{"x", x}}, {.states = States::advance});
        }).ends_with("; add mt::advance to CompileOptions::modes"));
  CHECK(error_of([&] {
          evaluates.run({{"x", x}});
        }).ends_with("; add mt::train to CompileOptions::modes"));
  Executable all = compile(doubled.g, cpu_replay(), in_modes({train, evaluate, advance}));
  all.run({{"x", x}});
  all.evaluate({{"x", x}});
  all.evaluate({{"x", x}}, {.states = States::advance});
  CHECK(all.steps() == 3);
}

TEST_CASE("an executable that was moved from: call the one that it was moved to") {
  const Doubled doubled;
  Executable from = compiled(doubled.g);
  Executable to = std::move(from);
  CHECK(error_of([&] {
          from.run({{"x", f32_ones({3, 2})}});
        }).ends_with("; call the one that it was moved to"));
  to.run({{"x", f32_ones({3, 2})}});
  CHECK(to.read("y").sum().item<double>() == 12);
}

TEST_CASE("traces and profiles") {
  const Doubled doubled;
  Executable step = compiled(doubled.g);
  step.run({{"x", f32_ones({3, 2})}});
  CHECK(error_of([&] { step.trace(); })
            .ends_with(": no step was traced; call start_trace and run "
                       "some"));
  CHECK(error_of([&] { step.start_trace(0); }).ends_with("; give 1 or more"));
  CHECK(error_of([&] { step.profile({}, {.steps = 0}); }).ends_with("; give 1 or more"));
  step.start_trace(1);
  step.run();
  CHECK(step.trace().steps.size() == 1);
  CHECK_FALSE(step.profile({}, {.steps = 1}).kernels.empty());

  Executable by_eager = compile(doubled.g, eager(), plain_options());
  CHECK(error_of([&] { by_eager.profile(); }).ends_with(": profile cpu_replay or cuda_graph"));
  CHECK(error_of([&] { by_eager.start_trace(1); }).ends_with(": trace cpu_replay or cuda_graph"));
}

TEST_CASE("a record of no plan: compile for a target that has plans") {
  const Doubled doubled;
  CHECK(error_of([&] {
          compile(doubled.g, eager(), plain_options()).plan_record();
        }).ends_with("; compile for cpu_replay, cuda_graph, null or stepwise"));
  for (const Target& target : {cpu_replay(), null(), stepwise()}) {
    CHECK(compile(doubled.g, target, plain_options()).plan_record().plans.size() == 1);
  }
}

TEST_CASE("a NaN that is read: CompileOptions::watch tells of the node that made it") {
  Graph g("g");
  g.output("y", log(g.input("x", f32, {2}) - 1.0) * 2.0);
  const auto read = [&](const CompileOptions& options) {
    Executable step = compile(g, cpu_replay(), options);
    step.run({{"x", at::zeros({2}, at::kFloat)}});
    step.read("y");
    return step.fault().value_or("no fault");
  };
  CompileOptions options = plain_options();
  const tests::Logged warned;
  CHECK(read(options) == "no fault");
  CHECK(
      warned.text().ends_with("; compile with CompileOptions::watch to be told of the node that "
                              "made the first one\n"));
  options.watch = true;
  CHECK(read(options).starts_with("log \"log\" "));
}

TEST_CASE("a folder or a port that a monitor cannot have") {
  const TemporaryFolder temporary;
  const std::string run = temporary.file("run"), other = temporary.file("other");
  {
    Monitor(run).scalar("loss", 1, 2);
  }
  CHECK(error_of([&] {
          Monitor again(run);
        }).ends_with(": name another folder for a new run, or resume this one"));
  {
    Monitor(other).scalar("loss", 1, 2);
  }
  Monitor resumed(run, {.first_step = 2});
  resumed.scalar("loss", 2, 1);
  CHECK(
      error_of([&] { Monitor beside(run, {.first_step = 2}); }).ends_with(": name another folder"));
  Monitor beside(temporary.file("beside"), {.port = 0});
  const std::string page = beside.page();
  const int port = std::stoi(page.substr(page.rfind(':') + 1));
  CHECK(error_of([&] {
          Monitor("", {.port = port});
        }).ends_with(": name another port, or 0 for any that is free"));
  CHECK(Monitor("", {.port = 0}).page() != page);
}

}  // namespace
}  // namespace metronome::ways_out_of_calls_test
