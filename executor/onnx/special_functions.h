// Functions that ONNX or ONNX Runtime lacks, in operators that there are.
#pragma once

#include "executor/onnx/term.h"

namespace metronome::onnx {

/// log(1 + x) and exp(x) - 1, with their digits near 0.
Term log1p(const Term& x);
Term expm1(const Term& x);
/// 1 - erf(x), with its digits in the tail.
Term erfc(const Term& x);
Term erf(const Term& x);
/// In radians. ONNX Runtime has operators of f32 for the first three.
Term atan(const Term& x);
Term asin(const Term& x);
Term acos(const Term& x);
/// The angle of the point (x, y); signs of zeros count, as in C.
Term atan2(const Term& y, const Term& x);

}  // namespace metronome::onnx
