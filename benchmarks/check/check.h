// Whether a step is right, without timing it: each kernel, the decisions that rounding makes, and
// the step as a whole.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "benchmarks/check/node_errors.h"
#include "models/models.h"

namespace metronome::benchmarks {

/// The decisions of one node, and how many of them the planned step and eager's, on the CPU, made
/// otherwise than f64 does after planned's earlier ones.
struct NodeFlips {
  std::string node;  ///< `relu "repeat/1/relu"`
  std::int64_t decisions = 0;
  std::int64_t planned = 0;
  std::int64_t eager = 0;
  double farthest = 0;  ///< of planned's (benchmarks/check/decisions.h)
};

struct Check {
  std::string model;
  models::Scale scale = models::Scale::small;
  int threads = 1;
  std::vector<std::string> wrong;  ///< a line each; none where the step is right
  std::map<std::string, NodeError> nodes;
  std::vector<NodeFlips> flips;
  double forward_error = 0;   ///< the largest of the deciding nodes' operands, of their length
  double gradient_error = 0;  ///< the largest of a parameter's gradient
  std::string gradient;       ///< of which parameter
  double exact_error = 0;     ///< of f64's gradients from those of eager in f64
  std::size_t arena_bytes = 0;
  std::size_t lower_bound_bytes = 0;
  double seconds = 0;
};

struct CheckOptions {
  models::Scale scale = models::Scale::small;
  int threads = 1;                ///< of a planned step on the CPU, and of all that it is held to
  Target planned = cpu_replay();  ///< whose step: this, or `cuda_graph`; its products are IEEE f32
  int before = 9;                 ///< steps that are replayed before the one that is checked
  NodeErrors::Plant plant = {};   ///< a wrong kernel, for tests
  std::function<void(std::string_view)> progress = [](std::string_view) {};
};

/// Runs one step of a model, kernel by kernel, and finds wrong:
/// - a node that is not what f64 makes of its operands (NodeErrors);
/// - a decision that differs from f64's own, where f64's earlier ones are the step's, if the
///   element that decides differs by more than `kFarthest` times what rounding moves all of them;
/// - operands of deciding nodes that are farther than `kForward` of their length from f64's;
/// - a gradient that is farther from that of f64 with the step's decisions than `kGradient` of the
///   larger of its length and 1e-3 of that of all gradients, and than `kTimesLost` times what
///   libtorch's f32 loses in its last op alone (a sum that cancels, before a batch norm);
/// - a gradient of f64 with its own decisions that is not eager's in f64, to 1e-9 of the largest;
/// - a loss that is not eager's, to 1e-5;
/// - a storage or readable that a replay leaves with other bits than the kernels one by one;
/// and, of a step on the CPU,
/// - an arena above `kArena` of its lower bound;
/// - a replayed step that makes a tensor, or leaves more memory in use.
/// Kernels are those of the tuning file, else of the fixed rule. A device runs its kernels alone:
/// it shows its step before nodes are joined to groups, and the replay, with groups, is held to the
/// bits of that. The numbers that both are held to are computed on the CPU.
Check check_model(const models::ModelEntry& entry, const CheckOptions& options);

constexpr double kFarthest = 64, kForward = 1e-5, kGradient = 2e-5, kTimesLost = 4, kArena = 1.01;

}  // namespace metronome::benchmarks
