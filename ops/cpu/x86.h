// The intrinsics of x86, and the numbers by which they know orders and roundings.
#pragma once

// GCC 12 takes the undefined operand of its own AVX-512 intrinsics for a mistake of their users.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#include <immintrin.h>
#pragma GCC diagnostic pop

#include "ops/cpu/simd_forms.h"

namespace metronome::METRONOME_ISA {

/// The numbers of intrinsics: constants without optimization, too.
consteval int number_of(Rounding mode) {
  switch (mode) {
    case Rounding::to_nearest:
      return _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
    case Rounding::down:
      return _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC;
    case Rounding::up:
      return _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC;
    case Rounding::to_zero:
      break;
  }
  return _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC;
}
consteval int number_of(Order order) {
  switch (order) {
    case Order::equal:
      return _CMP_EQ_OQ;
    case Order::not_equal:
      return _CMP_NEQ_UQ;
    case Order::less:
      return _CMP_LT_OQ;
    case Order::less_equal:
      break;
  }
  return _CMP_LE_OQ;
}

}  // namespace metronome::METRONOME_ISA
