// Each kernel of a step against f64, on the step's own operands.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "executor/engine/observer.h"

namespace metronome::benchmarks {

/// How far one kind of node is from f64, at worst: lengths of differences over the length of the
/// result in f64.
struct NodeError {
  std::string node;     ///< `convolution "repeat/2/conv2d"`, the one that was worst
  double planned = 0;   ///< of the step's kernel
  double libtorch = 0;  ///< of libtorch's f32 on the same operands
  int nodes = 0;        ///< of this kind
};

/// Looks at each node of a step that has results to judge:
/// - floating results: their distance from libtorch's f64 result, on the same operands, is at most
///   `kTimesLibtorch` times that of libtorch's f32 result, or `kRounding` of the length, whichever
///   is more; the same of the largest element that differs, so that one wrong element is seen. If a
///   sum cancels, 2.5e-7 of the sum of magnitudes are allowed too, if that is more;
/// - whole numbers and booleans, those saved for gradients included, are equal to those of f64: on
///   the same operands nothing rounds before the decision.
/// The kernel's own f64 form gives the results that libtorch has no call for, and those that are
/// saved.
class NodeErrors final : public Observer {
 public:
  static constexpr double kTimesLibtorch = 2, kRounding = 1e-6;

  /// `plant`: changes a result before it is looked at, as a wrong kernel would.
  using Plant = std::function<void(const ObservedNode&)>;
  explicit NodeErrors(int threads, Plant plant = {})
      : threads_(threads), plant_(std::move(plant)) {}

  void after(const ObservedNode& seen) override;

  /// The first few that are wrong, a line each.
  const std::vector<std::string>& wrong() const { return wrong_; }
  /// By the op's name.
  const std::map<std::string, NodeError>& worst() const { return worst_; }
  /// [node] The length of what libtorch's f32 loses in its first result: rounding that no kernel is
  /// spared.
  const std::map<std::int32_t, double>& lost() const { return lost_; }

 private:
  void judge(const ObservedNode& seen);

  int threads_;
  Plant plant_;
  std::vector<std::string> wrong_;
  std::map<std::string, NodeError> worst_;
  std::map<std::int32_t, double> lost_;
};

}  // namespace metronome::benchmarks
