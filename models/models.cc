#include "models/models.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "graph/ir/error.h"

namespace metronome::models {
namespace {

constexpr std::array<ModelEntry, 12> kModels = {{
    {"mlp", mlp},
    {"residual_tower", residual_tower},
    {"gated_routing", gated_routing},
    {"iterative_refine", iterative_refine},
    {"feedback_fixed", feedback_fixed},
    {"feedback_adaptive", feedback_adaptive},
    {"routed_sparse", routed_sparse},
    {"convnet", convnet},
    {"conv_autoenc", conv_autoenc},
    {"gru_seq", gru_seq},
    {"lstm_seq", lstm_seq},
    {"transformer", transformer},
}};

}  // namespace

std::string_view name_of(Scale scale) { return scale == Scale::small ? "small" : "full"; }

Scale scale_of(std::string_view name) {
  if (name == "small") return Scale::small;
  if (name == "full") return Scale::full;
  throw RunError(fmt::format("there is no scale \"{}\": small or full", name));
}

std::span<const ModelEntry> all_models() { return kModels; }

const ModelEntry& find_model(std::string_view name) {
  const auto* found = std::ranges::find(kModels, name, &ModelEntry::name);
  if (found == kModels.end()) {
    throw RunError(fmt::format("there is no model \"{}\": {}", name, model_names()));
  }
  return *found;
}

std::string model_names() {
  std::string names;
  for (const ModelEntry& entry : kModels) {
    if (!names.empty()) names += ", ";
    names += entry.name;
  }
  return names;
}

std::int64_t batch_at(Scale scale, std::int64_t full) { return scale == Scale::small ? 4 : full; }

std::int64_t width_at(Scale scale, std::int64_t full) {
  return scale == Scale::small ? std::max<std::int64_t>(full / 32, 16) : full;
}

Values Model::feeds() const {
  if (target.id() == input.id()) return {input};
  return {input, target};
}

Model finish(Graph graph, Value input, Value target, double lr, std::int64_t vocabulary) {
  std::int64_t parameters = 0;
  for (const DeclaredParameter& p : graph.parameters()) parameters += p.type.numel();
  std::string name = graph.name();
  return {std::move(name), std::move(graph), input, target, parameters, lr, vocabulary};
}

}  // namespace metronome::models
