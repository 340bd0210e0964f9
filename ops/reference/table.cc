// libtorch's calls of every op, from the one list of ops.
#include "ops/reference/table.h"

#include <c10/core/ScalarType.h>
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
  const bool known = is_one_of(KernelOps(), op, found) || is_one_of(ViewOps(), op, found) ||
                     is_one_of(CompositeOps(), op, found) || is<Group>(op, found);
  return known ? found : nullptr;
}

}  // namespace

c10::ScalarType to_torch(Element element) {
  switch (element) {
    case f32:
      return c10::kFloat;
    case f64:
      return c10::kDouble;
    case i32:
      return c10::kInt;
    case i64:
      return c10::kLong;
    case bool_:
      return c10::kBool;
    case bf16:
      return c10::kBFloat16;
    case f16:
      return c10::kHalf;
  }
  throw InternalError("an element type out of range");
}

Element from_torch(c10::ScalarType type) {
  switch (type) {
    case c10::kFloat:
      return f32;
    case c10::kDouble:
      return f64;
    case c10::kInt:
      return i32;
    case c10::kLong:
      return i64;
    case c10::kBool:
      return bool_;
    case c10::kBFloat16:
      return bf16;
    case c10::kHalf:
      return f16;
    default:
      throw RunError(
          fmt::format("a tensor of {}: element types are f32, f64, i32, i64, bool, bf16 and f16",
                      c10::toString(type)));
  }
}

Tensors reference(const Op& op, const Tensors& inputs, const OwnOps& ops) {
  if (const Reference found = find(op, ops)) return found(op, inputs);
  throw InternalError(fmt::format("{} has no libtorch form", op.name()));
}

void lay_out_kept(const Op& op, const Tensors& operands) {
  if (const auto* layer = op.as<RecurrentSequence>()) recurrent::flatten(*layer, operands);
}

bool has_reference(const Op& op, const OwnOps& ops) { return find(op, ops) != nullptr; }

}  // namespace metronome
