// libtorch's vectors of the instruction set of this build: they know exp, log, sin, ... and
// integers. Simd does what they lack or are slow at: the last elements of a row under a mask
// (libtorch copies them through memory, which makes layer norm over 65 columns 2.3 times as slow
// with AVX2), choices and maxima of one instruction, sums of f64 in a tree.
#pragma once

// First, as it includes the intrinsics with their warnings off.
#include "ops/cpu/simd.h"

#include <ATen/cpu/vec/vec.h>

#include <cstdint>
#include <type_traits>

namespace metronome::METRONOME_ISA {

template <class T>
using Vector = at::vec::Vectorized<T>;

template <class T>
constexpr std::int64_t kLanes = Vector<T>::size();

template <class T>
inline Vector<T> load(const T* p) {
  return Vector<T>::loadu(p);
}

/// The first `count` elements, fewer than a vector; the other lanes are zero.
template <class T>
inline Vector<T> load(const T* p, std::int64_t count) {
  if constexpr (std::is_floating_point_v<T>) {
    return Vector<T>(Simd<T>::load(p, Simd<T>::mask(count)));
  } else {
    // libtorch leaves ones in the other lanes of integers, for divisions.
    return Vector<T>::set(Vector<T>(T(0)), Vector<T>::loadu(p, count), count);
  }
}

template <class T>
inline void store(T* p, const Vector<T>& x) {
  x.store(p);
}

template <class T>
inline void store(T* p, const Vector<T>& x, std::int64_t count) {
  if constexpr (std::is_floating_point_v<T>) {
    Simd<T>::store(p, Simd<T>::mask(count), x);
  } else {
    x.store(p, static_cast<int>(count));
  }
}

}  // namespace metronome::METRONOME_ISA
