// Erases an op's struct.
#pragma once

#include "graph/ir/error.h"
#include "graph/ir/op.h"
#include "graph/ir/op_rules.h"
#include "graph/ir/value.h"

namespace metronome {

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
    if (!halves()) require_no_half(name(), inputs);
    Types results = op_.infer(inputs);
    if (!halves()) require_no_half(name(), results);
    return results;
  }
  bool halves() const override {
    if constexpr (op_rules::has_halves<T>) return op_.halves();
    return moves();
  }
  void require_training(std::span<const Type> inputs) const override {
    if constexpr (op_rules::has_require_training<T>) op_.require_training(inputs);
  }
  int saved() const override {
    if constexpr (op_rules::has_saved<T>) return T::saved;
    return 0;
  }
  bool has_vjp() const override { return op_rules::has_vjp<T>; }
  Values vjp(const Vjp& v) const override {
    if constexpr (op_rules::has_vjp<T>) return op_.vjp(v);
    throw InternalError(std::string(name()) + " has no vjp");
  }
  bool has_lower() const override { return op_rules::has_lower<T>; }
  Values lower(std::span<const Value> inputs) const override {
    if constexpr (op_rules::has_lower<T>) return op_.lower(inputs);
    throw InternalError(std::string(name()) + " is not a composite");
  }
  double flops(std::span<const Type> inputs, std::span<const Type> outputs) const override {
    if constexpr (op_rules::has_flops<T>) {
      return op_.flops(inputs, outputs);
    } else {
      return moves() ? 0 : flops_of_elements(inputs, outputs);
    }
  }
  std::optional<Alias> alias(std::span<const Type> inputs) const override {
    if constexpr (op_rules::has_alias<T>) return op_.alias(inputs);
    return std::nullopt;
  }
  bool has_alias() const override { return op_rules::has_alias<T>; }
  std::vector<InPlace> in_place() const override {
    if constexpr (op_rules::has_in_place<T>) return op_.in_place();
    return {};
  }
  std::optional<LaidOutOp> laid_out(std::span<const Type> inputs,
                                    const Layout& layout) const override {
    if constexpr (op_rules::has_laid_out<T>) return op_.laid_out(inputs, layout);
    return std::nullopt;
  }
  bool has_laid_out() const override { return op_rules::has_laid_out<T>; }
  std::vector<Inside> inside(std::span<const Type> inputs) const override {
    if constexpr (op_rules::has_inside<T>) return op_.inside(inputs);
    return {};
  }
  bool has_inside() const override { return op_rules::has_inside<T>; }
  std::vector<Condition> read_if(std::size_t operand) const override {
    if constexpr (op_rules::has_read_if<T>) return op_.read_if(operand);
    return {};
  }
  int idle_unless(InPlace placed) const override {
    if constexpr (op_rules::has_idle_unless<T>) return op_.idle_unless(placed);
    return -1;
  }
  std::optional<Indexing> indexing(std::span<const Type> inputs) const override {
    if constexpr (op_rules::has_indexing<T>) return op_.indexing(inputs);
    return std::nullopt;
  }
  OpPtr on_rank(std::span<const Type> inputs, int rank) const override {
    if constexpr (op_rules::has_on_rank<T>) return op_.on_rank(inputs, rank);
    return nullptr;
  }
  bool moves() const override {
    if constexpr (op_rules::has_moves<T>) return op_.moves();
    return false;
  }
  Values evaluate(std::span<const Value> inputs) const override {
    if constexpr (op_rules::has_evaluate<T>) return op_.evaluate(inputs);
    return {};
  }
  Value fold(std::span<const Value> inputs) const override {
    if constexpr (op_rules::has_fold<T>) return op_.fold(inputs);
    return {};
  }
  std::optional<Fusion> fusion(std::span<const Type> inputs) const override {
    if constexpr (op_rules::has_fusion<T>) return op_.fusion(inputs);
    return std::nullopt;
  }
  Value loosen(std::span<const Value> inputs) const override {
    if constexpr (op_rules::has_loosen<T>) return op_.loosen(inputs);
    return {};
  }
  Value gathered(std::span<const Addend> addends) const override {
    if constexpr (op_rules::has_gathered<T>) return op_.gathered(addends);
    return {};
  }
  bool gathers_with(const Op& other) const override {
    if constexpr (op_rules::has_gathers_with<T>) return op_.gathers_with(other);
    return op_rules::has_gathered<T> && equals(other);
  }
  OpPtr absorb(const Op& consumer, std::size_t operand) const override {
    if constexpr (op_rules::has_absorb<T>) return op_.absorb(consumer, operand);
    return nullptr;
  }
  bool effects() const override {
    if constexpr (op_rules::has_effects<T>) return T::effects;
    return false;
  }
  bool prompt() const override {
    if constexpr (op_rules::has_prompt<T>) return T::prompt;
    return false;
  }
  bool batches() const override {
    if constexpr (op_rules::has_batches<T>) return T::batches;
    return false;
  }
  OpPtr with_key(std::uint64_t key) const override {
    if constexpr (requires(T t) { t.key = key; }) {
      T keyed = op_;
      if (keyed.key == 0) keyed.key = key;
      return std::make_shared<OpModel>(std::move(keyed));
    }
    return nullptr;
  }
  std::optional<std::uint64_t> key() const override {
    if constexpr (requires { op_.key; }) return op_.key;
    return std::nullopt;
  }

 private:
  T op_;
};

template <OpRules T>
OpPtr make_op(T op) {
  return std::make_shared<OpModel<T>>(std::move(op));
}

}  // namespace metronome
