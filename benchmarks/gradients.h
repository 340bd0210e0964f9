// The gradients of a model's parameters, kept to be compared.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "executor/metronome.h"
#include "models/models.h"

namespace metronome::benchmarks {

struct TrainedParameter {
  std::string path;
  std::size_t objective = 0;  ///< which of the graph's trains it
  Value gradient;
};

/// Has the model's graph keep the gradient of each parameter that it trains, by its own objective.
std::vector<TrainedParameter> keep_gradients(models::Model& model);

}  // namespace metronome::benchmarks
