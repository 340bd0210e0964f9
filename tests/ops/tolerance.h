// How far a result may lie from libtorch's: the one table.
#pragma once

#include <ATen/ops/eq.h>
#include <fmt/format.h>

#include <cmath>
#include <optional>
#include <string>
#include <string_view>

#include "graph/ir/op.h"
#include "graph/ir/type.h"
#include "tests/aten.h"

namespace metronome {

/// Relative to the largest magnitude of the expected result.
struct Tolerance {
  double f32;
  double f64;
};

constexpr Tolerance kElementwise{1e-6, 1e-14};
constexpr Tolerance kSums{1e-5, 1e-13};

/// A looser row, for the cases of an op whose names end in a text.
struct LooserRow {
  std::string_view op;
  std::string_view name;
  Tolerance tolerance;
};

constexpr LooserRow kLooserRows[] = {
    // The one element is -2.77, where 1 - tanh(x)^2 = 0.016: what tanh's last bit is off counts for
    // sixty times as much, and no larger element hides it.
    {"tanh", "one element", {2e-5, kElementwise.f64}},
    // The same element: 1 + erf(x / sqrt(2)) = 0.0057.
    {"gelu", "one element", {2e-5, kElementwise.f64}},
    // The scale's gradient is a sum of 18,300 products of both signs that cancel to a thousandth:
    // libtorch's own lies 1.2e-5 of the largest from that of f64, and ours 1.4e-5.
    {"batch_norm", "large", {5e-5, kSums.f64}},
};

inline double tolerance(const Op& op, std::string_view name, Element element, bool sums) {
  Tolerance t = sums ? kSums : kElementwise;
  for (const LooserRow& row : kLooserRows) {
    if (row.op == op.name() && name.ends_with(row.name)) t = row.tolerance;
  }
  return element == f64 ? t.f64 : t.f32;
}

/// Returns what is wrong with `actual`, or nothing. Integers and booleans must be equal; NaNs and
/// infinities must stand at the same places.
inline std::optional<std::string> difference(const at::Tensor& actual, const at::Tensor& expected,
                                             double tolerance) {
  if (actual.sizes() != expected.sizes() || actual.scalar_type() != expected.scalar_type()) {
    return fmt::format("{} {} in place of {} {}", c10::toString(actual.scalar_type()),
                       fmt::join(actual.sizes(), "x"), c10::toString(expected.scalar_type()),
                       fmt::join(expected.sizes(), "x"));
  }
  if (actual.numel() == 0) return std::nullopt;
  const at::Tensor a = actual.detach().to(at::kDouble), b = expected.detach().to(at::kDouble);
  const at::Tensor finite = at::isfinite(b);
  const at::Tensor same = at::eq(a, b).logical_or(at::isnan(a).logical_and(at::isnan(b)));
  if (!at::isfinite(a).logical_or(same).all().item<bool>() ||
      !finite.logical_or(same).all().item<bool>()) {
    return "a NaN or an infinity where libtorch has none, or the reverse";
  }
  const double scale = at::where(finite, b.abs(), 0.0).max().item<double>();
  const at::Tensor distance = at::where(finite, a.sub(b).abs(), 0.0);
  const double worst = distance.max().item<double>();
  if (worst <= tolerance * scale) return std::nullopt;
  const auto place = distance.flatten().argmax().item<std::int64_t>();
  return fmt::format(
      "element {}: {:.9g} in place of {:.9g}, {:.2g} of the largest magnitude {:.3g}; "
      "{:.0g} is allowed",
      place, a.flatten()[place].item<double>(), b.flatten()[place].item<double>(), worst / scale,
      scale, tolerance);
}

}  // namespace metronome
