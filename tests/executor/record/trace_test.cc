// Traced steps: the same steps, and JSON that a trace viewer draws as it was meant.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "graph/ir/error.h"
#include "tests/aten.h"
#include "tests/error_of.h"
#include "tests/executor/targets.h"

namespace metronome {
namespace {

using Json = nlohmann::json;
using tests::device_of_host;
using tests::plain_options;

struct Tower {
  Graph g{"tower \"<\xff\""};
  Value x = g.input("x", f32, {4, 6});
  Value y = x.repeat(3, [](Value h) { return h.through(linear(6)); });
  Tower() { g.minimize(mean(square(y)), Adam{.lr = 1e-2}); }
  std::vector<Feed> feeds(int step) const {
    return {{x, at::sin(at::arange(24, at::TensorOptions(at::kFloat)) + step).reshape({4, 6})}};
  }
};

TEST_CASE("traced steps are steps, and those around them are not traced") {
  for (const Target& target : {cpu_replay(), device_of_host()}) {
    const Tower model;
    CompileOptions options = plain_options();
    options.modes = {train, evaluate};
    Executable traced = compile(model.g, target, options);
    Executable plain = compile(model.g, target, options);
    for (int step = 0; step < 6; ++step) {
      if (step == 2) traced.start_trace(3);
      for (Executable* each : {&traced, &plain}) {
        step == 3 ? each->evaluate(model.feeds(step)) : each->run(model.feeds(step));
      }
      CHECK(traced.read_scalar(model.g.loss()) == plain.read_scalar(model.g.loss()));
    }
    for (const std::string& path : plain.storages()) CHECK(traced.get(path).equal(plain.get(path)));
    const Trace trace = traced.trace();
    REQUIRE(trace.steps.size() == 3);
    CHECK(trace.target == traced.report().target);
    const Profile profile = traced.profile(model.feeds(6));
    CHECK(trace.where == profile.where);
    for (std::size_t i = 0; i < 3; ++i) {
      const TracedStep& step = trace.steps[i];
      CHECK(step.number == std::int64_t(i) + 2);
      CHECK(step.mode == (i == 1 ? Mode::evaluate : Mode::train));
      CHECK(step.begin <= step.kernels_begin);
      if (i > 0) CHECK(step.begin >= trace.steps[i - 1].begin + trace.steps[i - 1].microseconds);
      // All kernels of the profile, in its order.
      if (step.mode == Mode::evaluate) continue;
      REQUIRE(step.runs.size() == profile.kernels.size());
      for (std::size_t k = 0; k < step.runs.size(); ++k) {
        CHECK(trace.kernels[step.runs[k].kernel].kernel == profile.kernels[k].kernel);
      }
    }
    traced.start_trace(1);
    CHECK(traced.trace().steps.empty());
  }
}

/// Events of each row lie inside each other or apart, and every member is as the format has it.
void check_events(const Json& trace) {
  std::map<int, std::vector<std::pair<double, double>>> rows;  // begin, end
  std::map<int, std::string> names;
  for (const Json& event : trace.at("traceEvents")) {
    CHECK(event.at("pid") == 1);
    const std::string kind = event.at("ph");
    if (kind == "M") {
      if (event.at("name") == "thread_name") names[event.at("tid")] = event.at("args").at("name");
      continue;
    }
    REQUIRE(kind == "X");
    const double begin = event.at("ts"), duration = event.at("dur");
    CHECK(begin >= 0);
    CHECK(duration >= 0);
    CHECK(!event.at("name").get<std::string>().empty());
    rows[event.at("tid")].emplace_back(begin, begin + duration);
  }
  for (auto& [row, slices] : rows) {
    CHECK(!names[row].empty());
    // As viewers sort them: an outer slice before those in it.
    std::ranges::sort(slices, [](const auto& a, const auto& b) {
      return a.first != b.first ? a.first < b.first : a.second > b.second;
    });
    std::vector<double> open;
    constexpr double kRounding = 1e-6;
    for (const auto& [begin, end] : slices) {
      while (!open.empty() && open.back() <= begin + kRounding) open.pop_back();
      if (!open.empty()) CHECK(end <= open.back() + kRounding);
      open.push_back(end);
    }
  }
}

TEST_CASE("a trace's JSON has each step, and kernels inside the scopes of their paths") {
  for (const Target& target : {cpu_replay(), device_of_host()}) {
    const Tower model;
    Executable step = compile(model.g, target, plain_options());
    step.start_trace(2);
    for (int i = 0; i < 3; ++i) step.run(model.feeds(i));
    const Trace trace = step.trace();
    const Json whole = Json::parse(to_json(trace));
    check_events(whole);
    std::map<std::string, int> counts, scopes;
    for (const Json& event : whole.at("traceEvents")) {
      if (event.at("ph") != "X") continue;
      if (!event.contains("args")) {
        ++scopes[event.at("name")];
        continue;
      }
      ++counts[event.at("cat")];
      const auto kernel = std::ranges::find(
          trace.kernels, event.at("args").at("kernel").get<std::string>(), &KernelTime::kernel);
      REQUIRE(kernel != trace.kernels.end());
      CHECK(event.at("args").at("bytes") == kernel->bytes);
      CHECK(event.at("args").at("flops") == kernel->flops);
      CHECK(event.at("name") == kernel->op);
    }
    CHECK(scopes["step 0 (train)"] == 1);
    CHECK(scopes["step 1 (train)"] == 1);
    CHECK(scopes["feeds"] == 2);
    // Forward and back, in each of two steps.
    CHECK(scopes["repeat"] >= 4);
    CHECK(scopes["optimizer"] >= 2);
    CHECK(counts["forward"] > 0);
    CHECK(counts["backward"] > 0);
    CHECK(counts["update"] > 0);
  }
}

TEST_CASE("what cannot be traced is refused") {
  const Tower model;
  Executable step = compile(model.g, cpu_replay(), plain_options());
  const std::string graph = "graph \"" + model.g.name() + "\"";
  CHECK(tests::error_of<RunError>([&] { step.trace(); }) ==
        graph + ": no step was traced; call start_trace and run some");
  CHECK(tests::error_of<RunError>([&] { step.start_trace(0); }) ==
        graph + ": start_trace cannot take 0 steps; give 1 or more");
  Executable one_by_one = compile(model.g, eager(), plain_options());
  CHECK(tests::error_of<RunError>([&] { one_by_one.start_trace(1); }) ==
        graph +
            " runs by eager, which is not timed kernel by kernel: trace cpu_replay or cuda_graph");
}

TEST_CASE("a step that fails leaves nothing in the trace, and the next one is traced") {
  const Tower model;
  Executable step = compile(model.g, cpu_replay(), plain_options());
  step.start_trace(1);
  CHECK_THROWS_AS(step.run(), RunError);  // nothing was fed
  CHECK(step.trace().steps.empty());
  step.run(model.feeds(0));
  step.run(model.feeds(1));
  REQUIRE(step.trace().steps.size() == 1);
  CHECK(step.trace().steps[0].number == 0);
}

}  // namespace
}  // namespace metronome
