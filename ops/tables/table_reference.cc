// libtorch's calls of every op, from the one list of ops.
#include "ops/reference/table.h"

#include <fmt/format.h>

#include <concepts>
#include <string>

#include "graph/ir/error.h"
#include "ops/ops.h"

namespace metronome {
namespace {

template <class T>
concept HasReference = requires(const T& op, const Tensors& inputs) {
  { reference(op, inputs) } -> std::same_as<Tensors>;
};

using Reference = Tensors (*)(const Op& op, const Tensors& inputs);

template <HasReference T>
bool is(const Op& op, Reference& found) {
  if (op.as<T>() == nullptr) return false;
  found = [](const Op& same, const Tensors& inputs) { return reference(*same.as<T>(), inputs); };
  return true;
}

template <class... Ops>
bool is_one_of(OpList<Ops...>, const Op& op, Reference& found) {
  return (is<Ops>(op, found) || ...);
}

/// Null for an op that has none.
Reference find(const Op& op, const OwnOps& ops) {
  if (const OwnOp* own = ops.find(op)) return own->reference;
  Reference found = nullptr;
  const bool known = is_one_of(KernelOps(), op, found) || is_one_of(CpuOps(), op, found) ||
                     is_one_of(DeviceOps(), op, found) || is_one_of(ViewOps(), op, found) ||
                     is_one_of(CompositeOps(), op, found) || is<Group>(op, found);
  return known ? found : nullptr;
}

}  // namespace

Tensors reference(const Op& op, const Tensors& inputs, const OwnOps& ops) {
  if (const Reference found = find(op, ops)) return found(op, inputs);
  throw InternalError(fmt::format("{} has no libtorch form", op.name()));
}

void lay_out_kept(const Op& op, const Tensors& operands) {
  if (const auto* layer = op.as<RecurrentSequence>()) recurrent::flatten(*layer, operands);
}

bool has_reference(const Op& op, const OwnOps& ops) { return find(op, ops) != nullptr; }

}  // namespace metronome
