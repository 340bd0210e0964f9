// The parts of a graph: nodes, storages, assignments. Plain data, appended, never changed.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "graph/ir/ids.h"
#include "graph/ir/init.h"
#include "graph/ir/line.h"
#include "graph/ir/op.h"
#include "graph/ir/shared.h"
#include "graph/ir/type.h"

namespace metronome {

struct Node {
  OpPtr op;
  std::vector<ValueId> inputs = {};    ///< always of earlier nodes
  SharedConst<Types> types = {};       ///< one per output, saved ones last
  SharedConst<std::string> path = {};  ///< "tower/3/linear"; carries loop iteration and call number
  Line line = {};                      ///< where the user asked for it
  ValueId guard = {};                  ///< the boolean under which it runs, or absent
  /// Earlier nodes that run before it, though it reads nothing of theirs: ascending, each once.
  /// If a step skips one of the two, there is nothing to wait for. Only nodes with a kernel
  /// (neither inputs and reads of storages, nor views) wait and are waited for: to wait for a view
  /// is to wait for the kernel that makes its bytes. The header of each pass says what it does with
  /// waits. All passes keep this rule: a node that takes another's place waits for what that one
  /// waited for, and is waited for in its place; if no node takes the place, those that waited for
  /// the old one wait for what it waited for.
  std::vector<std::int32_t> waits_for = {};
};

/// Paths that are Metronome's own: counters at the top, moments at "optimizer/<moment>/<path>",
/// averages at "average/<name>/<path>".
inline constexpr std::array<std::string_view, 3> kCounters = {"seed", "replay", "update"};
inline constexpr std::string_view kMomentsRoot = "optimizer";
inline constexpr std::string_view kAveragesRoot = "average";

enum class StorageKind : std::uint8_t {
  parameter,  ///< trained by the optimizer
  state,      ///< fed back across steps by `feed`
  buffer,     ///< running statistics
  moment,     ///< the optimizer's own, made by the update pass
  average,    ///< of a parameter's values, kept by `average`
  counter,    ///< "seed", "replay" and "update", i64 scalars
};

constexpr std::string_view name_of(StorageKind kind) {
  constexpr std::array<std::string_view, 6> kNames = {"parameter", "state",   "buffer",
                                                      "moment",    "average", "counter"};
  return kNames.at(static_cast<std::size_t>(kind));
}

/// A tensor that outlives a step.
struct Storage {
  std::string path;  ///< "tower/3/linear/weight", without loop iterations
  Type type;
  StorageKind kind = StorageKind::parameter;
  Init init;
  Line line;
  bool trainable = false;  ///< a parameter that is not frozen
  double rate = 1;         ///< of a parameter: its learning rate is so many times the optimizer's
  double decay = 1;        ///< of a parameter: its weight decay is so many times the optimizer's
  /// The objective that trains a parameter, among `ir::Graph::objectives`; below zero if none
  /// names it, and then the first.
  std::int32_t objective = -1;
  Layout layout = {};  ///< how plans keep it; users see a plain tensor
  /// The parameter whose initial value it begins with, by path; empty: its own.
  std::string begins_as = {};

  /// The type of the tensor that holds it in a step.
  Type stored_type() const { return apply_layout(layout, type); }
};

/// At the end of the step `storage` holds `value`. At most one for each storage.
struct Assignment {
  StorageId storage;
  ValueId value;
  Line line;
};

/// A value that users can read after a step: it lies beside the arena.
struct Readable {
  std::string name;  ///< "loss", an output's or observation's name, or "gradient of x"
  ValueId declared;  ///< in the graph as the user declared it
  ValueId value;     ///< in this graph; absent where this mode does not compute it
};

/// The gradient of the loss with respect to a trainable parameter, as differentiate found it.
struct ParameterGradient {
  StorageId parameter;
  ValueId value;
};

}  // namespace metronome
