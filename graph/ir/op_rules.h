// The rules of an op, in five groups, with the one signature of each. A rule that is misdeclared is
// a compile error that shows its signature. Class Op (graph/ir/op.h) tells what each means.
#pragma once

#include <concepts>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "graph/ir/op.h"

// RULE(name, result, operands in parentheses): a const member function.
// CONSTANT(name, type): a static constexpr member.
#define METRONOME_OP_RULES(RULE, CONSTANT)                                         \
  /* Shape: what it makes, and of what. `infer` is the one that all have. */       \
  RULE(infer, Types, (std::span<const Type>))                                      \
  RULE(attributes, std::string, ())                                                \
  RULE(halves, bool, ())                                                           \
  RULE(require_training, void, (std::span<const Type>))                            \
  RULE(flops, double, (std::span<const Type>, std::span<const Type>))              \
  RULE(evaluate, Values, (std::span<const Value>))                                 \
  /* Gradient: `vjp`, `lower`, both, or differentiable = false. */                 \
  RULE(vjp, Values, (const Vjp&))                                                  \
  RULE(lower, Values, (std::span<const Value>))                                    \
  CONSTANT(differentiable, bool)                                                   \
  CONSTANT(saved, int)                                                             \
  /* Memory: where results may lie. */                                             \
  RULE(alias, std::optional<Alias>, (std::span<const Type>))                       \
  RULE(in_place, std::vector<InPlace>, ())                                         \
  RULE(inside, std::vector<Inside>, (std::span<const Type>))                       \
  RULE(laid_out, std::optional<LaidOutOp>, (std::span<const Type>, const Layout&)) \
  /* Fusion: how it is computed with others, or as others. */                      \
  RULE(fold, Value, (std::span<const Value>))                                      \
  RULE(fusion, std::optional<Fusion>, (std::span<const Type>))                     \
  RULE(loosen, Value, (std::span<const Value>))                                    \
  RULE(absorb, OpPtr, (const Op&, std::size_t))                                    \
  RULE(gathered, Value, (std::span<const Addend>))                                 \
  RULE(gathers_with, bool, (const Op&))                                            \
  CONSTANT(batches, bool)                                                          \
  /* Control: when it runs, what it reads, what it tells. */                       \
  RULE(read_if, std::vector<Condition>, (std::size_t))                             \
  RULE(idle_unless, int, (InPlace))                                                \
  RULE(indexing, std::optional<Indexing>, (std::span<const Type>))                 \
  RULE(moves, bool, ())                                                            \
  RULE(on_rank, OpPtr, (std::span<const Type>, int))                               \
  CONSTANT(effects, bool)                                                          \
  CONSTANT(prompt, bool)

namespace metronome::op_rules {

// A name that T and another base both have is ambiguous, whatever it stands for.
#define METRONOME_NAMES(rule)              \
  struct Other_##rule {                    \
    int rule;                              \
  };                                       \
  template <class T>                       \
  struct Both_##rule : T, Other_##rule {}; \
  template <class T>                       \
  concept names_##rule = !requires { &Both_##rule<T>::rule; };

#define METRONOME_RULE(rule, Result, operands)                                             \
  METRONOME_NAMES(rule)                                                                    \
  template <class T>                                                                       \
  concept has_##rule =                                                                     \
      names_##rule<T> && requires { static_cast<Result(T::*) operands const>(&T::rule); }; \
  template <class T>                                                                       \
  constexpr bool right_##rule() {                                                          \
    constexpr bool right = !names_##rule<T> || has_##rule<T>;                              \
    static_assert(right, "this rule must be: " #Result " " #rule #operands " const");      \
    return right;                                                                          \
  }

#define METRONOME_CONSTANT(rule, Constant)                                                 \
  METRONOME_NAMES(rule)                                                                    \
  template <class T>                                                                       \
  concept has_##rule = names_##rule<T> && std::same_as<decltype(T::rule), const Constant>; \
  template <class T>                                                                       \
  constexpr bool right_##rule() {                                                          \
    constexpr bool right = !names_##rule<T> || has_##rule<T>;                              \
    static_assert(right, "this rule must be: static constexpr " #Constant " " #rule);      \
    return right;                                                                          \
  }

METRONOME_OP_RULES(METRONOME_RULE, METRONOME_CONSTANT)
#undef METRONOME_RULE
#undef METRONOME_CONSTANT
#undef METRONOME_NAMES

/// True where each rule that T names is declared as it must be; else an error that says how.
template <class T>
consteval bool right() {
#define METRONOME_RIGHT(rule, ...) &&right_##rule<T>()
  return true METRONOME_OP_RULES(METRONOME_RIGHT, METRONOME_RIGHT);
#undef METRONOME_RIGHT
}

}  // namespace metronome::op_rules
