// Profiles and traces of a captured step as a device's records have it: what ran beside what, and
// when nothing ran.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "executor/engine/step_gaps.h"
#include "tests/aten.h"
#include "tests/cuda/host_driver.h"
#include "tests/executor/logged.h"
#include "tests/executor/targets.h"

namespace metronome {
namespace {

using Json = nlohmann::json;
using tests::plain_options;

/// A device that records graphs.
std::shared_ptr<HostDriver> recording_device(double alone_us = 30, double node_us = 10) {
  return std::make_shared<HostDriver>(HostSettings{.seed = 9,
                                                   .records = true,
                                                   .graph_records = true,
                                                   .alone_us = alone_us,
                                                   .in_graph_us = node_us});
}

Target on(const std::shared_ptr<HostDriver>& driver, CudaOptions options = {.streams = 2}) {
  options.fuse = false;
  Target target = cuda_graph(options);
  target.driver = driver;
  return target;
}

std::string kept_form(const Executable& step) {
  const std::vector<std::string>& forms = step.report().plan(train).forms;
  return *std::ranges::find_if(forms, [](const auto& form) { return form.ends_with(", kept"); });
}

std::ptrdiff_t count(const Profile& profile, const std::string& op) {
  return std::ranges::count(profile.kernels, op, &KernelTime::op);
}

/// Two rows of kernels that need not wait for each other.
struct TwoTowers {
  Graph g{"two"};
  Value x = g.input("x", f32, {4, 6});
  Value left = exp(tanh(x.through(linear(6)))), right = tanh(exp(x.through(linear(6))));
  TwoTowers() { g.minimize(mean(square(left * right)), Adam{.lr = 1e-2}); }
  std::vector<Feed> feeds(int step) const {
    return {{x, at::sin(at::arange(24, at::TensorOptions(at::kFloat)) + step).reshape({4, 6})}};
  }
};

TEST_CASE("a captured step is recorded as it runs, and is a step") {
  const TwoTowers model;
  const auto driver = recording_device();
  Executable step = compile(model.g, on(driver), plain_options());
  Executable plain = compile(model.g, tests::device_of_host(), plain_options());
  REQUIRE(kept_form(step).starts_with("one graph, 2 streams: "));
  const HostCounts before = driver->counts();
  for (int i = 0; i < 3; ++i) {
    const Profile profile = step.profile(model.feeds(i));
    plain.run(model.feeds(i));
    CHECK(step.read_scalar(model.g.loss()) == plain.read_scalar(model.g.loss()));
    CHECK(profile.kernels.size() == plain.profile(model.feeds(3)).kernels.size());
    CHECK(profile.kernels.front().kernel == "load_inputs");
    CHECK(profile.kernels.back().kernel == "store_reads");
    for (const KernelTime& time : profile.kernels) {
      CHECK(time.by == TimingMethod::captured);
      CHECK(time.microseconds >= 10);
    }
    step.run(model.feeds(3));  // as the plain one was profiled
    // Nodes begin as soon as they may: none waits for nothing.
    CHECK(profile.idle_microseconds == 0);
    CHECK(profile.overlap_microseconds >= 10);
    const std::string us_a_step =
        fmt::format("one graph, 2 streams: {:.1f} us a step, kept", profile.step_microseconds());
    CHECK(kept_form(step) == us_a_step);
    CHECK(step.plan_record(profile).times.overlap_microseconds == profile.overlap_microseconds);
  }
  CHECK(driver->counts().graphs == before.graphs);
  CHECK(driver->counts().launches == before.launches + 6);
  for (const std::string& path : plain.storages()) CHECK(step.get(path).equal(plain.get(path)));
}

TEST_CASE("tables say how long kernels overlap, and how long none runs") {
  const TwoTowers model;
  const auto driver = recording_device();
  Executable step = compile(model.g, on(driver), plain_options());
  // The last kernel begins 7.5 us late, the second has a part that ends 2.5 us later than it did.
  driver->on_records = [](std::vector<RunRecord>& records) {
    records.back().begin += 7.5;
    records.back().end += 7.5;
    records[1].end -= 5;
    records.insert(records.begin() + 2,
                   {records[1].command, records[1].end + 2, records[1].end + 7.5});
  };
  const Profile profile = step.profile(model.feeds(0));
  CHECK(profile.kernels[1].microseconds == doctest::Approx(12.5));
  CHECK(profile.idle_microseconds == doctest::Approx(7.5));
  const std::string text = to_string(profile);
  CAPTURE(text);
  CHECK(text.find(fmt::format(
            "runs, by the device's records of the captured step: {:.1f} us from the first to the "
            "last, of which none runs for 7.5 us; they overlap for {:.1f} us\n",
            profile.step_microseconds(), profile.overlap_microseconds)) != std::string::npos);
}

TEST_CASE("gaps and overlaps of runs are counted once each") {
  const auto run = [](double begin, double us) {
    KernelTime kernel{.kernel = "exp", .op = "exp"};
    kernel.microseconds = us;
    return KernelRun{kernel, begin};
  };
  CHECK(executor::gaps_of({}).idle == 0);
  CHECK(executor::gaps_of({}).overlap == 0);
  // Three side by side until 10, one within another until 30, a gap until 35.
  const std::vector<KernelRun> runs = {run(0, 10),  run(0, 10), run(5, 5),
                                       run(10, 20), run(12, 3), run(35, 1)};
  CHECK(executor::gaps_of(runs).idle == 5);
  CHECK(executor::gaps_of(runs).overlap == 18);
}

TEST_CASE("a trace has a row for each kernel that runs beside others") {
  const TwoTowers model;
  // A step must be over by this device's clock when it is over by the host's.
  Executable step = compile(model.g, on(recording_device(0.3, 0.01)), plain_options());
  step.start_trace(2);
  for (int i = 0; i < 2; ++i) step.run(model.feeds(i));
  const Json whole = Json::parse(to_json(step.trace()));
  std::map<int, std::string> rows;
  std::map<int, std::vector<std::pair<double, double>>> kernels;
  for (const Json& event : whole.at("traceEvents")) {
    if (event.at("name") == "thread_name") rows[event.at("tid")] = event.at("args").at("name");
    if (!event.contains("cat")) continue;
    const double begin = event.at("ts"), duration = event.at("dur");
    kernels[event.at("tid")].emplace_back(begin, begin + duration);
  }
  REQUIRE(rows.size() >= 3);
  CHECK(rows.at(1) == "steps");
  CHECK(rows.at(2) == "kernels, the host");
  CHECK(rows.at(3) == "kernels, the host, beside 1");
  CHECK(kernels.size() == rows.size() - 1);
  for (auto& [row, of_row] : kernels) {
    CHECK(rows.contains(row));
    std::ranges::sort(of_row);
    for (std::size_t i = 1; i < of_row.size(); ++i) {
      CHECK(of_row[i].first >= of_row[i - 1].second - 1e-6);
    }
  }
}

/// One of two kernels runs.
struct Choosing {
  Graph g{"choosing"};
  Value x = g.input("x", f32, {4, 6});
  Value which = g.input("which", i32, {});
  Value y = x.through(linear(6)).choose(which, {[](Value h) { return exp(h); }, tanh});
  Choosing() { g.minimize(mean(square(y)), Adam{.lr = 1e-2}); }
  std::vector<Feed> feeds(int branch) const {
    return {{x, at::ones({4, 6})}, {which, at::full({}, branch, at::TensorOptions(at::kInt))}};
  }
};

TEST_CASE("a captured step tells what its conditions cost, and nothing of what they skip") {
  const tests::Logged logged;
  const Choosing model;
  Executable step =
      compile(model.g, on(recording_device(), {.conditions = Conditions::flat}), plain_options());
  const Profile first = step.profile(model.feeds(0)), second = step.profile(model.feeds(1));
  CHECK(count(first, "exp") == 1);
  CHECK(count(first, "tanh") == 0);
  CHECK(count(second, "exp") == 0);
  CHECK(count(second, "tanh") == 1);
  for (const Profile& profile : {first, second}) {
    REQUIRE(count(profile, "conditions") == 1);
    const auto conditions = std::ranges::find(profile.kernels, "conditions", &KernelTime::op);
    CHECK(conditions->runs >= 1);
    CHECK(conditions->phase == Phase::executor);
  }
  CHECK(logged.text() == "");
}

TEST_CASE("a step that is not captured is recorded kernel by kernel") {
  const TwoTowers model;
  const auto driver = recording_device(1);
  Executable step = compile(model.g, on(driver), plain_options());
  REQUIRE(kept_form(step).starts_with("uncaptured, 1 stream: "));
  const Profile profile = step.profile(model.feeds(0));
  for (const KernelTime& time : profile.kernels) CHECK(time.by == TimingMethod::records);
  CHECK(profile.idle_microseconds == 0);
  CHECK(profile.step_microseconds() == profile.microseconds());
}

TEST_CASE("a kernel without a record is left out, and the log says so") {
  const TwoTowers model;
  const auto driver = recording_device();
  Executable step = compile(model.g, on(driver), plain_options());
  driver->on_records = [](std::vector<RunRecord>& records) { records.erase(records.begin()); };
  const tests::Logged logged;
  const Profile profile = step.profile(model.feeds(0));
  CHECK(logged.text() == "warning: load_inputs: there is no record of it: it is left out\n");
  CHECK(count(profile, "load_inputs") == 0);
}

}  // namespace
}  // namespace metronome
