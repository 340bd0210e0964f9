#include "ops/language/number_of.h"

#include <cstring>

#include "graph/ir/structural.h"
#include "ops/expand/expand.h"

namespace metronome {
namespace {

template <class T>
double first_of(const Constant& constant) {
  T first;
  std::memcpy(&first, constant.bytes.data(), sizeof(T));
  return static_cast<double>(first);
}

}  // namespace

std::optional<double> number_of(const Value& value) {
  if (!value.present() || value.poisoned()) return std::nullopt;
  const Node* node = &value.node();
  if (node->op->as<Expand>() != nullptr) node = &Value(value.emitter(), node->inputs[0]).node();
  if (const Fill* fill = node->op->as<Fill>()) return fill->number;
  const Constant* constant = node->op->as<Constant>();
  if (constant == nullptr || constant->type.numel() != 1) return std::nullopt;
  switch (constant->type.element) {
    case f32:
      return first_of<float>(*constant);
    case f64:
      return first_of<double>(*constant);
    case i32:
      return first_of<std::int32_t>(*constant);
    case i64:
      return first_of<std::int64_t>(*constant);
    case bool_:
      return first_of<std::uint8_t>(*constant);
  }
  return std::nullopt;
}

}  // namespace metronome
