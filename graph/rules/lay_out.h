// How the pass `lay_out` runs an op over tensors in other layouts.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "graph/rules/rule.h"

namespace metronome {

/// An op over tensors in other layouts: the op to run over the tensors that store them, the layouts
/// of its operands, and those of its results.
struct LaidOutOp {
  OpPtr op;
  std::vector<Layout> operands;
  std::vector<Layout> results;
};

/// The layout in which an op wants its largest operands, though they are plain; absent where it
/// wants none.
using WantedLayout = std::function<std::optional<Layout>(const OpPtr&, std::span<const Type>)>;

/// Settings of the pass `lay_out`.
struct LayoutSettings {
  WantedLayout wants;  ///< absent altogether: all stays plain
  /// The ops that the target runs as `ChannelsLast` if they say so; absent: all.
  std::function<bool(const Op&)> channels_last = {};
  /// By path, the layouts of storages that plans made before of the same executable decided.
  std::map<std::string, Layout> kept = {};
};

}  // namespace metronome

/// The op to run where the largest operands are stored in the layout; absent if there is none. The
/// last block of an operand may be filled up with any numbers. An op whose `fusion` is a map needs
/// no such rule, unless its attributes hold a shape.
METRONOME_RULE(LayoutRule, lay_out, std::optional<LaidOutOp>,
               (std::span<const Type>, const Layout&))
