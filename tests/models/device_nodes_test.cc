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
mlp                small: 37 nodes, chain 31 full: 50 nodes, chain 42
residual_tower     small: 98 nodes, chain 83 full: 102 nodes, chain 86
gated_routing      small: 93 nodes, chain 57 full: 94 nodes, chain 58
iterative_refine   small: 60 nodes, chain 53 full: 76 nodes, chain 60
feedback_fixed     small: 70 nodes, chain 62 full: 90 nodes, chain 73
feedback_adaptive  small: 180 nodes, chain 117 full: 181 nodes, chain 135
routed_sparse      small: 85 nodes, chain 55 full: 92 nodes, chain 61
convnet            small: 62 nodes, chain 53 full: 72 nodes, chain 66
conv_autoenc       small: 73 nodes, chain 61 full: 87 nodes, chain 69
gru_seq            small: 420 nodes, chain 312 full: 524 nodes, chain 315
lstm_seq           small: 1075 nodes, chain 763 full: 1171 nodes, chain 859
transformer        small: 172 nodes, chain 129 full: 180 nodes, chain 147
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
