// One vector register of f32 or f64 for the instruction set of this build. Registers are the
// compiler's vector types: + - * / work on them element by element. `Simd<T>` has, besides:
//
//   mask(count)            the first `count` elements, 0 <= count <= kWidth
//   load(p, m), store(p, m, x)   under a mask: other elements are 0, or stay
//   fma(a, b, c)           a * b + c; rounded once, but twice by the portable set
//   max(a, b)              a if it is larger, else b: so b where one of them is NaN; `min` likewise
//   select(m, x, y)        x where the mask is set, else y
//   if_less(a, b, yes, no) yes where a < b, else no
//   sum(x), maximum(x)     over the elements, in pairs of halves
#pragma once

#if defined(__AVX512F__)
#include "ops/cpu/simd_avx512.h"
#elif defined(__AVX2__)
#include "ops/cpu/simd_avx2.h"
#else
#include "ops/cpu/simd_portable.h"
#endif

namespace metronome::METRONOME_ISA {

#if defined(__AVX512F__)
template <class T>
using Simd = Avx512<T>;
#elif defined(__AVX2__)
template <class T>
using Simd = Avx2<T>;
#else
template <class T>
using Simd = Portable<T>;
#endif

}  // namespace metronome::METRONOME_ISA
