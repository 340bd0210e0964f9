// Softmax and its logarithm.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/ir/op.h"
#include "graph/ir/type.h"
#include "ops/rules/rules.h"

namespace metronome {

/// exp(x - max) / sum(exp(x - max)) along an axis; with `log` its logarithm.
struct Softmax {
  static constexpr std::string_view name = "softmax";
  std::int64_t axis = -1;
  bool log = false;

  bool operator==(const Softmax&) const = default;
  std::string attributes() const;
  Types infer(std::span<const Type> in) const;
  Values vjp(const Vjp& v) const;
  std::vector<InPlace> in_place() const { return {{0, 0}}; }
  std::optional<Fusion> fusion(std::span<const Type>) const {
    return Fusion{Fusion::Kind::reduction, {0}, {0}};
  }
  static std::vector<Case> cases();
};

METRONOME_RULES(Softmax);
METRONOME_CANDIDATES(Softmax);

/// Operands: gradient and the softmax's result y. y (g - sum(g y)), or g - exp(y) sum(g) with
/// `log`.
struct SoftmaxGrad {
  static constexpr std::string_view name = "softmax_grad";
  static constexpr bool differentiable = false;
  std::int64_t axis = -1;
  bool log = false;

  bool operator==(const SoftmaxGrad&) const = default;
  std::string attributes() const;
  Types infer(std::span<const Type> in) const;
  std::vector<InPlace> in_place() const { return {{0, 0}, {0, 1}}; }
  std::optional<Fusion> fusion(std::span<const Type>) const {
    return Fusion{Fusion::Kind::reduction, {0, 1}, {0}};
  }
  static std::vector<Case> cases();
};

METRONOME_RULES(SoftmaxGrad);
METRONOME_CANDIDATES(SoftmaxGrad);

/// Operands: the gradient [...] of one element of each row, its index [...], and the logarithms
/// y [..., size]; result [..., size]: `SoftmaxGrad` with `log` of a `PickGrad`, of the same bits,
/// without the rows of zeros that `PickGrad` makes. So the gradient of a cross entropy takes the
/// bytes of y.
struct PickedSoftmaxGrad {
  static constexpr std::string_view name = "picked_softmax_grad";
  static constexpr bool differentiable = false;
  std::optional<std::int64_t> ignored = {};

  bool operator==(const PickedSoftmaxGrad&) const = default;
  std::string attributes() const;
  Types infer(std::span<const Type> in) const;
  std::vector<InPlace> in_place() const { return {{0, 2}}; }
  static std::vector<Case> cases();
};

METRONOME_RULES(PickedSoftmaxGrad);
METRONOME_CANDIDATES(PickedSoftmaxGrad);

}  // namespace metronome
