// An initialiser is a description (`Init`). Its numbers are made when a storage begins:
//
//   check     the storage's type must be able to hold them, else GraphError
//   fill      numbers that are given are converted one by one, others are drawn in pairs
//   draw      Philox(seed, hash of the path, pair) -> 128 bits -> two multiples of 2^-53 in [0, 1),
//             of many pairs at once
//               uniform   low + (high - low) u, for each
//               normal    the transform of Box and Muller, of both
//   round     to the element type, and for uniform to a number below the excluded bound
//
// Functions such as `kaiming_uniform` know no storage yet. A wrong argument of theirs stays in
// `Init::wrong` and is refused at the check, which names the storage.
#include "ops/language/init.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <initializer_list>
#include <limits>
#include <numbers>
#include <numeric>
#include <string>
#include <string_view>
#include <utility>

#include "graph/emit/hash.h"
#include "graph/ir/error.h"
#include "graph/ir/node.h"
#include "ops/kernel/draws.h"
#include "ops/rules/by_element.h"
#include "ops/rules/random.h"

namespace metronome {

namespace {

Init symmetric(double bound) { return {Init::Kind::uniform, -bound, bound, {}, ""}; }

// Random ops count replays from zero; this one is never reached, so a node and a storage of one
// path share no numbers.
constexpr std::uint64_t kBeforeTheFirstReplay = ~std::uint64_t{0};

/// Numbers in [0, 1), multiples of 2^-53, two of each block of random bits.
constexpr std::int64_t kBlocksAtOnce = 64;
using Units = std::array<double, 2 * kBlocksAtOnce>;

/// Those of blocks first, first + 1, ... as `philox` makes them one by one. Each word of the cipher
/// stands in an array, so that one instruction computes it for several blocks: the room's own -O1
/// makes none such.
__attribute__((optimize("O3"))) void make_units(PhiloxKey key, std::uint64_t first, Units& units) {
  std::array<std::uint32_t, kBlocksAtOnce> c0, c1, c2, c3;
  for (std::int64_t j = 0; j < kBlocksAtOnce; ++j) {
    const std::uint64_t block = first + static_cast<std::uint64_t>(j);
    c0[j] = static_cast<std::uint32_t>(block);
    c1[j] = static_cast<std::uint32_t>(block >> 32);
    c2[j] = static_cast<std::uint32_t>(kBeforeTheFirstReplay);
    c3[j] = static_cast<std::uint32_t>(kBeforeTheFirstReplay >> 32);
  }
  for (int round = 0; round < 10; ++round) {
    const std::uint32_t k0 = key[0], k1 = key[1];
    for (std::int64_t j = 0; j < kBlocksAtOnce; ++j) {
      const std::uint64_t p0 = std::uint64_t{0xD2511F53} * c0[j];
      const std::uint64_t p1 = std::uint64_t{0xCD9E8D57} * c2[j];
      c0[j] = static_cast<std::uint32_t>(p1 >> 32) ^ c1[j] ^ k0;
      c2[j] = static_cast<std::uint32_t>(p0 >> 32) ^ c3[j] ^ k1;
      c1[j] = static_cast<std::uint32_t>(p1);
      c3[j] = static_cast<std::uint32_t>(p0);
    }
    key[0] += 0x9E3779B9u;
    key[1] += 0xBB67AE85u;
  }
  // The upper 53 bits of two words: the sum is exact.
  const auto unit = [](std::uint32_t high, std::uint32_t low) {
    return (static_cast<double>(high) * 0x1p21 + static_cast<double>(low >> 11)) * 0x1p-53;
  };
  for (std::int64_t j = 0; j < kBlocksAtOnce; ++j) {
    units[2 * j] = unit(c0[j], c1[j]);
    units[2 * j + 1] = unit(c2[j], c3[j]);
  }
}

using Pair = std::array<double, 2>;

// Box and Muller (1958). 1 - u lies in (0, 1], where the logarithm is finite.
Pair normal_pair(const Pair& units, double mean, double deviation) {
  const double radius = deviation * std::sqrt(-2 * std::log(1 - units[0]));
  const double angle = 2 * std::numbers::pi * units[1];
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

/// By the inverse of the distribution function between the bounds.
Pair truncated_pair(const Pair& units, const Init& init) {
  // The lower tail has the more digits: bounds above the mean are mirrored.
  const bool mirrored = init.low >= init.a;
  const double least = mirrored ? 2 * init.a - init.high : init.low;
  const double most = mirrored ? 2 * init.a - init.low : init.high;
  const auto below = [&](double x) {
    return 0.5 * std::erfc((init.a - x) / init.b * std::sqrt(0.5));
  };
  const double low = below(least), width = below(most) - low;
  Pair pair;
  for (std::size_t i = 0; i < 2; ++i) {
    const double u = units[i] + 0x1p-54;
    const double x = init.a + init.b * cuda::inverse_normal(low + width * u);
    pair[i] = std::clamp(mirrored ? 2 * init.a - x : x, init.low, init.high);
  }
  return pair;
}

/// Makes the columns of a matrix [rows, columns], rows >= columns, orthogonal and of length 1, each
/// to those before it: Gram and Schmidt's way, twice, so that rounding leaves them so.
void make_orthogonal(std::vector<double>& x, std::int64_t rows, std::int64_t columns) {
  const auto at = [&](std::int64_t i, std::int64_t j) -> double& {
    return x[static_cast<std::size_t>(j * rows + i)];  // column by column
  };
  const auto product = [&](std::int64_t j, std::int64_t k) {
    // Eight sums at once, as each waits for its last addition.
    std::array<double, 8> sums = {};
    for (std::int64_t i = 0; i < rows; ++i) sums[i % 8] += at(i, j) * at(i, k);
    return std::accumulate(sums.begin(), sums.end(), 0.0);
  };
  for (std::int64_t j = 0; j < columns; ++j) {
    for (int pass = 0; pass < 2; ++pass) {
      for (std::int64_t k = 0; k < j; ++k) {
        const double along = product(j, k);
        for (std::int64_t i = 0; i < rows; ++i) at(i, j) -= along * at(i, k);
      }
    }
    const double length = std::sqrt(product(j, j));
    for (std::int64_t i = 0; i < rows; ++i) at(i, j) /= length;
  }
}

/// Row-major, of normal numbers that are row-major if there are more columns.
std::vector<double> orthogonal_matrix(std::vector<double> normals, std::int64_t rows,
                                      std::int64_t columns, double gain) {
  make_orthogonal(normals, std::max(rows, columns), std::min(rows, columns));
  std::vector<double> matrix(normals.size());
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < columns; ++j) {
      const std::int64_t from = rows >= columns ? j * rows + i : i * columns + j;
      matrix[static_cast<std::size_t>(i * columns + j)] =
          gain * normals[static_cast<std::size_t>(from)];
    }
  }
  return matrix;
}

/// Calls `put(begin, units, count)` until n numbers were put.
template <class Put>
void draw_units(PhiloxKey key, std::int64_t n, Put put) {
  Units units;
  for (std::int64_t i = 0; i < n; i += 2 * kBlocksAtOnce) {
    make_units(key, static_cast<std::uint64_t>(i / 2), units);
    put(i, units, std::min(n - i, 2 * kBlocksAtOnce));
  }
}

/// Calls `put(i, number)` for each of n numbers, which `pair_of` makes of two units at once.
template <class PairOf, class Put>
void draw_pairs(PhiloxKey key, std::int64_t n, PairOf pair_of, Put put) {
  draw_units(key, n, [&](std::int64_t begin, const Units& units, std::int64_t count) {
    for (std::int64_t i = 0; i < count; i += 2) {
      const Pair pair = pair_of(Pair{units[i], units[i + 1]});
      put(begin + i, pair[0]);
      if (i + 1 < count) put(begin + i + 1, pair[1]);
    }
  });
}

template <class T>
void draw_uniform(const Init& init, PhiloxKey key, std::int64_t n, T* out) {
  const double low = init.a, high = init.b;
  // Rounding, or the last bit of low + (high - low) u, may reach the bound that is excluded.
  const T most = below(static_cast<T>(high));
  draw_units(key, n, [=](std::int64_t begin, const Units& units, std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) {
      const T number = static_cast<T>(low + (high - low) * units[i]);
      out[begin + i] = number >= high && low < high ? most : number;
    }
  });
}

template <class T>
void draw(const Storage& storage, std::uint64_t seed, T* out) {
  const Init& init = storage.init;
  const std::int64_t n = storage.type.numel();
  const PhiloxKey key =
      philox_key(seed, hash_of(storage.begins_as.empty() ? storage.path : storage.begins_as));
  const auto round = [out](std::int64_t i, double number) { out[i] = static_cast<T>(number); };
  const auto normals = [](double mean, double deviation) {
    return [=](const Pair& units) { return normal_pair(units, mean, deviation); };
  };
  switch (init.kind) {
    case Init::Kind::uniform:
      return draw_uniform(init, key, n, out);
    case Init::Kind::normal:
      return draw_pairs(key, n, normals(init.a, init.b), round);
    case Init::Kind::truncated_normal:
      return draw_pairs(
          key, n, [&](const Pair& units) { return truncated_pair(units, init); }, round);
    default:
      break;
  }
  if (n == 0) return;
  std::vector<double> made(static_cast<std::size_t>(n));
  draw_pairs(key, n, normals(0, 1),
             [&](std::int64_t i, double number) { made[static_cast<std::size_t>(i)] = number; });
  const std::int64_t rows = storage.type.shape[0];
  made = orthogonal_matrix(std::move(made), rows, n / rows, init.a);
  for (std::int64_t i = 0; i < n; ++i) round(i, made[static_cast<std::size_t>(i)]);
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
      if (const std::byte* bytes = init.values.bytes_of(storage.type.element)) {
        std::memcpy(out, bytes, storage.type.bytes());
        return;
      }
      for (std::int64_t i = 0; i < n; ++i) {
        out[i] = static_cast<T>(init.values[static_cast<std::size_t>(i)]);
      }
      return;
    case Init::Kind::uniform:
    case Init::Kind::normal:
    case Init::Kind::truncated_normal:
    case Init::Kind::orthogonal:
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
Init values(InitialNumbers numbers) { return {Init::Kind::values, 0, 0, std::move(numbers), ""}; }
Init uniform(double low, double high) { return {Init::Kind::uniform, low, high, {}, ""}; }
Init normal(double mean, double deviation) { return {Init::Kind::normal, mean, deviation, {}, ""}; }

Init truncated_normal(double mean, double deviation, double low, double high) {
  return {Init::Kind::truncated_normal, mean, deviation, {}, "", low, high};
}
Init orthogonal(double gain) {
  return unless(unless_gain("orthogonal", gain), {Init::Kind::orthogonal, gain, 0, {}, ""});
}

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
