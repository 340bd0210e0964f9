// Numbers at the edges of a floating type, and what it means to be wrong there.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "ops/cpu/table.h"

namespace metronome {

/// The type of the numbers that results are compared with: wide enough to be exact beside T.
template <class T>
struct WiderType {
  using type = double;
};
template <>
struct WiderType<double> {
  using type = long double;
};
template <class T>
using Wider = typename WiderType<T>::type;

/// Zeros, the ends of the range, subnormal numbers, whole numbers, points where functions saturate,
/// turn or overflow, infinities, NaN; of both signs.
template <class T>
std::vector<T> edge_values() {
  using Limits = std::numeric_limits<T>;
  std::vector<T> sizes = {0,
                          Limits::denorm_min(),
                          Limits::min() / 100,
                          Limits::min(),
                          1e-30,
                          1e-20,
                          1e-10,
                          1e-4,
                          0.1,
                          0.25,
                          0.5,
                          0.625,
                          T(0.999999),
                          1,
                          1.5,
                          2,
                          2.5,
                          3,
                          4.5,
                          5.5,
                          7.91,
                          9.02,
                          9.99,
                          12,
                          16.7,
                          20,
                          40,
                          87.4,
                          88.8,
                          95,
                          103.9,
                          1000,
                          65504,
                          16777216,
                          1e10,
                          1e15,
                          1.8e19,
                          1e20,
                          1e30,
                          1e38};
  if (sizeof(T) == 8) {
    for (const double x : {1e-300, 1e-160, 36.8, 700.0, 709.7, 745.0, 1e100, 1e154, 1e300}) {
      sizes.push_back(static_cast<T>(x));
    }
  }
  sizes.push_back(Limits::max());
  sizes.push_back(Limits::infinity());
  std::vector<T> result = {Limits::quiet_NaN()};
  for (const T x : sizes) result.insert(result.end(), {x, -x});
  return result;
}

/// Some numbers of every binade, of both signs.
template <class T>
std::vector<T> all_sizes() {
  std::mt19937_64 generator(20240229);
  std::vector<T> result;
  const int step = sizeof(T) == 4 ? 1 : 8;
  for (int e = std::numeric_limits<T>::min_exponent - std::numeric_limits<T>::digits;
       e < std::numeric_limits<T>::max_exponent; e += std::abs(e) < 8 ? 1 : step) {
    for (int k = 0; k < (std::abs(e) < 8 ? 256 : 4); ++k) {
      const double mantissa = 1 + static_cast<double>(generator() >> 11) * 0x1p-53;
      const T x = static_cast<T>(std::ldexp(mantissa, e));
      if (std::isfinite(x)) result.insert(result.end(), {x, -x});
    }
  }
  return result;
}

/// How far x is from the exact result, in units in the last place that T has at that result's size
/// or at `size`, the larger; infinite where one is NaN and the other not, and where x is finite and
/// the exact result far beyond the range.
template <class T>
double ulps(T x, Wider<T> exact, Wider<T> size = 0) {
  using Limits = std::numeric_limits<T>;
  if (std::isnan(x) || std::isnan(exact)) {
    return std::isnan(x) == std::isnan(exact) ? 0 : HUGE_VAL;
  }
  const auto end = std::ldexp(static_cast<Wider<T>>(1), Limits::max_exponent);
  if (std::isinf(exact) || std::abs(exact) > end) {
    if (std::isinf(x) && (x > 0) == (exact > 0)) return 0;
    if (std::abs(exact) > 1.001 * end) return HUGE_VAL;
    exact = exact > 0 ? end : -end;
  } else if (std::isinf(x) && std::abs(exact) < 0.999 * end) {
    return HUGE_VAL;
  }
  const Wider<T> found = std::isinf(x) ? (x > 0 ? end : -end) : static_cast<Wider<T>>(x);
  size = std::max(std::abs(exact), std::min(size, end));
  const int exponent =
      size == 0 ? Limits::min_exponent : std::max(std::ilogb(size) + 1, Limits::min_exponent);
  return static_cast<double>(std::abs(found - exact) /
                             std::ldexp(static_cast<Wider<T>>(1), exponent - Limits::digits));
}

/// Ulps that are allowed whatever libtorch's are: the portable kernels round twice where others
/// fuse.
inline double allowed_ulps() { return cpu_table().isa() == "portable" ? 6 : 2; }

/// Results of one function. A defect is an error above `allowed_ulps` and above twice
/// libtorch's, taken at its worst over `key`, which names numbers of like size. If libtorch's
/// result is of another class than the exact one (NaN, infinite), either class will do.
template <class T>
class Tally {
 public:
  explicit Tally(std::string name) : name_(std::move(name)) {}

  /// `place` says of what numbers, where it is a defect. Errors are measured at `size` where that
  /// is larger than the exact result: a sum's, of what was summed.
  void add(int key, T ours, T theirs, Wider<T> exact, std::string place, Wider<T> size = 0) {
    results_.push_back({key, ours, theirs, exact, std::move(place), size});
  }

  /// The table's row; what is wrong, or nothing. Errors of `least` ulp and less are never wrong.
  std::string judge(double least = allowed_ulps()) const {
    std::map<int, double> worst;
    for (const Result& r : results_) {
      const double theirs = r.error(r.theirs);
      if (std::isfinite(theirs)) worst[r.key] = std::max(worst[r.key], theirs);
    }
    double ours_worst = 0, theirs_worst = 0;
    int apart = 0, defects = 0;
    std::string first;
    for (const Result& r : results_) {
      const double ours = r.error(r.ours), theirs = r.error(r.theirs);
      const bool other_class = !std::isfinite(theirs);
      apart += other_class;
      if (std::isfinite(ours)) ours_worst = std::max(ours_worst, ours);
      if (!other_class) theirs_worst = std::max(theirs_worst, theirs);
      const bool as_theirs = other_class && std::isnan(r.ours) == std::isnan(r.theirs) &&
                             std::isfinite(r.ours) == std::isfinite(r.theirs);
      if (ours <= std::max(least, 2 * worst[r.key]) || as_theirs) continue;
      if (defects++ == 0) {
        first = fmt::format("{}: {:.9g} in place of {:.9g}, libtorch {:.9g}", r.place, r.ours,
                            r.exact, r.theirs);
      }
    }
    fmt::print("{:<34} {:>7} {:>12.4g} {:>12.4g} {:>6} {:>6}  {}\n", name_, results_.size(),
               ours_worst, theirs_worst, apart, defects, first);
    return defects == 0 ? "" : fmt::format("{}: {} defects, {}", name_, defects, first);
  }

 private:
  struct Result {
    int key;
    T ours, theirs;
    Wider<T> exact;
    std::string place;
    Wider<T> size;

    double error(T x) const { return ulps<T>(x, exact, size); }
  };
  std::string name_;
  std::vector<Result> results_;
};

inline void print_heading(const std::string& what) {
  fmt::print("{}\n{:<34} {:>7} {:>12} {:>12} {:>6} {:>6}\n", what, "function", "values",
             "ours, ulp", "libtorch's", "apart", "wrong");
}

/// Numbers of like size.
template <class T>
int size_key(T x) {
  if (std::isnan(x) || std::isinf(x) || x == 0) return std::isnan(x) ? 9000 : x > 0 ? 9001 : 9002;
  const int exponent = std::ilogb(x), far = exponent < 0 ? -5000 : 5000;
  return (x > 0 ? 1 : -1) * (std::abs(exponent) < 6 ? exponent + 100 : exponent / 16 + far);
}

}  // namespace metronome
