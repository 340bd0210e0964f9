// Erases an op's struct.
#pragma once

#include "graph/ir/error.h"
#include "graph/ir/op.h"
#include "graph/ir/value.h"

namespace metronome {

template <OpRules T>
class OpModel final : public Op {
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
    if constexpr (requires { op_.attributes(); }) return op_.attributes();
    return "";
  }
  Types infer(std::span<const Type> inputs) const override { return op_.infer(inputs); }
  void require_training(std::span<const Type> inputs) const override {
    if constexpr (requires { op_.require_training(inputs); }) op_.require_training(inputs);
  }
  int saved() const override {
    if constexpr (requires { T::saved; }) return T::saved;
    return 0;
  }
  Gradient gradient() const override {
    if constexpr (HasVjp<T>) return Gradient::vjp;
    if constexpr (HasLower<T>) return Gradient::lower;
    return Gradient::none;
  }
  Values vjp(const Vjp& v) const override {
    if constexpr (HasVjp<T>) return op_.vjp(v);
    throw InternalError(std::string(name()) + " has no vjp");
  }
  Values lower(std::span<const Value> inputs) const override {
    if constexpr (HasLower<T>) return op_.lower(inputs);
    throw InternalError(std::string(name()) + " is not a composite");
  }
  std::optional<Alias> alias(std::span<const Type> inputs) const override {
    if constexpr (requires { op_.alias(inputs); }) return op_.alias(inputs);
    return std::nullopt;
  }
  std::vector<InPlace> in_place() const override {
    if constexpr (requires { op_.in_place(); }) return op_.in_place();
    return {};
  }
  std::vector<Condition> read_if(std::size_t operand) const override {
    if constexpr (requires { op_.read_if(operand); }) return op_.read_if(operand);
    return {};
  }
  int idle_unless(InPlace placed) const override {
    if constexpr (requires { op_.idle_unless(placed); }) return op_.idle_unless(placed);
    return -1;
  }
  std::optional<Indexing> indexing(std::span<const Type> inputs) const override {
    if constexpr (requires { op_.indexing(inputs); }) return op_.indexing(inputs);
    return std::nullopt;
  }
  bool moves() const override {
    if constexpr (requires { op_.moves(); }) return op_.moves();
    return false;
  }
  Values evaluate(std::span<const Value> inputs) const override {
    if constexpr (requires { op_.evaluate(inputs); }) return op_.evaluate(inputs);
    return {};
  }
  Value fold(std::span<const Value> inputs) const override {
    if constexpr (requires { op_.fold(inputs); }) return op_.fold(inputs);
    return {};
  }
  std::optional<Fusion> fusion(std::span<const Type> inputs) const override {
    if constexpr (requires { op_.fusion(inputs); }) return op_.fusion(inputs);
    return std::nullopt;
  }
  Value loosen(std::span<const Value> inputs) const override {
    if constexpr (requires { op_.loosen(inputs); }) return op_.loosen(inputs);
    return {};
  }
  OpPtr absorb(const Op& consumer, std::size_t operand) const override {
    if constexpr (requires { op_.absorb(consumer, operand); }) return op_.absorb(consumer, operand);
    return nullptr;
  }
  bool batches() const override {
    if constexpr (requires { T::batches; }) return T::batches;
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
