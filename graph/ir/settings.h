// Settings of passes and the planner. Plain data: no type of a back end.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "graph/ir/mode.h"
#include "graph/ir/op.h"
#include "graph/ir/type.h"
#include "graph/rules/fusion.h"
#include "graph/rules/lay_out.h"

namespace metronome {

/// Elements of a constant, row-major.
using Bytes = std::vector<std::byte>;

/// The ops that make the mean of one vector from each rank.
struct MeanOps {
  OpPtr whole;
  /// The mean in two halves, between which the step goes on: `begin` takes the vector, `finish` all
  /// that `begin` gives.
  OpPtr begin, finish;
  /// A vector ends where it has reached so many bytes; 0: one of each element type.
  std::size_t bucket_bytes = 0;
};

struct Settings {
  Mode mode = Mode::train;
  /// Bytes that offsets are rounded up to: 64 on a CPU, 256 on a GPU.
  std::size_t alignment = 64;
  /// True for an op that the target runs whole, of operands of these types, though it could be
  /// expanded; `lower` expands all others that can be.
  std::function<bool(const OpPtr&, std::span<const Type>)> keeps;
  FuseSettings fuse = {};
  /// Into how many `Batch` nodes `batch` puts the updates of one kind; 0: none, each stays a node.
  std::size_t buckets = 0;
  /// True where the gradients of all parameters lie side by side in one vector of each element
  /// type, for what reduces them over many devices at once.
  bool packs_gradients = false;
  /// Over the ranks: gradients are then packed, the loss with them, and averaged. Absent: they stay
  /// this process's own.
  std::optional<MeanOps> averages = {};
  /// The number of this rank among those that train together (pass `on_rank`).
  int rank = 0;
  LayoutSettings layouts = {};
  /// True where what a sum adds is gathered: products of many steps as one product (pass `gather`).
  bool gathers = false;
  /// True where the target skips nodes whose guards are false, so that values of guards that
  /// exclude each other may share bytes.
  bool skips = false;
  /// How long each of the planner's searches for a layout may take; absent: about half a second,
  /// and to within 1 % of the bound (graph/placement/placement.h); 0: it does not search.
  std::optional<std::size_t> plan_work = {};
  /// Paths of what `recompute` computes once more for the gradients that read it, in place of
  /// keeping it: each a node's own path, or one above nodes. Empty: all that gradients read is
  /// kept.
  std::vector<std::string> recomputed = {};
  /// Runs an op once on constants, for `fold`: one result per output, or none where the node must
  /// be left to run. Absent: constants are not evaluated.
  std::function<std::vector<Bytes>(const Op&, std::span<const Type> types,
                                   std::span<const Bytes> inputs)>
      evaluate;
};

}  // namespace metronome
