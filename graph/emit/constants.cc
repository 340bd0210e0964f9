// Numbers as values.
#include <fmt/format.h>

#include <cstring>

#include "graph/emit/emitter.h"
#include "graph/emit/scope.h"
#include "graph/ir/error.h"
#include "graph/ir/half.h"
#include "graph/ir/op_model.h"
#include "graph/ir/structural.h"

namespace metronome {
namespace {

/// Returns the requirement that `numbers` do not meet as elements of a constant of `type`, if any.
std::optional<Requirement> wrong_constant(std::span<const double> numbers, const Type& type) {
  if (auto wrong = wrong_type(type)) return wrong;
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    if (holds(type.element, numbers[i])) continue;
    const std::string which = numbers.size() > 1 ? fmt::format(", which is number {}", i) : "";
    return Requirement{fmt::format("{}, but {}{}", what_holds(type.element), numbers[i], which)};
  }
  return std::nullopt;
}

template <class T>
std::vector<std::byte> pack_numbers(const std::vector<double>& numbers) {
  std::vector<std::byte> bytes(numbers.size() * sizeof(T));
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const T element = static_cast<T>(numbers[i]);
    std::memcpy(bytes.data() + i * sizeof(T), &element, sizeof(T));
  }
  return bytes;
}

std::vector<std::byte> pack_numbers(const std::vector<double>& numbers, Element element) {
  switch (element) {
    case f32:
      return pack_numbers<float>(numbers);
    case f64:
      return pack_numbers<double>(numbers);
    case i32:
      return pack_numbers<std::int32_t>(numbers);
    case i64:
      return pack_numbers<std::int64_t>(numbers);
    case bool_:
      return pack_numbers<bool>(numbers);
    case bf16:
      return pack_numbers<BFloat16>(numbers);
    case f16:
      return pack_numbers<Float16>(numbers);
  }
  throw InternalError("an element type out of range");
}

Value place(Emitter& emitter, OpPtr op, Line line) {
  Scope& scope = emitter.scopes.back();
  return emitter.source(std::move(op), join_path(scope.nodes, unique_name(scope, "constant")),
                        line);
}

}  // namespace

Value make_constant(Emitter* emitter, double number, Type type, Line line) {
  if (const auto wrong = wrong_constant({&number, 1}, type)) {
    return mistake(emitter, line, "constant cannot be made", {}, *wrong);
  }
  return place(*emitter, make_op(Fill{number, std::move(type)}), line);
}

Value make_constant(Emitter* emitter, const std::vector<double>& numbers, Type type, Line line) {
  const auto refuse = [&](const Requirement& requirement) {
    return mistake(emitter, line, "constant cannot be made", {}, requirement);
  };
  if (const auto wrong = wrong_constant(numbers, type)) return refuse(*wrong);
  if (static_cast<std::int64_t>(numbers.size()) != type.numel()) {
    return refuse(
        {fmt::format("{} numbers for {}, but {}", type.numel(), to_string(type), numbers.size())});
  }
  return place(*emitter, make_op(Constant{pack_numbers(numbers, type.element), type}), line);
}

}  // namespace metronome
