#include "executor/engine/memory.h"

#include <algorithm>

#include "graph/ir/error.h"
#include "ops/structural/relayout.h"

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
  const auto after = std::ranges::upper_bound(handed_out, begin, {}, &HandedOutMemory::begin);
  handed_out.insert(after, {begin, begin + bytes, input});
}

const Block& Memory::plain(std::size_t storage) const {
  const bool laid_out = !storages[storage].layout.plain();
  return laid_out ? plain_blocks[storage] : storage_blocks[storage];
}

void Memory::show(std::size_t storage) const {
  const Storage& s = storages[storage];
  if (s.layout.plain()) return;
  relayout(relayout_table(s.layout, {}, s.type.shape), size_of(s.type.element),
           storage_blocks[storage].data(), plain_blocks[storage].data());
}

void Memory::keep(std::size_t storage) const {
  const Storage& s = storages[storage];
  if (s.layout.plain()) return;
  relayout(relayout_table({}, s.layout, s.type.shape), size_of(s.type.element),
           plain_blocks[storage].data(), storage_blocks[storage].data());
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
