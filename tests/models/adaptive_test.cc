// The adaptive loop trains as eager does, step by step as often.
#include <ATen/core/Tensor.h>
#include <fmt/format.h>

#include <set>

#include "benchmarks/batches.h"
#include "models/models.h"
#include "tests/doctest.h"

namespace metronome::adaptive_test {
namespace {

TEST_CASE("over 200 training steps planned and eager iterate equally often, not always so") {
  const models::Model model = models::feedback_adaptive(models::Scale::small, f64);
  const benchmarks::Batches batches(model, 50);
  CompileOptions options;
  options.threads = 1;
  Executable planned = compile(model.graph, cpu_replay(), options);
  Executable eagerly = compile(model.graph, eager(), options);
  std::multiset<int> counts;
  for (std::size_t step = 0; step < 200; ++step) {
    const auto feeds = batches.of_step(step);
    planned.run(feeds);
    eagerly.run(feeds);
    const int iterations = planned.read("iterations").item<int>();
    REQUIRE(iterations == eagerly.read("iterations").item<int>());
    REQUIRE(planned.read_scalar(model.graph.loss()) ==
            doctest::Approx(eagerly.read_scalar(model.graph.loss())).epsilon(1e-7));
    counts.insert(iterations);
  }
  for (int k = 1; k <= 10; ++k) fmt::print("{} iterations: {} steps\n", k, counts.count(k));
  CHECK(std::set<int>(counts.begin(), counts.end()).size() >= 3);
}

}  // namespace
}  // namespace metronome::adaptive_test
