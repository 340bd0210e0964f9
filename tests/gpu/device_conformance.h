// Every op's kernels on a device beside libtorch's on the CPU.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "graph/ir/type.h"
#include "ops/rules/case.h"
#include "tests/gpu/device_runs.h"

namespace metronome {

/// Values by every kernel that could run the op, on aligned operands and on operands that are
/// views, each result beside the operands and over those that it may lie over; and the gradients.
/// Within the tolerance table, and nothing written outside of outputs and scratch. On a device that
/// computes nothing only what cannot be launched is a trouble.
Trouble check_on_device(const Case& c, Element element, DevicePools pools);

/// The findings on one op.
struct OpConformance {
  int cases = 0;                      ///< of both element types
  std::vector<std::string> troubles;  ///< "softmax(axis=1) \"odd sizes\" f32: output 0: ..."
};

/// Limits on the cases that are checked.
struct CaseLimits {
  std::int64_t elements = INT64_MAX;  ///< that an operand of a case may have
  /// The number of pools that f64 runs on, the first ones. f32 has the same kernels, and shows what
  /// depends on the order of threads.
  std::size_t pools_of_f64 = SIZE_MAX;

  bool hold(const Case& c) const;
};
/// Several blocks of threads, and little for a sanitizer that watches each access.
inline constexpr CaseLimits kSmallCases{4096};

/// Checks the cases of one op.
struct OpCheck {
  std::string op;  ///< by name
  std::function<OpConformance(DevicePools)> run;
};

/// Returns the checks of all ops that have cases: those with kernels, views, composites (as their
/// expansions), and "batch" and "group". Throws InternalError for an op of the list without cases,
/// which nothing would check. An op whose cases all break the limits has its smallest one.
std::vector<OpCheck> all_op_checks(const CaseLimits& limits = {});

}  // namespace metronome
