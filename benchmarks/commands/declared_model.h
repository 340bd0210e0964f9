// A shipped model or a task, by its name.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "models/models.h"
#include "models/tasks/task.h"

namespace metronome::commands {

struct DeclaredModel {
  models::DeclaredTask model;
  std::int64_t vocabulary = 1;  ///< tokens that it is fed are below; 1 of a task: zeros
};

/// `scale` counts for models alone: a task has one size.
DeclaredModel declare_model(const std::string& model, const std::string& scale);

/// The names of all of them.
std::vector<std::string> model_names();

}  // namespace metronome::commands
