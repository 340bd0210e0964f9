// A group as its kernel on a CPU sees it: what each member computes, without its op.
#pragma once

#include <cstdint>
#include <vector>

#include "graph/compounds/group.h"
#include "graph/ir/type.h"
#include "ops/expr/function.h"
#include "ops/rules/rules.h"

namespace metronome {

struct StripProgram {
  struct Member {
    enum class Kind : std::uint8_t { map, accumulate, expand, fill, slice, concat };
    Kind kind = Kind::map;
    Function function = Function::add;  ///< map
    double a = 0;                       ///< map: the op's number; fill: its number
    double b = 0;                       ///< map: the op's number
    std::int64_t axis = 0;              ///< slice, concat
    std::int64_t begin = 0;             ///< slice
    std::vector<Group::Source> inputs;
    Type type;            ///< of its one output
    Element reads = f32;  ///< map: the element of its last operand
  };

  Shape domain;
  Types inputs;                        ///< one per operand
  std::vector<Member> members;         ///< each after those that it reads
  std::vector<Group::Source> outputs;  ///< of members

  const Type& type(const Group::Source& source) const {
    return source.member < 0 ? inputs[static_cast<std::size_t>(source.index)]
                             : members[static_cast<std::size_t>(source.member)].type;
  }
};

/// Throws InternalError for members that `joins_cpu_group` refuses.
StripProgram strip_program(const Group& group);

namespace avx2 {
CpuKernel bind(const StripProgram& program, const CpuLaunch& launch);
}
namespace avx512 {
CpuKernel bind(const StripProgram& program, const CpuLaunch& launch);
}
namespace portable {
CpuKernel bind(const StripProgram& program, const CpuLaunch& launch);
}

}  // namespace metronome
