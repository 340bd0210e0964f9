// An op of images over tensors that are stored channels last: how the pass `lay_out` hands it to a
// target that runs it so. Kernels lie in ops/.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/ir/op.h"
#include "graph/ir/type.h"
#include "graph/rules/lay_out.h"

namespace metronome {

/// [N, C, spatial...] stored as [N, spatial..., C], and a convolution's weight [K, C, kernel...] as
/// [K, kernel..., C]. A tensor of fewer dimensions than three is plain.
Layout channels_last(std::size_t rank);

/// `op` on operands and results in that layout. It takes and gives the types of the tensors that
/// store them.
struct ChannelsLast {
  static constexpr std::string_view name = "channels_last";
  static constexpr bool differentiable = false;

  OpPtr op;
  bool operator==(const ChannelsLast& other) const { return op->equals(*other.op); }
  std::string attributes() const;  ///< "convolution, padding=[1, 1]"
  Types infer(std::span<const Type> in) const;
  double flops(std::span<const Type> in, std::span<const Type> out) const;
  std::vector<InPlace> in_place() const { return op->in_place(); }
  int count_saved() const { return op->saved(); }
};

/// The types as the op declares them, of types of tensors that store them channels last; and back.
Types declared_types(std::span<const Type> stored);
Types stored_types(std::span<const Type> declared);

/// The rule `lay_out` of an op that targets run channels last: absent for another layout.
std::optional<LaidOutOp> lay_out_channels_last(const OpPtr& op, std::span<const Type> types,
                                               const Layout& layout);

}  // namespace metronome
