// A rule: a member that an op's struct may declare, and the one signature that it must have.
//
//   METRONOME_RULE(LoosenRule, loosen, Value, (std::span<const Value>))
//
// names the rule `LoosenRule`; an op's struct has it if it declares
//
//   Value loosen(std::span<const Value> inputs) const;
//
// and a pass asks for it: `op.has_rule<LoosenRule>()`, `op.ask<LoosenRule>(inputs)`. An op that
// declares such a member in another way is a compile error that shows the right one. graph/rules/
// has a header for each subject, and all.h lists all rules.
#pragma once

#include <concepts>
#include <utility>

#include "graph/ir/op.h"

namespace metronome {

/// The types of a rule: what it gives, and the function that an op is asked through, whose first
/// argument is the op's struct.
template <class Signature>
struct RuleTypes;

template <class R, class... Operands>
struct RuleTypes<R(Operands...)> {
  using Result = R;
  using Function = R(const void*, Operands...);

  /// Calls the member that `Rule` names of an op's struct T.
  template <class Rule, class T>
  static R call(const void* op, Operands... operands) {
    return (
        static_cast<const T*>(op)->*Rule::template member<T>)(std::forward<Operands>(operands)...);
  }
};

}  // namespace metronome

// A name that T and another base both have is ambiguous, whatever it stands for.
#define METRONOME_NAMES(name)              \
  struct Other_##name {                    \
    int name;                              \
  };                                       \
  template <class T>                       \
  struct Both_##name : T, Other_##name {}; \
  template <class T>                       \
  concept names_##name = !requires { &Both_##name<T>::name; };

// In namespace op_rules: has_NAME<T>, true if T declares the const member function NAME as it must
// be; right_NAME<T>(), which refuses one that is declared otherwise.
#define METRONOME_MEMBER(name, Result, operands)                                           \
  namespace metronome::op_rules {                                                          \
  METRONOME_NAMES(name)                                                                    \
  template <class T>                                                                       \
  concept has_##name =                                                                     \
      names_##name<T> && requires { static_cast<Result(T::*) operands const>(&T::name); }; \
  template <class T>                                                                       \
  constexpr bool right_##name() {                                                          \
    constexpr bool right = !names_##name<T> || has_##name<T>;                              \
    static_assert(right, "this rule must be: " #Result " " #name #operands " const");      \
    return right;                                                                          \
  }                                                                                        \
  }

// In namespace op_rules, has_NAME<T> and right_NAME<T> for a static constexpr member.
#define METRONOME_CONSTANT(name, Type)                                                 \
  namespace metronome::op_rules {                                                      \
  METRONOME_NAMES(name)                                                                \
  template <class T>                                                                   \
  concept has_##name = names_##name<T> && std::same_as<decltype(T::name), const Type>; \
  template <class T>                                                                   \
  constexpr bool right_##name() {                                                      \
    constexpr bool right = !names_##name<T> || has_##name<T>;                          \
    static_assert(right, "this rule must be: static constexpr " #Type " " #name);      \
    return right;                                                                      \
  }                                                                                    \
  }

// Members that both kinds of rules have.
#define METRONOME_RULE_BODY(name)                           \
  static constexpr char kTag = 0;                           \
  static RuleId id() { return &kTag; }                      \
  template <class T>                                        \
  static constexpr bool declared = op_rules::has_##name<T>; \
  template <class T>                                        \
  static consteval bool right() {                           \
    return op_rules::right_##name<T>();                     \
  }

// A rule that is a const member function. At global scope.
#define METRONOME_RULE(Rule, name, Result_, operands)                                   \
  METRONOME_MEMBER(name, Result_, operands)                                             \
  namespace metronome {                                                                 \
  struct Rule : RuleTypes<Result_ operands> {                                           \
    METRONOME_RULE_BODY(name)                                                           \
    template <class T>                                                                  \
    static constexpr auto member = static_cast<Result_(T::*) operands const>(&T::name); \
    template <class T>                                                                  \
    static RuleFunction function() {                                                    \
      return reinterpret_cast<RuleFunction>(&Rule::template call<Rule, T>);             \
    }                                                                                   \
  };                                                                                    \
  }

// A rule that is a static constexpr member: an op without it has zero, or false.
#define METRONOME_CONSTANT_RULE(Rule, name, Type)                                          \
  METRONOME_CONSTANT(name, Type)                                                           \
  namespace metronome {                                                                    \
  struct Rule : RuleTypes<Type()> {                                                        \
    METRONOME_RULE_BODY(name)                                                              \
    template <class T>                                                                     \
    static RuleFunction function() {                                                       \
      return reinterpret_cast<RuleFunction>(+[](const void*) -> Type { return T::name; }); \
    }                                                                                      \
  };                                                                                       \
  }
