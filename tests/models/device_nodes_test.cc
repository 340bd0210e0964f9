// How many nodes a step has on a device, and how many of them must run one after the other: what
// small steps cost there. No device takes part.
#include <fmt/format.h>

#include <string>

#include "executor/metronome.h"
#include "models/models.h"
#include "tests/doctest.h"
#include "tests/executor/options.h"

namespace metronome {
namespace {

using models::Scale;

// Fewer are an improvement, which is written down here; more must be worth their time.
const std::string kExpected = R"(
mlp                small: 32 nodes, chain 24 full: 49 nodes, chain 42
residual_tower     small: 85 nodes, chain 70 full: 101 nodes, chain 86
gated_routing      small: 76 nodes, chain 40 full: 85 nodes, chain 60
iterative_refine   small: 50 nodes, chain 43 full: 75 nodes, chain 60
feedback_fixed     small: 58 nodes, chain 51 full: 89 nodes, chain 73
feedback_adaptive  small: 168 nodes, chain 107 full: 180 nodes, chain 135
routed_sparse      small: 83 nodes, chain 55 full: 91 nodes, chain 62
convnet            small: 61 nodes, chain 53 full: 71 nodes, chain 66
conv_autoenc       small: 72 nodes, chain 61 full: 86 nodes, chain 69
gru_seq            small: 18 nodes, chain 13 full: 293 nodes, chain 225
lstm_seq           small: 28 nodes, chain 20 full: 493 nodes, chain 482
transformer        small: 170 nodes, chain 131 full: 178 nodes, chain 142
gan                small: 39 nodes, chain 33 full: 38 nodes, chain 33
vae                small: 27 nodes, chain 24 full: 28 nodes, chain 26
sac                small: 109 nodes, chain 86 full: 109 nodes, chain 95
ppo                small: 58 nodes, chain 39 full: 58 nodes, chain 38
)";

TEST_CASE("nodes of a training step, and the longest chain of them") {
  std::string found = "\n";
  for (const models::ModelEntry& entry : models::all_models()) {
    found += fmt::format("{:<18}", entry.name);
    for (const Scale scale : {Scale::small, Scale::full}) {
      const models::Model model = entry.make(scale, f32);
      const Executable step = compile(model.graph, null(), tests::untuned());
      const PlanReport& plan = step.report().plan(Mode::train);
      found += fmt::format(" {}: {} nodes, chain {}", models::name_of(scale), plan.graph_nodes,
                           plan.longest_chain);
    }
    found += "\n";
  }
  CHECK(found == kExpected);
}

}  // namespace
}  // namespace metronome
