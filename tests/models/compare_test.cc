#include "benchmarks/compare.h"

#include <ATen/Context.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/zeros.h>

#include <limits>
#include <nlohmann/json.hpp>
#include <vector>

#include "benchmarks/batches.h"
#include "benchmarks/eager_form.h"
#include "benchmarks/inference/inference.h"
#include "benchmarks/memory.h"
#include "benchmarks/table.h"
#include "tests/doctest.h"

namespace {

using namespace metronome;
using benchmarks::Samples;

TEST_CASE("medians and spreads shrug off one wild sample") {
  CHECK(Samples{{3, 1, 2}}.median() == 2);
  CHECK(Samples{{4, 1, 2, 3}}.median() == 2.5);
  CHECK(Samples{{1, 2, 3, 4, 1000}}.mad() == 1);
  CHECK(Samples{{1, 2, 3, 4, 1000}}.spread() == doctest::Approx(1.4826));
  CHECK(Samples{}.median() == 0);
}

TEST_CASE("rounds alternate in who goes first") {
  std::string order;
  benchmarks::interleave({[&](int steps) { order += "a" + std::to_string(steps); }, 2},
                         {[&](int steps) { order += "b" + std::to_string(steps); }, 5}, 3);
  CHECK(order == "a2b5b5a2a2b5");
}

TEST_CASE("not slower is a median ratio of 1, or of 0.95 whose spread reaches 1") {
  using benchmarks::Verdict;
  CHECK(benchmarks::verdict_of({{1.0, 1.1, 0.9}}) == Verdict::faster);
  CHECK(benchmarks::verdict_of({{0.97, 0.95, 0.99}}) == Verdict::even);
  CHECK(benchmarks::verdict_of({{0.97, 0.97, 0.98}}) == Verdict::slower);
  CHECK(benchmarks::verdict_of({{0.90, 0.80, 1.00}}) == Verdict::slower);
}

TEST_CASE("a comparison is acceptable where it agrees and small is not below the floor") {
  benchmarks::Comparison c;
  c.eager_ms = {{0.8}};
  c.planned_ms = {{1.0}};
  CHECK(c.acceptable());
  c.eager_ms = {{0.79}};
  CHECK(!c.acceptable());
  c.on_device.emplace();  // there it is a figure
  CHECK(c.acceptable());
  c.on_device.reset();
  c.scale = models::Scale::full;
  CHECK(c.acceptable());
  c.agreement.agree = false;
  CHECK(!c.acceptable());
}

TEST_CASE("answers that are not finite, or of other sizes, never agree") {
  using benchmarks::relative_difference;
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  constexpr float kInf = std::numeric_limits<float>::infinity();
  CHECK(relative_difference({1, 2, 4}, {1, 3, 4}) == 0.25);
  CHECK(relative_difference({0, 0}, {0, 0}) == 0);
  CHECK(relative_difference({1, 0}, {0, 0}) == kInf);
  CHECK(relative_difference({kNan, 1}, {1, 1}) == kInf);
  CHECK(relative_difference({1, 1}, {1, kNan}) == kInf);
  CHECK(relative_difference({kNan}, {kNan}) == kInf);
  CHECK(relative_difference({1}, {kInf}) == kInf);
  CHECK(relative_difference({1, 1}, {1}) == kInf);
}

TEST_CASE("the allocator's peak counts what lives at one moment, made in the call") {
  const at::Tensor before = at::zeros({1000});
  const std::size_t peak = benchmarks::peak_tensor_bytes([] {
    for (int i = 0; i < 3; ++i) const at::Tensor one = at::zeros({1 << 16});
    const at::Tensor a = at::zeros({1 << 16}), b = at::zeros({1 << 16});
  });
  CHECK(peak == 2 * 4 * (1 << 16));
}

TEST_CASE("eager's fastest setting is one that the model has, and none outlives its use") {
  const auto form_of = [](std::string_view name) {
    const models::Model model = models::find_model(name).make(models::Scale::small, f32);
    return name_of(benchmarks::fastest_form(model, benchmarks::Batches(model), {}));
  };
  CHECK(form_of("mlp") == "as it comes");
  const std::string_view images = form_of("conv_autoenc"), steps = form_of("gru_seq");
  CHECK((images == "as it comes" || images == "channels_last"));
  CHECK((steps == "as it comes" || steps == "without oneDNN"));
  {
    const benchmarks::EagerSettings settings(benchmarks::EagerForm::without_onednn, cpu);
    CHECK(!at::globalContext().userEnabledMkldnn());
  }
  CHECK(at::globalContext().userEnabledMkldnn());
}

TEST_CASE("eager trains on images in channels_last as in their declared order") {
  const models::Model model = models::convnet(models::Scale::small, f64);
  const benchmarks::Batches batches(model);
  Executable declared = compile(model.graph, eager()),
             last = compile(model.graph, eager(cpu, true));
  for (std::size_t step = 0; step < 3; ++step) {
    declared.run(batches.of_step(step));
    last.run(batches.of_step(step));
    CHECK(last.read_scalar(model.graph.loss()) ==
          doctest::Approx(declared.read_scalar(model.graph.loss())).epsilon(1e-10));
  }
  for (const DeclaredParameter& p : model.graph.parameters()) {
    CAPTURE(p.path);
    CHECK(at::allclose(last.get(p.path), declared.get(p.path), 1e-8, 1e-10));
  }
}

TEST_CASE("a comparison of a small model fills every field") {
  const models::ModelEntry& entry = models::find_model("feedback_fixed");
  std::vector<std::string> heard;
  const benchmarks::Comparison c =
      benchmarks::compare_model(entry, {.rounds = benchmarks::kFewestRounds},
                                [&](std::string_view what) { heard.emplace_back(what); });
  CHECK_MESSAGE(c.agreement.agree, c.agreement.disagreement);
  CHECK(heard == std::vector<std::string>{"compiling", "checking", "timing"});

  const std::vector<benchmarks::Comparison> all = {c};
  const auto json = nlohmann::json::parse(benchmarks::to_json(benchmarks::this_machine(), all));
  const auto& result = json["results"][0];
  CHECK(result["model"] == "feedback_fixed");
  CHECK(result["scale"] == "small");
  CHECK(result["threads"] == 1);
  CHECK(result["agree"] == true);
  CHECK(result["eager_form"] == "as it comes");
  CHECK(result["eager_ms"]["samples"].size() == 7);
  for (const char* positive :
       {"ratio", "compile_s", "kernels_declared", "kernels_planned", "arena_bytes",
        "lower_bound_bytes", "eager_peak_bytes", "library_share", "max_difference"}) {
    CAPTURE(positive);
    CHECK(result[positive].get<double>() > 0);
  }
  CHECK(result["arena_bytes"] >= result["lower_bound_bytes"]);
  const int cores = json["machine"]["cores"].get<int>();
  CHECK(cores > 0);
  const double there_and_back = json["machine"]["core_round_trip_ns"].get<double>();
  CHECK((cores > 1 ? there_and_back > 10 : there_and_back == 0));
}

}  // namespace
