// The record of a plan: what it says of a step, to JSON and back, and what is no record.
#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "executor/metronome.h"
#include "graph/ir/error.h"
#include "models/models.h"
#include "tests/doctest.h"
#include "tests/error_of.h"

namespace metronome {
namespace {

const CompileOptions kBoth = {.modes = {train, evaluate}, .tune = Tune::off};

/// f(value, node) for each value of a plan.
template <class F>
void each_value(const RecordedPlan& plan, const F& f) {
  for (const RecordedNode& node : plan.nodes) {
    for (const RecordedValue& value : node.values) f(value, node);
  }
}

void check_nodes(const RecordedPlan& plan, const PlanReport& report) {
  std::set<std::int32_t> places;
  std::size_t kernels = 0;
  for (std::size_t i = 0; i < plan.nodes.size(); ++i) {
    const RecordedNode& node = plan.nodes[i];
    kernels += !node.kernel.empty();
    places.insert(node.place);
    for (const RecordedId& id : node.inputs) {
      REQUIRE(id.node < static_cast<std::int32_t>(i));
      CHECK(plan.nodes[id.node].place < node.place);
      CHECK(id.output < static_cast<std::int32_t>(plan.nodes[id.node].values.size()));
    }
  }
  CHECK(kernels == report.kernels);
  CHECK(places.size() == plan.nodes.size());
  CHECK(*places.begin() == 0);
  CHECK(*places.rbegin() == static_cast<std::int32_t>(plan.nodes.size()) - 1);
}

/// Values lie within the arena, and none over another while both are held, unless their guards
/// exclude each other (`guarded`).
void check_memory(const RecordedPlan& plan, const PlanReport& report, bool guarded) {
  struct Rectangle {
    std::size_t from, to;
    std::int32_t begin, end;
    bool joins;  ///< its operands may lie in it
  };
  std::vector<Rectangle> all;
  std::size_t at_peak = 0, held = 0;
  each_value(plan, [&](const RecordedValue& value, const RecordedNode& node) {
    CHECK((value.begin >= 0) == (value.in == "arena" && !value.is_view));
    CHECK(value.of.empty() == (value.in == "arena" || value.in == "none"));
    if (value.in == "arena") CHECK(value.offset + value.bytes <= report.arena_bytes);
    if (value.begin < 0) return;
    const bool joins = node.op == "concat" || node.op == "pack";
    CHECK((joins ? value.begin <= node.place : value.begin == node.place));
    if (value.begin <= plan.peak && plan.peak <= value.end) at_peak += value.bytes;
    if (value.bytes > 0) {
      all.push_back({value.offset, value.offset + value.bytes, value.begin, value.end, joins});
    }
  });
  for (const HeldValue& value : report.held) held += value.bytes;
  CHECK(at_peak >= held);
  if (guarded) return;
  for (std::size_t i = 0; i < all.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      const Rectangle &a = all[i], &b = all[j];
      const bool over = a.from < b.to && b.from < a.to;
      const bool together = a.begin < b.end && b.begin < a.end;
      const auto inside = [](const Rectangle& part, const Rectangle& whole) {
        return whole.joins && whole.from <= part.from && part.to <= whole.to;
      };
      if (over && together) CHECK((inside(a, b) || inside(b, a)));
    }
  }
}

void check_passes(const RecordedPlan& plan, const PlanReport& report) {
  REQUIRE(report.passes.size() > 2);
  CHECK(report.passes.back().nodes_after == plan.nodes.size());
  std::map<std::string, std::size_t> counts;
  for (const RecordedNode& node : plan.nodes) ++counts[node.op];
  for (std::size_t i = 0; i < report.passes.size(); ++i) {
    const PassReport& pass = report.passes[i];
    if (i > 0) CHECK(pass.nodes_before == report.passes[i - 1].nodes_after);
    auto nodes = static_cast<std::int64_t>(pass.nodes_before);
    for (const OpCount& op : pass.ops) {
      CHECK(op.before != op.after);
      nodes += static_cast<std::int64_t>(op.after) - static_cast<std::int64_t>(op.before);
    }
    CHECK(nodes == static_cast<std::int64_t>(pass.nodes_after));
  }
  // The plan has what the last pass that changed an op's number left.
  std::map<std::string, std::size_t> left;
  for (const PassReport& pass : report.passes) {
    for (const OpCount& op : pass.ops) left[op.op] = op.after;
  }
  for (const auto& [op, count] : left) CHECK(counts[op] == count);
}

}  // namespace

TEST_CASE("the record of every model says what its report says, and holds together") {
  for (const models::ModelEntry& entry : models::all_models()) {
    const models::Model model = entry.make(models::Scale::small, f32);
    const bool guarded = entry.name == std::string_view("gated_routing") ||
                         entry.name == std::string_view("feedback_adaptive") ||
                         entry.name == std::string_view("routed_sparse");
    for (const Target& target : {cpu_replay(), null()}) {
      const Executable step = compile(model.graph, target, kBoth);
      const PlanRecord record = step.plan_record();
      INFO(entry.name, " on ", record.report.target);
      CHECK(to_string(record.report) == to_string(step.report()));
      REQUIRE(record.plans.size() == 2);
      for (std::size_t i = 0; i < 2; ++i) {
        check_nodes(record.plans[i], record.report.plans[i]);
        check_memory(record.plans[i], record.report.plans[i], guarded);
        check_passes(record.plans[i], record.report.plans[i]);
      }
      std::size_t parameters = 0;
      for (const RecordedStorage& storage : record.storages) parameters += storage.trainable;
      CHECK(parameters > 0);
      CHECK(record.times == RecordedTimes());

      const PlanRecord read = plan_record_of(to_json(record));
      CHECK((read == record));
      CHECK(to_string(read.report) == to_string(record.report));
    }
  }
}

TEST_CASE("kernels that were timed stand beside those that were not chosen") {
  Graph g("choices");
  const Value x = g.input("x", f32, {64, 128});
  g.minimize(mean(square(x.through(linear(96)))), Sgd{.lr = 0.1});
  const Executable step = compile(g, cpu_replay(), {.tune = Tune::measure});
  const PlanRecord record = step.plan_record();
  bool timed = false;
  for (const KernelChoice& choice : record.report.plans[0].choices) {
    REQUIRE(choice.candidates.size() > 1);
    const auto chosen = std::ranges::find(choice.candidates, choice.chosen, &TimedCandidate::name);
    REQUIRE(chosen != choice.candidates.end());
    if (!choice.how.starts_with("timed")) continue;
    timed = true;
    for (const TimedCandidate& other : choice.candidates) CHECK(other.microseconds > 0);
  }
  CHECK(timed);
  CHECK((plan_record_of(to_json(record)) == record));
}

TEST_CASE("a record keeps times, names of any letters, and replaces what is no text") {
  Graph g("<script>alert(\"&\")</script>");
  const Value x = g.input("\u00e4\u6f22", f32, {2, 3});
  g.output("y", x.through(linear(2)));
  PlanRecord record = compile(g, cpu_replay(), {.tune = Tune::off}).plan_record();
  record.times = {.steps = 3,
                  .plan = 1,
                  .step_microseconds = 2.5,
                  .kernels = {{.kernel = "linear \"linear\" (a.cc:1)",
                               .op = "linear",
                               .members = "exp, mul (2)",
                               .path = "linear",
                               .line = "a.cc:1",
                               .phase = Phase::backward,
                               .microseconds = 0.1,
                               .runs = 0.5,
                               .by = TimingMethod::copies}},
                  .under_load = true};
  CHECK((plan_record_of(to_json(record)) == record));
  // In a page no name ends the record's element, and the record is whole.
  const std::string page = to_html(record), mark = "id=\"record\">";
  const std::size_t begin = page.find(mark) + mark.size();
  const std::string inside = page.substr(begin, page.find('<', begin) - begin);
  CHECK(page.find("<script>alert") == std::string::npos);
  CHECK((plan_record_of(inside) == record));
  CHECK(page.find("id=\"before\">null<") != std::string::npos);
  // So it is beside an earlier one, whose names are marks of the page.
  PlanRecord earlier = record;
  earlier.report.graph = "@RECORD@ @SCRIPT@ </script>";
  const std::string both = to_html(record, earlier), second = "id=\"before\">";
  const std::size_t from = both.find(second) + second.size();
  CHECK((plan_record_of(both.substr(from, both.find('<', from) - from)) == earlier));
  CHECK(both.find(to_json(record).substr(0, 40)) != std::string::npos);
  record.report.graph = "\xff";
  CHECK(plan_record_of(to_json(record)).report.graph == "\ufffd");
}

TEST_CASE("what is no plan record is refused") {
  const auto refuses = [](std::string text, std::string_view why) {
    CHECK(tests::error_of<RunError>([&] { plan_record_of(text); }) ==
          fmt::format("this is no plan record: {}; `metronome plan MODEL --json FILE` writes one",
                      why));
  };
  refuses("", "it is not JSON");
  refuses("{", "it is not JSON");
  refuses("[]", "it has no \"format\": \"metronome plan record\"");
  refuses("{\"format\": 3}", "it has no \"format\": \"metronome plan record\"");
  refuses("{\"format\": \"other\"}", "it has no \"format\": \"metronome plan record\"");
  refuses("{\"format\": \"metronome plan record\"}",
          "it is of version null, and this program reads version 2");
  refuses("{\"format\": \"metronome plan record\", \"version\": 1}",
          "it is of version 1, and this program reads version 2");

  Graph g("g");
  g.output("y", g.input("x", f32, {2}) + 1.0);
  const Executable step = compile(g, cpu_replay(), {.tune = Tune::off});
  nlohmann::json json = nlohmann::json::parse(to_json(step.plan_record()));
  json["report"]["plans"][0]["mode"] = "dream";
  refuses(json.dump(), "it has the mode \"dream\", which there is not");
  json["report"].erase("plans");
  CHECK(tests::error_of<RunError>([&] {
          plan_record_of(json.dump());
        }).find("key 'plans' not found") != std::string::npos);
}

TEST_CASE("a record of an older program lacks what came since") {
  Graph g("g");
  g.output("y", g.input("x", f32, {2}) + 1.0);
  const PlanRecord record = compile(g, cpu_replay(), {.tune = Tune::off}).plan_record();
  nlohmann::json json = nlohmann::json::parse(to_json(record));
  for (const char* later : {"plan", "under_load"}) REQUIRE(json["times"].erase(later) == 1);
  CHECK((plan_record_of(json.dump()) == record));
  REQUIRE(json["report"]["plans"][0].erase("least_bytes") == 1);
  CHECK(plan_record_of(json.dump()).report.plans[0].least_bytes == 0);
  REQUIRE(json["report"]["plans"][0].erase("arena_bytes") == 1);
  CHECK(tests::error_of<RunError>([&] {
          plan_record_of(json.dump());
        }).find("key 'arena_bytes' not found") != std::string::npos);
}

TEST_CASE("eager has no plan to record") {
  Graph g("g");
  g.output("y", g.input("x", f32, {2}) + 1.0);
  const Executable step = compile(g, eager());
  CHECK(tests::error_of<RunError>([&] { step.plan_record(); }) ==
        "graph \"g\": eager runs no plan, so there is none to record; compile for cpu_replay, "
        "cuda_graph, null or stepwise");
}

}  // namespace metronome
