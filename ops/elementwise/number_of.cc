#include "ops/elementwise/number_of.h"

#include <cstring>

#include "graph/ir/structural.h"
#include "ops/expand/expand.h"
#include "ops/rules/by_element.h"

namespace metronome {
namespace {

template <class T>
double first_element(const Constant& constant) {
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
  return with_element(constant->type.element,
                      [&](auto element) { return first_element<decltype(element)>(*constant); });
}

}  // namespace metronome
