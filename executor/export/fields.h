// A plain struct's members as C++ source: `{3, {1, 2}, 0x1p-1}`, which makes an equal struct.
//
// Members are found by how many values the struct takes in braces, at most twelve.
#pragma once

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "ops/expr/function.h"

namespace metronome::exported {

/// Becomes any member's type.
struct AnyMember {
  template <class T>
  operator T() const;  // NOLINT: implicit on purpose
};

template <class T, std::size_t... I>
constexpr bool takes(std::index_sequence<I...>) {
  return requires { T{(static_cast<void>(I), AnyMember())...}; };
}

/// The number of members of an aggregate.
template <class T, std::size_t N = 12>
constexpr std::size_t member_count() {
  if constexpr (takes<T>(std::make_index_sequence<N>())) {
    return N;
  } else {
    static_assert(N > 0);
    return member_count<T, N - 1>();
  }
}

// ---- one value ---------------------------------------------------------------------------------

inline std::string source_of(bool value) { return value ? "true" : "false"; }

template <std::integral T>
std::string source_of(T value) {
  if constexpr (std::is_signed_v<T>) {
    if (value == std::numeric_limits<std::int64_t>::min()) return "INT64_MIN";
  }
  return fmt::format("{}{}", value, std::is_unsigned_v<T> && sizeof(T) == 8 ? "u" : "");
}

/// All digits.
inline std::string source_of(double value) {
  if (std::isnan(value)) return "NAN";
  if (std::isinf(value)) return value < 0 ? "-INFINITY" : "INFINITY";
  return fmt::format("{:a}", value);
}

inline std::string source_of(Function function) {
  return fmt::format("Function::{}", row_of(function).name);
}

template <class T>
  requires std::is_enum_v<T>
std::string source_of(T value) {
  return fmt::format("Number{{{}}}", static_cast<std::int64_t>(value));
}

inline std::string source_of(std::string_view text) { return fmt::format("{:?}", text); }

template <class T>
std::string source_of(const std::optional<T>& value);
template <class T>
std::string source_of(const std::vector<T>& values);
template <class T, std::size_t N>
std::string source_of(const std::array<T, N>& values);
template <class T>
  requires std::is_aggregate_v<T>
std::string source_of(const T& value);

template <class Range>
std::string list_of(const Range& values) {
  std::string text;
  for (const auto& each : values) text += (text.empty() ? "" : ", ") + source_of(each);
  return text;
}

template <class T>
std::string source_of(const std::optional<T>& value) {
  return value ? source_of(*value) : "std::nullopt";
}
template <class T>
std::string source_of(const std::vector<T>& values) {
  return "{" + list_of(values) + "}";
}
template <class T, std::size_t N>
std::string source_of(const std::array<T, N>& values) {
  return "{{" + list_of(values) + "}}";
}

// ---- structs -----------------------------------------------------------------------------------

template <class... Members>
std::string braces(const Members&... members) {
  std::string text;
  ((text += (text.empty() ? "" : ", ") + source_of(members)), ...);
  return "{" + text + "}";
}

template <class T>
  requires std::is_aggregate_v<T>
std::string source_of(const T& value) {
  constexpr std::size_t kMembers = member_count<T>();
  if constexpr (kMembers == 0) {
    return "{}";
  } else if constexpr (kMembers == 1) {
    const auto& [a] = value;
    return braces(a);
  } else if constexpr (kMembers == 2) {
    const auto& [a, b] = value;
    return braces(a, b);
  } else if constexpr (kMembers == 3) {
    const auto& [a, b, c] = value;
    return braces(a, b, c);
  } else if constexpr (kMembers == 4) {
    const auto& [a, b, c, d] = value;
    return braces(a, b, c, d);
  } else if constexpr (kMembers == 5) {
    const auto& [a, b, c, d, e] = value;
    return braces(a, b, c, d, e);
  } else if constexpr (kMembers == 6) {
    const auto& [a, b, c, d, e, f] = value;
    return braces(a, b, c, d, e, f);
  } else if constexpr (kMembers == 7) {
    const auto& [a, b, c, d, e, f, g] = value;
    return braces(a, b, c, d, e, f, g);
  } else if constexpr (kMembers == 8) {
    const auto& [a, b, c, d, e, f, g, h] = value;
    return braces(a, b, c, d, e, f, g, h);
  } else {
    static_assert(kMembers == 9, "a struct of more members than an op has had so far");
    const auto& [a, b, c, d, e, f, g, h, i] = value;
    return braces(a, b, c, d, e, f, g, h, i);
  }
}

}  // namespace metronome::exported
