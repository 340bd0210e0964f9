// The graphs of an evaluation that becomes one ONNX model: one for each batch shape.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "executor/onnx/to_onnx.h"
#include "executor/run/declared_graphs.h"
#include "executor/run/executable_impl.h"
#include "graph/ir/graph.h"
#include "ops/attention/attention.h"

namespace metronome::onnx {

/// An evaluation as its mode makes it, not yet optimized, with recurrent layers whole. Its graphs
/// are alike: node i of each has the same op, path and operands, and may differ in sizes.
struct Evaluation {
  executor::StepKind kind;
  std::vector<ir::Graph> graphs;
};

/// A node's path, and its line in the user's source: ""tower/0/relu" (net.cc:7)".
std::string place_of(const Node& node);

/// The version of ONNX's operators that first has attention and the root mean square norm.
inline constexpr std::int64_t kAttentionOpset = 23;
/// Whether that attention means the same: it lacks masks, and leading dimensions that broadcast.
bool is_one_operator(const Attention& op, std::span<const Type> operands);

/// Throws RunError where the executable was not compiled to evaluate, or its graphs differ in more
/// than sizes.
Evaluation make_evaluation(const Executable::Impl& step, const OnnxOptions& options);

}  // namespace metronome::onnx
