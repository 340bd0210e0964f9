// Weights between programs: which tensors of a file or a snapshot an executable takes, and under
// which paths; and which of its own it writes for others.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "graph/ir/type.h"

namespace metronome {

/// Names of tensors are paths. In a file that is no checkpoint, as PyTorch's state_dict in
/// safetensors, "." stands for "/": "fc1.weight" is "fc1/weight".
struct LoadOptions {
  /// Pairs of a name and the path that it has here, of a tensor or of all that lie below it:
  /// {{"actor", "policy/net"}}. The first pair that finds a name counts. An empty name finds all,
  /// and an empty path stands for none: {{"average/ema", ""}}. A tensor that is renamed goes before
  /// one that has its new path.
  std::vector<std::pair<std::string, std::string>> rename = {};
  /// Globs of paths here, as in Graph::freeze: storages of any kind. Empty: all parameters and
  /// buffers.
  std::vector<std::string> only = {};
  /// Refuses a file that lacks one of those, or has a parameter or buffer more, but for those that
  /// `only` leaves out. If false, what is missing stays as it is, and what is more is left.
  bool strict = true;
};

struct LoadReport {
  std::vector<std::string> loaded;   ///< paths
  std::vector<std::string> missing;  ///< paths that stay as they were
  std::vector<std::string> left;     ///< names that nothing takes
};

/// "12 loaded; missing: "a", "b"; left: "c""
std::string to_string(const LoadReport& report);

struct SaveOptions {
  /// Globs of paths: storages of any kind. Empty: all parameters and buffers.
  std::vector<std::string> only = {};
  /// The type that floating tensors are rounded to, f32, bf16 or f16; absent: as they are.
  std::optional<Element> element = {};
};

}  // namespace metronome
