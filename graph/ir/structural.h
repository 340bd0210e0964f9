// The structural ops: what a graph needs before any library of ops. Their kernels lie in ops/.
//
//   sources      Input, Read, Fill, Constant
//   gradients    Accumulate joins them, StopGradient ends them
//   moves        Copy, Pack, Unpack, Relayout: passes make them, to place bytes
//   training     Increment, IsMultiple, IsFinite, MeanWeight, AverageWeight, AverageUpdate
//   stand-ins    GradientOf, OfUpdate, AfterUpdate, UpdatesOf: for numbers that training makes
//                later; ReadUpdated
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "graph/ir/node.h"
#include "graph/ir/op.h"
#include "graph/ir/type.h"
#include "graph/rules/alias.h"
#include "graph/rules/fusion.h"
#include "graph/rules/inside.h"
#include "graph/rules/lay_out.h"

namespace metronome {

/// A tensor that is fed. No kernel: its bytes are the executable's input memory.
struct Input {
  static constexpr std::string_view name = "input";
  static constexpr bool differentiable = false;
  std::string input;  ///< the input's name
  Type type;
  bool operator==(const Input&) const = default;
  bool halves() const { return true; }
  std::string attributes() const;
  Types infer(std::span<const Type> in) const;
};

/// A storage's old value. No kernel: its bytes are the storage's.
struct Read {
  static constexpr std::string_view name = "read";
  static constexpr bool differentiable = false;
  StorageId storage;
  Type type;
  bool operator==(const Read&) const = default;
  bool halves() const { return true; }
  std::string attributes() const;
  Types infer(std::span<const Type> in) const;
};

/// A parameter's value after the update of the objective that trains it, in a declared graph: what
/// reads a parameter behind that `minimize`. `update` replaces it; where nothing is trained it is
/// the stored value. No gradient flows through it. No kernel.
struct ReadUpdated {
  static constexpr std::string_view name = "read_updated";
  static constexpr bool differentiable = false;
  StorageId storage;
  Type type;
  bool operator==(const ReadUpdated&) const = default;
  std::string attributes() const;
  Types infer(std::span<const Type> in) const;
};

/// Every element the same number.
struct Fill {
  static constexpr std::string_view name = "fill";
  static constexpr bool differentiable = false;
  double number = 0;
  Type type;
  bool operator==(const Fill&) const = default;
  bool halves() const { return true; }
  double flops(std::span<const Type>, std::span<const Type>) const { return 0; }
  std::string attributes() const;
  Types infer(std::span<const Type> in) const;
};

/// Row-major bytes known when the graph is built.
struct Constant {
  static constexpr std::string_view name = "constant";
  static constexpr bool differentiable = false;
  std::vector<std::byte> bytes;
  Type type;
  bool operator==(const Constant&) const = default;
  bool halves() const { return true; }
  double flops(std::span<const Type>, std::span<const Type>) const { return 0; }
  std::string attributes() const;
  Types infer(std::span<const Type> in) const;
};

/// sum + contribution, of equal floating types: how differentiate joins gradients. Elements of two
/// bytes are added in f32, and the sum is rounded.
struct Accumulate {
  static constexpr std::string_view name = "accumulate";
  static constexpr bool differentiable = false;
  bool operator==(const Accumulate&) const = default;
  bool halves() const { return true; }
  Types infer(std::span<const Type> in) const;
  std::vector<InPlace> in_place() const { return {{0, 0}}; }
  std::optional<Fusion> fusion(std::span<const Type>) const { return Fusion{}; }
};

/// An i64 counter plus one.
struct Increment {
  static constexpr std::string_view name = "increment";
  static constexpr bool differentiable = false;
  bool operator==(const Increment&) const = default;
  Types infer(std::span<const Type> in) const;
  std::vector<InPlace> in_place() const { return {{0, 0}}; }
  std::optional<Fusion> fusion(std::span<const Type>) const { return Fusion{}; }
};

/// True where an i64 counter is a multiple of `of`, bool[].
struct IsMultiple {
  static constexpr std::string_view name = "is_multiple";
  static constexpr bool differentiable = false;
  std::int64_t of = 1;  ///< 1 or more
  bool operator==(const IsMultiple&) const = default;
  std::string attributes() const;
  Types infer(std::span<const Type> in) const;
};

/// True where a scalar of f32 or f64 is neither infinite nor NaN, bool[].
struct IsFinite {
  static constexpr std::string_view name = "is_finite";
  static constexpr bool differentiable = false;
  bool operator==(const IsFinite&) const = default;
  Types infer(std::span<const Type> in) const;
};

/// Part of a new term in a weighted mean of terms that come one after the other, and the weight of
/// them all with it: weight / (weight + before), or 0 of two zeros, and weight + before; f64[]
/// each. Operands: weight f32[] or f64[], before f64[].
struct MeanWeight {
  static constexpr std::string_view name = "mean_weight";
  static constexpr bool differentiable = false;
  bool operator==(const MeanWeight&) const = default;
  Types infer(std::span<const Type> in) const;
};

/// Copies bytes to a place of their own: for a readable or assigned value that would otherwise be
/// an input's or a storage's memory.
struct Copy {
  static constexpr std::string_view name = "copy";
  static constexpr bool differentiable = false;
  bool operator==(const Copy&) const = default;
  bool moves() const { return true; }
  Types infer(std::span<const Type> in) const;
  std::optional<Fusion> fusion(std::span<const Type>) const { return Fusion{}; }
};

/// The elements of all operands, of one element type, as one vector: each operand begins at a
/// multiple of `alignment` bytes, behind the one before it, and the vector ends at one; what lies
/// between is zero. Operands may be made there. Nodes that communicate or update many small tensors
/// at once read it whole.
struct Pack {
  static constexpr std::string_view name = "pack";
  static constexpr bool differentiable = false;
  std::size_t alignment = 64;  ///< bytes; a multiple of 8
  bool operator==(const Pack&) const = default;
  bool moves() const { return true; }
  std::string attributes() const;
  Types infer(std::span<const Type> in) const;
  std::vector<Inside> inside(std::span<const Type> in) const;
};

/// A tensor of `shape` from element `begin` of a vector on. A view.
struct Unpack {
  static constexpr std::string_view name = "unpack";
  static constexpr bool differentiable = false;
  std::int64_t begin = 0;
  Shape shape;
  bool operator==(const Unpack&) const = default;
  bool moves() const { return true; }
  std::string attributes() const;
  Types infer(std::span<const Type> in) const;
  std::optional<Alias> alias(std::span<const Type> in) const {
    return Alias{0, 0, static_cast<std::size_t>(begin) * size_of(in[0].element)};
  }
};

/// A tensor of `shape` stored in the layout `to`, from one stored in `from`; what fills up the last
/// block is zero. A view where no element moves.
struct Relayout {
  static constexpr std::string_view name = "relayout";
  static constexpr bool differentiable = false;
  Shape shape;
  Layout from;
  Layout to;
  bool operator==(const Relayout&) const = default;
  bool moves() const { return true; }
  std::string attributes() const;
  Types infer(std::span<const Type> in) const;
  std::optional<Alias> alias(std::span<const Type> in) const;
};

/// Its input, through which no gradient flows. A view.
struct StopGradient {
  static constexpr std::string_view name = "stop_gradient";
  static constexpr bool differentiable = false;
  bool operator==(const StopGradient&) const = default;
  bool moves() const { return true; }
  Types infer(std::span<const Type> in) const;
  std::optional<Alias> alias(std::span<const Type>) const { return Alias{}; }
};

/// The objective that a stand-in is of, if the graph has no other.
inline constexpr std::int32_t kOnlyObjective = -1;

/// Stands in a declared graph for the gradient of an objective's loss with respect to its input.
/// differentiate gives it that gradient as its operand, update leaves it out. No kernel.
struct GradientOf {
  static constexpr std::string_view name = "gradient_of";
  static constexpr bool differentiable = false;
  std::int32_t objective = kOnlyObjective;
  bool operator==(const GradientOf&) const = default;
  bool halves() const { return true; }
  std::string attributes() const;
  Types infer(std::span<const Type> in) const;
};

/// A number that the update of a training step makes.
enum class UpdateNumber : std::uint8_t { learning_rate, gradient_norm, clipped_gradient_norm };
std::string_view name_of(UpdateNumber number);

/// Stands in a declared graph for such a number, f64[]; `update` makes it. No kernel.
struct OfUpdate {
  static constexpr std::string_view name = "of_update";
  static constexpr bool differentiable = false;

  UpdateNumber number = UpdateNumber::learning_rate;
  std::int32_t objective = kOnlyObjective;
  bool operator==(const OfUpdate&) const = default;
  std::string attributes() const;
  Types infer(std::span<const Type> in) const;
};

/// Stands in a declared graph for what a storage holds after the update of the step; `update`
/// replaces it. No kernel.
struct AfterUpdate {
  static constexpr std::string_view name = "after_update";
  static constexpr bool differentiable = false;
  StorageId storage;
  Type type;
  bool operator==(const AfterUpdate&) const = default;
  std::string attributes() const;
  Types infer(std::span<const Type> in) const;
};

/// Stands in a declared graph for the number of updates, before this step's, of the objective that
/// trains a parameter, i64[]; of a parameter that none trains, for the counter `update`. `update`
/// replaces it. No kernel.
struct UpdatesOf {
  static constexpr std::string_view name = "updates_of";
  static constexpr bool differentiable = false;
  StorageId parameter;
  bool operator==(const UpdatesOf&) const = default;
  std::string attributes() const;
  Types infer(std::span<const Type> in) const;
};

/// How much of a parameter its average takes in the step that follows `update` updates, f64[]:
/// 1 - decay, or, with bias correction, (1 - decay) / (1 - decay^(update + 1)), so that the average
/// is that of the parameter's values alone and not of its own first one (Kingma and Ba, "Adam",
/// 2015, section 3). Operand: the counter `update`, i64[].
struct AverageWeight {
  static constexpr std::string_view name = "average_weight";
  static constexpr bool differentiable = false;
  double decay = 0.999;
  bool bias_correction = true;
  /// The average moves with each so manieth update of what it follows, of which it is the weight.
  std::int64_t every = 1;
  bool operator==(const AverageWeight&) const = default;
  std::string attributes() const;
  Types infer(std::span<const Type> in) const;
};

/// One step of a parameter's average (Polyak and Juditsky, "Acceleration of stochastic
/// approximation by averaging", 1992), as torch.lerp computes it, so that a weight of 1 is a copy:
///
///   a' = a + weight * (param - a)               where weight < 0.5
///   a' = param - (1 - weight) * (param - a)     else
///
/// A weight of 0 leaves a, whatever param holds; one of 1 takes param, whatever a holds.
/// Operands: a, param (equal types, f32 or f64), weight (f64[]).
struct AverageUpdate {
  static constexpr std::string_view name = "average_update";
  static constexpr bool differentiable = false;
  static constexpr bool batches = true;
  bool operator==(const AverageUpdate&) const = default;
  Types infer(std::span<const Type> in) const;
  std::vector<InPlace> in_place() const { return {{0, 0}}; }
  std::optional<LaidOutOp> lay_out(std::span<const Type> in, const Layout& layout) const;
};

/// The number of the objective that GradientOf and OfUpdate are of; absent for other ops.
std::optional<std::size_t> objective_of(const Op& op);

/// True for what stands for numbers that only training makes: GradientOf, OfUpdate, AfterUpdate,
/// UpdatesOf.
bool stands_for_training(const Op& op);

}  // namespace metronome
