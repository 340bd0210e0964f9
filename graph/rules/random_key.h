// The key of a random op: its struct's member `key`, a hash of the path of its node, fixed when the
// node is made. The op's first two inputs are the seed and the replay counter.
#pragma once

#include <concepts>
#include <cstdint>
#include <optional>

#include "graph/rules/rule.h"

namespace metronome {

/// An op's struct that has a key.
template <class T>
concept Keyed = requires(T op, std::uint64_t key) { op.key = key; };

/// The key; absent for ops that draw nothing.
struct KeyRule : RuleTypes<std::optional<std::uint64_t>()> {
  static constexpr char kTag = 0;
  static RuleId id() { return &kTag; }
  template <class T>
  static constexpr bool declared = Keyed<T>;
  template <class T>
  static consteval bool right() {
    return true;
  }
  template <class T>
  static RuleFunction function() {
    return reinterpret_cast<RuleFunction>(
        +[](const void* op) -> Result { return static_cast<const T*>(op)->key; });
  }
};

/// The op with its key set, if that is still 0; null for ops that draw nothing.
struct WithKeyRule : RuleTypes<OpPtr(std::uint64_t)> {
  static constexpr char kTag = 0;
  static RuleId id() { return &kTag; }
  template <class T>
  static constexpr bool declared = Keyed<T>;
  template <class T>
  static consteval bool right() {
    return true;
  }
  template <class T>
  static RuleFunction function() {
    return reinterpret_cast<RuleFunction>(+[](const void* op, std::uint64_t key) -> OpPtr {
      T keyed = *static_cast<const T*>(op);
      if (keyed.key == 0) keyed.key = key;
      return make_op(std::move(keyed));
    });
  }
};

}  // namespace metronome
