// Tells of a NaN in what users read, as learners often read no loss. Internal to executor/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "executor/support/tensor.h"

namespace metronome::executor {

/// The advice of warnings of a NaN.
inline constexpr const char* kWatchAdvice =
    "compile with CompileOptions::watch to be told of the node that made the first one";

/// Looks at numbers on their way to users, and warns of each name that holds a NaN, once.
///
/// A look may cost 2 % of a step. A step touches its arena and its storages at least once, so each
/// read earns a look at 2 % of their bytes. A number that is read is always looked at, a larger
/// tensor at every k-th read, of which the first is one:
///
///   arena and storages 10 MiB   a read earns 205 KiB
///   tensor of 64 KiB            looked at in each read
///   tensor of 1 MiB             looked at in the reads 0, 5, 10, ...
class NanLookout {
 public:
  /// `names` of what can be read; `prefix` names the executable in warnings, by its first graph.
  NanLookout(std::string prefix, std::vector<std::string> names, std::size_t step_bytes);

  /// `steps` that have begun, of all graphs. `graph`: the name of the one whose step made the
  /// value; absent for storages, which all graphs share.
  void look(std::size_t name, double number, std::int64_t steps,
            std::optional<std::string_view> graph = std::nullopt);
  void look(std::size_t name, const Tensor& tensor, std::int64_t steps,
            std::optional<std::string_view> graph = std::nullopt);

 private:
  struct Name {
    std::string name;
    std::size_t earned = 0;  ///< bytes, since the last look
    bool looked_at = false;
    bool told = false;
  };
  void tell(Name& name, std::int64_t steps, std::optional<std::string_view> graph);

  std::string prefix_;
  std::vector<Name> names_;
  std::size_t earned_by_read_;
};

}  // namespace metronome::executor
