#include "executor/compile/join_ranks.h"

#include <fmt/format.h>

#include <map>
#include <string>

#include "graph/ir/error.h"

namespace metronome::executor::compile {
namespace {

/// A state that graphs declare with several shapes, as one that samples at batch 1 does, gets
/// memory for each: where its shape is not that of the first graph that has it, its path becomes
/// "h[1, 64]".
void name_states_by_shape(std::span<ir::Graph> graphs) {
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

}  // namespace

std::vector<ir::Graph> join_ranks(std::vector<GraphInModes>& declared, CompileOptions& options) {
  std::vector<ir::Graph> own;
  if (options.data_parallel) {
    if (options.world && options.world != options.data_parallel) {
      throw RunError(fmt::format(
          "graph \"{}\": CompileOptions::world and CompileOptions::data_parallel are two; give one "
          "of them, as the second is a world, too",
          declared[0].graph->name()));
    }
    options.world = options.data_parallel;
  }
  if (options.world) options.ops = options.ops + options.world->ops();
  for (const GraphInModes& part : declared) {
    own.push_back(options.world ? options.world->join(*part.graph) : *part.graph);
  }
  name_states_by_shape(own);
  for (std::size_t i = 0; i < own.size(); ++i) declared[i].graph = &own[i];
  return own;
}

void take_local_device(Target& target, const CompileOptions& options) {
  const bool on_device = target.device.kind == Device::Kind::cuda;
  if (on_device && options.world && !target.cuda.device) {
    target.device.index = options.world->local_rank();
  }
}

std::optional<MeanOps> averages_of(const ir::Graph& graph, const CompileOptions& options) {
  if (!options.data_parallel) return std::nullopt;
  std::size_t bytes = 0;
  for (const Storage& storage : graph.storages()) {
    if (storage.trainable) bytes += storage.type.bytes();
  }
  return options.data_parallel->averages(bytes);
}

void begin_as_first(const Ranks& ranks, const Memory& memory, StorageAccess& storages) {
  for (std::size_t storage = 0; storage < memory.storages.size(); ++storage) {
    storages.fetch(storage);
    const Block& plain = memory.plain(storage);
    ranks.broadcast({plain.data(), plain.bytes()});
    storages.push(storage);
  }
}

}  // namespace metronome::executor::compile
