// An initialiser is a description (`Init`). Its numbers are made when a storage begins:
//
//   check     the storage's type must be able to hold them, else GraphError
//   fill      numbers that are given are converted one by one, others are drawn in pairs
//   draw      Philox(seed, hash of the path, pair) -> 128 bits -> two multiples of 2^-53 in [0, 1)
//               uniform   low + (high - low) u, for each
//               normal    the transform of Box and Muller, of both
//   round_number  to the element type, and for uniform to a number below the excluded bound
//
// Functions such as `kaiming_uniform` know no storage yet. A wrong argument of theirs stays in
// `Init::wrong` and is refused at the check, which names the storage.
#include "ops/language/init.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <initializer_list>
#include <limits>
#include <numbers>
#include <string>
#include <string_view>
#include <utility>

#include "graph/emit/hash.h"
#include "graph/ir/error.h"
#include "graph/ir/node.h"
#include "ops/rules/by_element.h"
#include "ops/rules/random.h"

namespace metronome {

namespace {

Init symmetric(double bound) { return {Init::Kind::uniform, -bound, bound, {}, ""}; }

// Random ops count replays from zero; this one is never reached, so a node and a storage of one
// path share no numbers.
constexpr std::uint64_t kBeforeTheFirstReplay = ~std::uint64_t{0};

// A multiple of 2^-53 in [0, 1).
double unit(std::uint32_t high, std::uint32_t low) {
  return static_cast<double>((std::uint64_t{high} << 32 | low) >> 11) * 0x1p-53;
}

using Pair = std::array<double, 2>;

Pair uniform_pair(const PhiloxWords& bits, double low, double high) {
  return {low + (high - low) * unit(bits[0], bits[1]), low + (high - low) * unit(bits[2], bits[3])};
}

// Box and Muller (1958). 1 - u lies in (0, 1], where the logarithm is finite.
Pair normal_pair(const PhiloxWords& bits, double mean, double deviation) {
  const double radius = deviation * std::sqrt(-2 * std::log(1 - unit(bits[0], bits[1])));
  const double angle = 2 * std::numbers::pi * unit(bits[2], bits[3]);
  return {mean + radius * std::cos(angle), mean + radius * std::sin(angle)};
}

/// The next number below.
template <class T>
T below(T x) {
  if constexpr (kIsHalf<T>) {
    // Bits count up from zero, on either side of it.
    const bool negative = x <= 0;
    if (x == 0) x.bits = 0x8000;
    x.bits = static_cast<unsigned short>(negative ? x.bits + 1 : x.bits - 1);
    return x;
  } else {
    return std::nextafter(x, -std::numeric_limits<T>::infinity());
  }
}

template <class T>
T round_number(double number, const Init& init) {
  const T result = static_cast<T>(number);
  // Rounding, or the last bit of low + (high - low) u, may reach the bound that is excluded.
  if (init.kind == Init::Kind::uniform && result >= init.b && init.a < init.b) {
    return below(static_cast<T>(init.b));
  }
  return result;
}

template <class T>
void draw(const Storage& storage, std::uint64_t seed, T* out) {
  const Init& init = storage.init;
  const std::int64_t n = storage.type.numel();
  const std::uint64_t key = hash_of(storage.begins_as.empty() ? storage.path : storage.begins_as);
  // Two numbers a block.
  for (std::int64_t i = 0; i < n; i += 2) {
    const auto bits = philox(seed, kBeforeTheFirstReplay, key, static_cast<std::uint64_t>(i / 2));
    const Pair pair = init.kind == Init::Kind::uniform ? uniform_pair(bits, init.a, init.b)
                                                       : normal_pair(bits, init.a, init.b);
    out[i] = round_number<T>(pair[0], init);
    if (i + 1 < n) out[i + 1] = round_number<T>(pair[1], init);
  }
}

template <class T>
void fill(const Storage& storage, std::uint64_t seed, void* bytes) {
  T* out = static_cast<T*>(bytes);
  const Init& init = storage.init;
  const std::int64_t n = storage.type.numel();
  switch (init.kind) {
    case Init::Kind::constant:
      for (std::int64_t i = 0; i < n; ++i) out[i] = static_cast<T>(init.a);
      return;
    case Init::Kind::values:
      for (std::int64_t i = 0; i < n; ++i) out[i] = static_cast<T>(init.values[i]);
      return;
    case Init::Kind::uniform:
    case Init::Kind::normal:
      if constexpr (std::is_floating_point_v<T> || kIsHalf<T>) draw(storage, seed, out);
      return;
  }
}

[[noreturn]] void refuse(const Storage& storage, const std::string& why) {
  const std::string where = storage.line.known() ? to_string(storage.line) + ": " : "";
  throw GraphError(
      {fmt::format("{}\"{}\" cannot begin as {}\n  storage    {}\n  requires   {}", where,
                   storage.path, to_string(storage.init), to_string(storage.type), why)});
}

void check(const Storage& storage) {
  const bool trained = storage.kind == StorageKind::parameter;
  const auto wrong = wrong_init(storage.init, storage.type, trained);
  if (wrong) refuse(storage, wrong->requires_);
}

/// The first of these that an initialiser's argument misses, as `Init::wrong`.
std::string first_wrong(std::initializer_list<std::string> all) {
  for (const std::string& one : all) {
    if (!one.empty()) return one;
  }
  return "";
}

std::string unless_fan(std::string_view initialiser, std::string_view what, std::int64_t fan) {
  if (fan >= 1) return "";
  return fmt::format("a {} of 1 or more for {}, but {}", what, initialiser, fan);
}

std::string unless_gain(std::string_view initialiser, double gain) {
  if (gain >= 0 && std::isfinite(gain)) return "";
  return fmt::format("a finite gain of 0 or more for {}, but {}", initialiser, gain);
}

std::string unless_slope(std::string_view initialiser, double a) {
  if (std::isfinite(a)) return "";
  return fmt::format("a finite slope for {}, but {}", initialiser, a);
}

/// `init` where nothing is wrong; else what refuses.
Init unless(std::string wrong, Init init) {
  init.wrong = std::move(wrong);
  return init;
}

std::string wrong_kaiming(std::string_view initialiser, std::int64_t fan_in, double a) {
  return first_wrong({unless_fan(initialiser, "fan_in", fan_in), unless_slope(initialiser, a)});
}

std::string wrong_xavier(std::string_view initialiser, std::int64_t fan_in, std::int64_t fan_out,
                         double gain) {
  return first_wrong({unless_fan(initialiser, "fan_in", fan_in),
                      unless_fan(initialiser, "fan_out", fan_out), unless_gain(initialiser, gain)});
}

double both(std::int64_t fan_in, std::int64_t fan_out) {
  return static_cast<double>(fan_in) + static_cast<double>(fan_out);
}

}  // namespace

Init zeros() { return constant(0); }
Init ones() { return constant(1); }
Init constant(double number) { return {Init::Kind::constant, number, 0, {}, ""}; }
Init values(std::vector<double> numbers) {
  return {Init::Kind::values, 0, 0, std::move(numbers), ""};
}
Init uniform(double low, double high) { return {Init::Kind::uniform, low, high, {}, ""}; }
Init normal(double mean, double deviation) { return {Init::Kind::normal, mean, deviation, {}, ""}; }

Init kaiming_uniform(std::int64_t fan_in, double a) {
  return unless(wrong_kaiming("kaiming_uniform", fan_in, a),
                symmetric(std::sqrt(6 / (1 + a * a) / static_cast<double>(fan_in))));
}
Init kaiming_normal(std::int64_t fan_in, double a) {
  return unless(wrong_kaiming("kaiming_normal", fan_in, a),
                normal(0, std::sqrt(2 / (1 + a * a) / static_cast<double>(fan_in))));
}
Init xavier_uniform(std::int64_t fan_in, std::int64_t fan_out, double gain) {
  return unless(wrong_xavier("xavier_uniform", fan_in, fan_out, gain),
                symmetric(gain * std::sqrt(6 / both(fan_in, fan_out))));
}
Init xavier_normal(std::int64_t fan_in, std::int64_t fan_out, double gain) {
  return unless(wrong_xavier("xavier_normal", fan_in, fan_out, gain),
                normal(0, gain * std::sqrt(2 / both(fan_in, fan_out))));
}

void require_bias(bool bias, const std::optional<Init>& bias_init) {
  if (!bias && bias_init) throw Requirement{"a bias for its bias_init, but bias is false"};
}

void initialise(const Storage& storage, std::uint64_t seed, void* out) {
  check(storage);
  with_element(storage.type.element,
               [&](auto element) { fill<decltype(element)>(storage, seed, out); });
}

}  // namespace metronome
