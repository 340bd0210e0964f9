// Several ops as one node: how the pass `fuse` hands a target more work at once. Kernels lie in
// ops/.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "graph/ir/op.h"
#include "graph/rules/fusion.h"

namespace metronome {

/// Ops computed in one pass over the elements of one shape, the domain: maps, at most one reduction
/// that walks over it, slices of operands, and concats of what has its shape. Values that only
/// members read take no memory.
struct Group {
  static constexpr std::string_view name = "group";
  static constexpr bool differentiable = false;

  /// An operand of the group (member < 0), or output `index` of an earlier member.
  struct Source {
    int member = -1;
    int index = 0;
    bool operator==(const Source&) const = default;
  };
  struct Member {
    OpPtr op;
    std::vector<Source> inputs;
    Types types;  ///< one per output of the op
    bool operator==(const Member& other) const;
  };

  Shape domain;
  Types inputs;                 ///< one per operand
  std::vector<Member> members;  ///< each after those that it reads
  std::vector<Source> outputs;  ///< what leaves the group; always of members

  bool operator==(const Group&) const = default;
  bool halves() const { return true; }  ///< its members refuse what they have no kernel for
  std::string attributes() const;       ///< "add gelu layer_norm(eps=1e-05)"; constants left out
  /// Checks the members one by one, and that they form a group.
  Types infer(std::span<const Type> in) const;
  double flops(std::span<const Type> in, std::span<const Type> out) const;  ///< of all members
  /// Outputs over operands of their type that are read at the output's own place alone. Beside a
  /// reduction only what is made after it, over what the reduction itself may be written over:
  /// the operands that it walks over may be read again until then.
  std::vector<InPlace> in_place() const;

  std::string names() const;  ///< "add gelu layer_norm"
  const Type& type(const Source& source) const;
  Types types_read_by(const Member& member) const;
  /// The member that reduces, or -1.
  int reduction() const;
  Fusion fusion_of(const Member& member) const;
  /// [member] whether it reads a result of the reduction, directly or not.
  std::vector<bool> after_reduction() const;
};

}  // namespace metronome
