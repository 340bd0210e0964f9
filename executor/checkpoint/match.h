// How the storages of an executable and the tensors that were kept of one go together.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "executor/checkpoint/checkpoint.h"

namespace metronome::executor::checkpoint {

using ByPath = std::map<std::string_view, const Checkpointed*>;

/// All but the seed, which is kept beside the tensors.
ByPath tensors_by_path(std::span<const Checkpointed> storages);
bool is_seed(const Checkpointed& storage);

/// To its initial value, where it has one.
void reset(const Checkpointed& storage);

/// A file or a snapshot in which storages were kept.
struct Kept {
  std::string name;  ///< how messages begin: FILE
  std::string kind;  ///< "file"
  std::map<std::string_view, Type> tensors;
};

/// A storage, and the tensor of the same type that it takes.
struct Taken {
  const Checkpointed* storage;
  std::string_view tensor;
};

struct Match {
  std::vector<Taken> read;                 ///< of the same path, but for averages that begin anew
  std::vector<const Checkpointed*> reset;  ///< to their initial values
  std::vector<std::string> notices;
};

/// Throws RunError where what was kept is of another model.
Match match(const Kept& kept, const ByPath& storages);

/// The seed and the kernel choices of what was kept: the seed becomes the storages', and `notices`
/// gains what differs from `expected`.
void take_origin(const Kept& kept, const CheckpointInfo& origin, const CheckpointInfo& expected,
                 std::span<const Checkpointed> storages, std::vector<std::string>& notices);

}  // namespace metronome::executor::checkpoint
