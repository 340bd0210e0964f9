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

template <HasReference T>
bool call(const Op& op, const Tensors& inputs, Tensors& outputs) {
  const T* rules = op.as<T>();
  if (rules == nullptr) return false;
  outputs = reference(*rules, inputs);
  return true;
}

template <class... Ops>
bool call_one_of(OpList<Ops...>, const Op& op, const Tensors& inputs, Tensors& outputs) {
  return (call<Ops>(op, inputs, outputs) || ...);
}

template <class... Ops>
bool holds(OpList<Ops...>, const Op& op) {
  return ((op.as<Ops>() != nullptr) || ...);
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
    default:
      throw RunError(fmt::format("a tensor of {}: element types are f32, f64, i32, i64 and bool",
                                 c10::toString(type)));
  }
}

bool has_reference(const Op& op) {
  return holds(KernelOps(), op) || holds(ViewOps(), op) || holds(CompositeOps(), op) ||
         op.as<Group>() != nullptr;
}

Tensors reference(const Op& op, const Tensors& inputs) {
  Tensors outputs;
  if (call_one_of(KernelOps(), op, inputs, outputs) ||
      call_one_of(ViewOps(), op, inputs, outputs) ||
      call_one_of(CompositeOps(), op, inputs, outputs) || call<Group>(op, inputs, outputs)) {
    return outputs;
  }
  throw InternalError(fmt::format("{} has no libtorch form", op.name()));
}

}  // namespace metronome
