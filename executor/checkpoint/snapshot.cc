#include "executor/checkpoint/take_snapshot.h"

#include <cstring>
#include <map>
#include <utility>

#include "executor/checkpoint/match.h"

namespace metronome {

struct Snapshot::Contents {
  struct Tensor {
    Type type;
    StorageKind kind;
    std::unique_ptr<std::byte[]> data;
  };
  std::string name;
  executor::checkpoint::CheckpointInfo info;
  std::map<std::string, Tensor> tensors;
};

std::size_t Snapshot::bytes() const {
  std::size_t bytes = 0;
  for (const auto& [path, tensor] : contents_->tensors) bytes += tensor.type.bytes();
  return bytes;
}

namespace executor::checkpoint {

Snapshot take_snapshot(std::string name, std::span<const StorageEntry> storages,
                       const CheckpointInfo& info) {
  auto contents = std::make_shared<Snapshot::Contents>();
  contents->name = std::move(name);
  contents->info = info;
  for (const StorageEntry& storage : storages) {
    if (is_seed(storage)) {
      std::memcpy(&contents->info.seed, storage.data, sizeof contents->info.seed);
      continue;
    }
    const std::size_t bytes = storage.type.bytes();
    auto data = std::make_unique_for_overwrite<std::byte[]>(bytes);
    if (bytes > 0) std::memcpy(data.get(), storage.data, bytes);
    contents->tensors.emplace(
        storage.path, Snapshot::Contents::Tensor{storage.type, storage.kind, std::move(data)});
  }
  return Snapshot(std::move(contents));
}

std::vector<std::string> load_snapshot(const Snapshot& snapshot,
                                       std::span<const StorageEntry> storages,
                                       const CheckpointInfo& expected) {
  const Snapshot::Contents& contents = snapshot.contents();
  KeptTensors kept{contents.name, "snapshot", {}};
  for (const auto& [path, tensor] : contents.tensors) kept.tensors.emplace(path, tensor.type);
  Match matched = match(kept, tensors_by_path(storages));
  for (const StorageEntry* storage : matched.reset) reset(*storage);
  for (const auto& [storage, tensor] : matched.read) {
    const std::size_t bytes = storage->type.bytes();
    const auto kept_as = contents.tensors.find(std::string(tensor));
    if (bytes > 0) std::memcpy(storage->data, kept_as->second.data.get(), bytes);
  }
  take_origin(kept, contents.info, expected, storages, matched.notices);
  return std::move(matched.notices);
}

KeptSnapshot tensors_of(const Snapshot& snapshot) {
  KeptSnapshot kept{snapshot.contents().name, {}};
  for (const auto& [path, tensor] : snapshot.contents().tensors) {
    kept.tensors.emplace(path, KeptSnapshot::Tensor{tensor.type, tensor.kind, tensor.data.get()});
  }
  return kept;
}

}  // namespace executor::checkpoint
}  // namespace metronome
