#include "executor/compile/evaluation_graphs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string_view>

namespace metronome::executor::compile {

ir::Graph limit_outputs(const ir::Graph& graph, const std::vector<std::string>& outputs) {
  ir::Graph limited = graph;
  if (outputs.empty()) return limited;
  std::set<ValueId> keeps;
  for (std::size_t i = 0; i < graph.readables().size(); ++i) {
    const Readable& r = graph.readables()[i];
    const bool kept = std::ranges::find(outputs, r.name) != outputs.end();
    if (kept) keeps.insert(r.value);
    if (!kept) limited.set_readable(i, {});
  }
  for (std::size_t k = graph.objectives().size(); k-- > 0;) {
    if (!keeps.contains(graph.objectives()[k].loss)) limited.erase_objective(k);
  }
  return limited;
}

void add_averages(const ir::Graph& graph, AveragePaths& averages) {
  for (const Storage& s : graph.storages()) {
    if (s.kind != StorageKind::average) continue;
    const std::string_view path = std::string_view(s.path).substr(kAveragesRoot.size() + 1);
    const std::string name(path.substr(0, path.find('/')));
    auto found = std::ranges::find(averages, name, [](const auto& of) { return of.first; });
    if (found == averages.end()) found = averages.insert(found, {name, {}});
    found->second.insert(s.path);
  }
}

ir::Graph with_averages(ir::Graph graph, const std::string& name,
                        const std::set<std::string>& paths) {
  for (std::size_t i = 0; i < graph.storages().size(); ++i) {
    const Storage& s = graph.storages()[i];
    if (s.kind != StorageKind::parameter) continue;
    const std::string parameter = s.path;
    const std::string average = fmt::format("{}/{}/{}", kAveragesRoot, name, parameter);
    if (!paths.contains(average)) continue;
    const std::optional<StorageId> own = graph.find_storage(average);
    // Neither may have the other's path while it still has it.
    if (own) graph.set_path(*own, average + "/");
    graph.set_path({static_cast<std::int32_t>(i)}, average);
    if (own) graph.set_path(*own, parameter);
  }
  return graph;
}

}  // namespace metronome::executor::compile
