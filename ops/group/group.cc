#include "ops/group/group.h"

#include <utility>

#include "graph/ir/error.h"
#include "graph/ir/structural.h"
#include "ops/concat/concat.h"
#include "ops/elementwise/elementwise.h"
#include "ops/expand/expand.h"
#include "ops/group/strip_program.h"
#include "ops/slice/slice.h"

namespace metronome {

bool joins_cpu_group(const Op& op) {
  return op.as<Elementwise>() != nullptr || op.as<Accumulate>() != nullptr ||
         op.as<Expand>() != nullptr || op.as<Fill>() != nullptr || op.as<Slice>() != nullptr ||
         op.as<Concat>() != nullptr;
}

StripProgram strip_program(const Group& group) {
  using Kind = StripProgram::Member::Kind;
  StripProgram program{
      .domain = group.domain, .inputs = group.inputs, .members = {}, .outputs = group.outputs};
  for (const Group::Member& member : group.members) {
    StripProgram::Member made{.inputs = member.inputs, .type = member.types[0]};
    if (const auto* map = member.op->as<Elementwise>()) {
      made.function = map->function, made.a = map->a, made.b = map->b;
      made.reads = group.types_read_by(member).back().element;
    } else if (const auto* fill = member.op->as<Fill>()) {
      made.kind = Kind::fill, made.a = fill->number;
    } else if (member.op->as<Slice>() != nullptr) {
      const Fusion fusion = group.fusion_of(member);
      made.kind = Kind::slice, made.axis = fusion.axis, made.begin = fusion.begin;
    } else if (member.op->as<Concat>() != nullptr) {
      made.kind = Kind::concat, made.axis = group.fusion_of(member).axis;
    } else if (member.op->as<Accumulate>() != nullptr) {
      made.kind = Kind::accumulate;
    } else if (member.op->as<Expand>() != nullptr) {
      made.kind = Kind::expand;
    } else {
      throw InternalError("a group on a CPU with a member that it has no row function for");
    }
    program.members.push_back(std::move(made));
  }
  return program;
}

}  // namespace metronome
