#include "models/models.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "graph/ir/error.h"

namespace metronome::models {
namespace {

constexpr std::array<ModelEntry, 16> kModels = {{
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
    {"gan", gan},
    {"vae", vae},
    {"sac", sac},
    {"ppo", ppo},
}};

constexpr std::string_view kScales[] = {"small", "medium", "full"};  // [Scale]

}  // namespace

std::string_view name_of(Scale scale) { return kScales[static_cast<std::size_t>(scale)]; }

Scale scale_of(std::string_view name) {
  const auto* found = std::ranges::find(kScales, name);
  if (found == std::end(kScales)) {
    throw RunError(fmt::format("there is no scale \"{}\": small, medium or full", name));
  }
  return static_cast<Scale>(found - std::begin(kScales));
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

std::int64_t batch_at(Size size, std::int64_t full) {
  return rows_at(size, 4, std::clamp<std::int64_t>(full / 8, 16, 32), full);
}

std::int64_t rows_at(Size size, std::int64_t small, std::int64_t medium, std::int64_t full) {
  return size.rows > 0 ? size.rows : size_at(size, small, medium, full);
}

std::int64_t width_at(Size size, std::int64_t full) {
  const std::int64_t medium = std::min(full, std::clamp<std::int64_t>(full / 4, 128, 256));
  return size_at(size, std::max<std::int64_t>(full / 32, 16), medium, full);
}

std::int64_t size_at(Size size, std::int64_t small, std::int64_t medium, std::int64_t full) {
  switch (size.scale) {
    case Scale::small:
      return small;
    case Scale::medium:
      return medium;
    case Scale::full:
      return full;
  }
  throw InternalError("a scale without a size");
}

Model finish(Graph graph, Values inputs, Value answer, Fed fed) {
  std::int64_t parameters = 0;
  for (const DeclaredParameter& p : graph.parameters()) {
    if (p.trained) parameters += p.type.numel();
  }
  std::string name = graph.name();
  return {.name = std::move(name),
          .graph = std::move(graph),
          .inputs = std::move(inputs),
          .answer = std::move(answer),
          .parameters = parameters,
          .vocabulary = fed.vocabulary,
          .numbers = fed.numbers};
}

}  // namespace metronome::models
