#include "benchmarks/commands/declared_model.h"

#include <algorithm>
#include <utility>

namespace metronome::commands {

DeclaredModel declare_model(const std::string& name, const std::string& scale) {
  if (const models::TaskEntry* task = models::find_task(name)) {
    return {task->declare(task->defaults())};
  }
  models::Model model = models::find_model(name).make(models::scale_of(scale), f32);
  return {{std::move(model.graph), std::move(model.inputs)},
          std::max<std::int64_t>(model.vocabulary, 1)};
}

std::vector<std::string> model_names() {
  std::vector<std::string> names;
  for (const models::ModelEntry& entry : models::all_models()) names.emplace_back(entry.name);
  for (const models::TaskEntry& task : models::all_tasks()) names.emplace_back(task.name);
  return names;
}

}  // namespace metronome::commands
