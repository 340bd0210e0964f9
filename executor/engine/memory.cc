#include "executor/engine/memory.h"

#include <algorithm>

#include "graph/ir/error.h"

namespace metronome::executor {

std::size_t Memory::find(const Input& input) const {
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].name == input.input && inputs[i].type == input.type) return i;
  }
  throw InternalError("no input memory for \"" + input.input + "\"");
}

void Memory::hand_out(std::size_t input) {
  if (inputs[input].handed_out) return;
  inputs[input].handed_out = true;
  const std::byte* begin = inputs[input].block.data();
  const std::size_t bytes = inputs[input].type.bytes();
  if (bytes == 0) return;
  const auto after = std::ranges::upper_bound(handed_out, begin, {}, &HandedOut::begin);
  handed_out.insert(after, {begin, begin + bytes, input});
}

std::vector<std::size_t> Memory::storages_of(const ir::Graph& graph) const {
  std::vector<std::size_t> indices;
  for (const Storage& s : graph.storages()) {
    const auto found = std::ranges::find(storages, s.path, &Storage::path);
    if (found == storages.end()) throw InternalError("no memory for \"" + s.path + "\"");
    indices.push_back(static_cast<std::size_t>(found - storages.begin()));
  }
  return indices;
}

}  // namespace metronome::executor
