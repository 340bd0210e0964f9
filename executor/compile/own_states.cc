#include "executor/compile/own_states.h"

#include <fmt/format.h>

#include <map>
#include <string>

namespace metronome::executor::compile {

void name_own_states(std::span<ir::Graph> graphs) {
  std::map<std::string, Shape> known;  // by path, as the first graph has it
  for (ir::Graph& graph : graphs) {
    for (std::size_t i = 0; i < graph.storages().size(); ++i) {
      const Storage& s = graph.storages()[i];
      if (s.kind != StorageKind::state) continue;
      const auto [first, added] = known.emplace(s.path, s.type.shape);
      if (added || first->second == s.type.shape) continue;
      graph.set_path({static_cast<std::int32_t>(i)},
                     fmt::format("{}{}", s.path, to_string(s.type.shape)));
    }
  }
}

}  // namespace metronome::executor::compile
