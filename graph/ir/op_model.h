// Erases an op's struct.
#pragma once

#include "graph/ir/error.h"
#include "graph/ir/op.h"
#include "graph/ir/value.h"
#include "graph/rules/all.h"

// Members that class Op asks an op's struct for; all but `infer` are optional.
METRONOME_MEMBER(infer, Types, (std::span<const Type>))
METRONOME_MEMBER(attributes, std::string, ())
METRONOME_MEMBER(in_place, std::vector<InPlace>, ())
METRONOME_MEMBER(moves, bool, ())
METRONOME_MEMBER(flops, double, (std::span<const Type>, std::span<const Type>))
METRONOME_MEMBER(count_saved, int, ())
METRONOME_CONSTANT(saved, int)
METRONOME_CONSTANT(effects, bool)

namespace metronome {

namespace op_rules {

/// True where each rule that T names is declared as it must be; else an error that says how.
template <class T>
consteval bool right() {
  return right_infer<T>() && right_attributes<T>() && right_in_place<T>() && right_moves<T>() &&
         right_flops<T>() && right_count_saved<T>() && right_saved<T>() && right_effects<T>() &&
         AllRules::template right<T>();
}

}  // namespace op_rules

template <OpRules T>
class OpModel final : public Op {
  static_assert(op_rules::right<T>());
  static_assert(op_rules::has_infer<T>, "an op needs: Types infer(std::span<const Type>) const");
  static_assert(op_rules::has_vjp<T> || op_rules::has_lower<T> || op_rules::has_differentiable<T>,
                "an op needs a gradient: Values vjp(const Vjp&) const, or "
                "Values lower(std::span<const Value>) const, or "
                "static constexpr bool differentiable = false");

 public:
  explicit OpModel(T op) : op_(std::move(op)) {}

  std::string_view name() const override { return op_.name; }
  std::type_index kind() const override { return typeid(T); }
  const void* rules() const override { return &op_; }
  bool equals(const Op& other) const override {
    const T* same = other.as<T>();
    return same != nullptr && *same == op_;
  }
  std::string attributes() const override {
    if constexpr (op_rules::has_attributes<T>) return op_.attributes();
    return "";
  }
  Types infer(std::span<const Type> inputs) const override {
    const bool halves = takes_halves();
    if (!halves) require_no_half(name(), inputs);
    Types results = op_.infer(inputs);
    if (!halves) require_no_half(name(), results);
    return results;
  }
  int saved() const override {
    if constexpr (op_rules::has_saved<T>) {
      return T::saved;
    } else if constexpr (op_rules::has_count_saved<T>) {  // as its attributes say
      return op_.count_saved();
    } else {
      return 0;
    }
  }
  std::vector<InPlace> in_place() const override {
    if constexpr (op_rules::has_in_place<T>) return op_.in_place();
    return {};
  }
  bool effects() const override {
    if constexpr (op_rules::has_effects<T>) return T::effects;
    return false;
  }
  bool moves() const override {
    if constexpr (op_rules::has_moves<T>) return op_.moves();
    return false;
  }
  double flops(std::span<const Type> inputs, std::span<const Type> outputs) const override {
    if constexpr (op_rules::has_flops<T>) {
      return op_.flops(inputs, outputs);
    } else {
      return moves() ? 0 : flops_of_elements(inputs, outputs);
    }
  }
  RuleFunction rule(RuleId id) const override { return AllRules::template find<T>(id); }

 private:
  bool takes_halves() const {
    if constexpr (op_rules::has_halves<T>) return op_.halves();
    return moves();
  }

  T op_;
};

template <OpRules T>
OpPtr make_op(T op) {
  return std::make_shared<OpModel<T>>(std::move(op));
}

}  // namespace metronome
