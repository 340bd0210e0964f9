// The structural ops of guarded regions. Their kernels lie in ops/.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "graph/ir/op.h"
#include "graph/rules/gradient.h"
#include "graph/rules/guards.h"
#include "graph/rules/indexing.h"

namespace metronome {

/// Whether a region runs: true where the decider's outcome is `when`, one of `cases`, and the
/// parent guard, where there is one, is true. The decider, a boolean, i32 or i64 scalar (clamped to
/// 0 to cases - 1), is read only then. Guards are always computed.
///
/// The decider may itself be a guard.
struct Guard {
  static constexpr std::string_view name = "guard";
  static constexpr bool differentiable = false;
  std::int64_t when = 1;
  std::int64_t cases = 2;
  bool nested = false;  ///< a second input is the parent
  bool operator==(const Guard&) const = default;
  std::string attributes() const;
  Types infer(std::span<const Type> in) const;
  std::vector<Condition> read_if(std::size_t operand) const;
  std::optional<Indexing> indexing(std::span<const Type>) const {
    return Indexing{.operand = 0, .count = cases, .what = "selector"};
  }
};

/// The value of the branch that ran. Inputs are, for each branch, its guard and its value, of one
/// type; then, where `otherwise`, the value where no guard is true; else that is zero. At most one
/// of the guards is true.
struct Merge {
  static constexpr std::string_view name = "merge";
  int branches = 1;
  bool otherwise = true;
  bool operator==(const Merge&) const = default;
  std::string attributes() const;
  Types infer(std::span<const Type> in) const;
  bool moves() const { return true; }
  /// dy for each value; differentiate knows under which guard.
  Values vjp(const Vjp& v) const;
  std::vector<InPlace> in_place() const;
  std::vector<Condition> read_if(std::size_t operand) const;
  int idle_unless(InPlace placed) const;
};

/// sum + contribution where the third input, a boolean scalar, is true; the sum as it was where it
/// is false. Sum and contribution have one floating type.
struct AccumulateIf {
  static constexpr std::string_view name = "accumulate_if";
  static constexpr bool differentiable = false;
  bool operator==(const AccumulateIf&) const = default;
  bool halves() const { return true; }
  Types infer(std::span<const Type> in) const;
  std::vector<InPlace> in_place() const { return {{0, 0}}; }
  std::vector<Condition> read_if(std::size_t operand) const;
  int idle_unless(InPlace placed) const { return placed.input == 0 ? 2 : -1; }
};

}  // namespace metronome
