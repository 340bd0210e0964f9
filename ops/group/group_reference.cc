#include <ATen/core/Tensor.h>
#include <fmt/format.h>

#include "graph/ir/error.h"
#include "ops/group/group.h"
#include "ops/reference/table.h"

namespace metronome {

Tensors reference(const Group& group, const Tensors& inputs) {
  std::vector<Tensors> made;
  const auto value = [&](const Group::Source& source) -> const at::Tensor& {
    if (source.member < 0) return inputs[source.index];
    const Tensors& results = made[source.member];
    if (static_cast<std::size_t>(source.index) >= results.size()) {
      throw InternalError(fmt::format("libtorch does not give output {} of {}", source.index,
                                      group.members[source.member].op->name()));
    }
    return results[source.index];
  };
  for (const Group::Member& member : group.members) {
    Tensors operands;
    for (const Group::Source& source : member.inputs) operands.push_back(value(source));
    made.push_back(reference(*member.op, operands));
  }
  Tensors outputs;
  for (const Group::Source& source : group.outputs) outputs.push_back(value(source));
  return outputs;
}

}  // namespace metronome
